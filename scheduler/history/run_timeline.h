// The timeline of a run, for people: who came and went, what ended each generation, and what that
// cost. Made from the event log. Pure.

#ifndef SHOAL_SCHEDULER_HISTORY_RUN_TIMELINE_H_
#define SHOAL_SCHEDULER_HISTORY_RUN_TIMELINE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "scheduler/history/stored_event.h"

namespace shoal::scheduler {

// What became of the steps before a generation.
enum class StepsBefore : std::uint8_t {
  kNone,          // it is the first one
  kCheckpointed,  // a checkpoint had them all when the generation before ended
  kSaved,         // those who held them saved them for it
  kKept,          // it went on with what its members held in memory
  kTrainedAgain,  // those since a checkpoint were lost
};
std::string_view StepsBeforeName(StepsBefore steps);

// A position that another peer has than in the plan before. None: nobody, as one of the two plans
// has no such position.
struct PositionChange {
  std::uint32_t pipeline = 0, stage = 0;
  std::optional<PeerId> from, to;
};

struct Repair {
  std::uint64_t generation = 0;
  std::uint32_t pipelines = 0;  // 0: not known
  StepsBefore steps_before = StepsBefore::kNone;
  std::uint64_t steps_lost = 0;
  // From the last step before it to its first; none: it made none, there was none before, or an
  // older version stored the log.
  std::optional<double> seconds_without_step;
  bool at_most = false;  // the last step before came at some time since its losses were stored
  std::vector<PositionChange> changes;
};

struct TimelineEntry {
  enum class Kind : std::uint8_t {
    kBegan,      // the run
    kScheduler,  // was started again
    kRestored,   // the run, from a copy of its checkpoint of `step`
    kJoined,     // `peer`, `name`
    kLeft,       // the same, `text`: why
    kRepair,     // a generation began at `step`, the first one among them
    kCounting,   // from `step` on `pipelines` count; `text`: why fewer
    kGoesOn,     // the generation in progress before the scheduler was started again, at `step`
    kEnded,      // repair.generation, after `step` applied steps, `text`: why
    kSkipped,    // `step`, `text`: whose gradient
    kPaused,     // `text`: why
    kResumed,
    kFinished,  // after `step` steps
  };
  Kind kind = Kind::kBegan;
  std::optional<std::uint64_t> at_ms = {};  // ms since 1970, UTC
  PeerId peer = {};
  std::string name = {}, text = {};
  std::uint64_t unstored = 0;  // joins and leaves before it that were too many to be stored
  std::uint64_t step = 0;
  std::vector<std::uint32_t> pipelines = {};
  Repair repair = {};
};
std::string_view TimelineKindName(TimelineEntry::Kind kind);

// In order. `stages` of a pipeline; 0: not known, then positions are not compared.
std::vector<TimelineEntry> MakeTimeline(std::span<const TimedEvent> events, std::uint32_t stages);

// What members were called last, as far as the log says.
std::map<PeerId, std::string> MemberNames(std::span<const TimedEvent> events);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_RUN_TIMELINE_H_
