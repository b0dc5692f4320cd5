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

// Thread: one at a time.
class RunTimeline {
 public:
  // `stages` of a pipeline; 0: not known, then positions are not compared.
  explicit RunTimeline(std::uint32_t stages) : stages_(stages) {}

  // In the order of the log.
  void Add(const TimedEvent& timed);

  const std::vector<TimelineEntry>& entries() const { return entries_; }
  // What members were called last, as far as the log says.
  const std::map<PeerId, std::string>& names() const { return names_; }
  std::optional<RunId> run() const { return run_; }

 private:
  // When the newest step was made, as far as it is known.
  struct Stepped {
    std::optional<std::uint64_t> at_ms;
    bool at_most = false;  // it may have been later
  };

  void On(const RunBegan& event);
  void On(const SchedulerStarted&);
  void On(const MemberCame& event);
  void On(const MemberGone& event);
  void On(const PlanMade& event);
  void On(const PipelinesCount& event);
  void On(const GenerationEnded& event);
  void On(const GenerationGoesOn& event);
  void On(const LossesKnown& event);
  void On(const StepSkipped& event);
  void On(const CheckpointMade& event);
  void On(const RunHeld& event);
  void On(const RunReleased&);
  void On(const RunRestored& event);
  void On(const RunFinished& event);
  template <typename Other>
  void On(const Other&) {}

  TimelineEntry& New(TimelineEntry::Kind kind);
  StepsBefore Before(const PlanMade& event) const;
  std::vector<PositionChange> Changes(const std::vector<PeerId>& hosts) const;
  void FirstStep();

  std::uint32_t stages_;
  std::vector<TimelineEntry> entries_;
  std::map<PeerId, std::string> names_;
  std::optional<RunId> run_;
  std::optional<std::uint64_t> at_ms_;  // of the event at hand

  std::uint64_t generation_ = 0;
  std::vector<PeerId> hosts_;
  std::uint64_t steps_ = 0;
  std::uint64_t checkpoint_ = 0;         // steps of the newest one
  std::uint64_t checkpoint_at_end_ = 0;  // the same when the newest generation ended
  bool running_ = false;                 // a generation is in progress
  std::optional<std::size_t> stepless_;  // its entry, until its first step
  std::optional<std::size_t> end_;       // entry of the newest end, until the next plan
  std::optional<std::size_t> held_;      // entry of the hold, until it is released
  std::optional<Stepped> stepped_;
};

RunTimeline MakeTimeline(std::span<const TimedEvent> events, std::uint32_t stages);

// What members were called last, as far as the log says.
std::map<PeerId, std::string> MemberNames(std::span<const TimedEvent> events);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_RUN_TIMELINE_H_
