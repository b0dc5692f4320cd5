// StoredEvent: what of a run survives a restart of the scheduler, and its form in the event log:
// one JSON object each, with "type" first.

#ifndef SHOAL_SCHEDULER_HISTORY_STORED_EVENT_H_
#define SHOAL_SCHEDULER_HISTORY_STORED_EVENT_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "net/identity/join_ticket.h"
#include "proto/control.pb.h"
#include "scheduler/config/position.h"
#include "scheduler/plan/dealing.h"

namespace shoal::scheduler {

// First event of every log. `config_hash` covers what may not change during a run.
struct RunBegan {
  RunId run;
  std::uint64_t config_hash = 0;
};
// How samples become micro-batches, and hosts pipelines: what the ledger is recomputed with.
// Constant for a run; a log that an older version began gets it when the run goes on.
struct SampleOrder {
  std::uint64_t seed = 0;
  std::uint64_t train_rows = 0;
  std::uint32_t micro_batches = 0, micro_batch_rows = 0;  // per step; samples of each
  std::uint32_t stages = 0;                               // of each pipeline
  bool operator==(const SampleOrder&) const = default;
};
struct RunStarted {};
// The history up to here comes from a copy (scheduler/mirror/run_restore.h), which holds the
// checkpoint of `step`; what came later is not known. Generations go on behind `generation`, above
// any that peers may have seen.
struct RunRestored {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
};
// The scheduler was started on this log again.
struct SchedulerStarted {};
// A member connected, or is gone. `unstored`: comings and goings before it that were too many to be
// stored.
struct MemberCame {
  PeerId peer;
  std::string name;
  std::uint64_t unstored = 0;
};
struct MemberGone {
  PeerId peer;
  std::string name, reason;
  std::uint64_t unstored = 0;
};
// A generation began; losses from `resume_step` on are void.
struct PlanMade {
  std::uint64_t generation = 0;
  std::uint64_t resume_step = 0;
  std::vector<PeerId> hosts = {};  // by pipeline, then stage; older logs have none
  Homes homes = {};                // of its pipelines; none in older logs
};
// From `step` on, these pipelines of the newest plan compute the micro-batches, dealt out as
// plan/dealing.h says. Until one comes, all pipelines of the plan do.
struct PipelinesCount {
  std::uint64_t step = 0;
  std::vector<std::uint32_t> pipelines;  // ascending, not empty
  // The steps before this one are dealt out already: these pipelines are left of those that had
  // them. 0: none is.
  std::uint64_t dealt_until = 0;
  std::string cause = {};  // for people: why some are not left; empty: more count than before
  // Positions (pipeline, stage) that nobody has any more, ascending; in no older log.
  std::vector<Position> lost = {};
  // Pipelines that are out of the plan as a whole; older logs alone.
  std::vector<std::uint32_t> gone = {};

  // Whether it changes no counting: those that are lost only followed.
  bool only_followers() const { return dealt_until == 0 && !lost.empty(); }
  // Where they begin to count for nothing but themselves.
  std::uint64_t anew() const { return std::max(step, dealt_until); }
};
// The newest generation ended after `step` applied steps, all of whose losses are known. A second
// one says more of the cause.
struct GenerationEnded {
  std::uint64_t step = 0;
  std::string cause;
  std::optional<std::uint64_t> idle_ms = {};  // since its last step; none: it made no step
};
// The scheduler was started again, and the newest generation had not ended: it goes on, after
// `step` applied steps, all of whose losses are known.
struct GenerationGoesOn {
  std::uint64_t step = 0;
};
struct LossesKnown {
  std::uint64_t first_step = 0;
  std::vector<double> losses;  // finite
};
// Held-out loss of the weights after `step` steps, finite.
struct HeldOutMeasured {
  std::uint64_t step = 0;
  double loss = 0;
};
// The next step, of which all losses before are known, changes no weights: a gradient was not
// finite.
struct StepSkipped {
  std::uint64_t step = 0;
  std::string cause;  // whose
};
struct CheckpointMade {
  std::uint64_t step = 0;
  std::vector<control::v1::ArtefactRef> files;
};
// Paused until somebody orders to resume.
struct RunHeld {
  std::string reason;
};
struct RunReleased {};
struct RunFinished {
  std::uint64_t steps = 0;
};
// An invite was made: how often it may be used, 0: without limit, and until when, ms since 1970.
struct InviteMade {
  net::InviteKey key;
  std::string name;
  std::uint64_t uses = 0, expires_ms = 0;
};
struct InviteRevoked {
  InviteId invite;
};
// A key came that was no member yet: one use of the invite is gone.
struct MemberJoined {
  PeerId peer;
  std::string name;
  InviteId invite;
};
// The organiser removed a member; it may come back if he says so.
struct MemberKicked {
  PeerId peer;
  std::string reason;
};
struct MemberTakenBack {
  PeerId peer;
};
// What of a member's results failed a check.
enum class FaultKind : std::uint8_t {
  kWeights,   // its weights differ from those of its group
  kValues,    // a loss or norm that cannot be right
  kOutputs,   // a spot check found that its output or loss is another
  kFailures,  // it could not do its part of a step, which was done without it
};
std::string_view FaultKindName(FaultKind kind);
// A result of a member failed a check. Not 0: that was one too many, and it is in quarantine for so
// long from then on.
struct MemberFault {
  PeerId peer;
  FaultKind kind = FaultKind::kWeights;
  std::string cause;  // for people
  std::uint64_t quarantine_ms = 0;
};
// The organiser ended a member's quarantine.
struct MemberPardoned {
  PeerId peer;
};

using StoredEvent =
    std::variant<RunBegan, SampleOrder, RunStarted, SchedulerStarted, MemberCame, MemberGone,
                 PlanMade, PipelinesCount, GenerationEnded, LossesKnown, HeldOutMeasured,
                 StepSkipped, CheckpointMade, RunHeld, RunReleased, RunFinished, RunRestored,
                 GenerationGoesOn, InviteMade, InviteRevoked, MemberJoined, MemberKicked,
                 MemberTakenBack, MemberFault, MemberPardoned>;

std::string EncodeEvent(const StoredEvent& event);
// Data loss: not an event of this format.
Result<StoredEvent> DecodeEvent(std::string_view bytes);

// An encoded event with the wall clock time at which it is stored: ms since 1970, UTC. The state
// machine does not know it; whoever stores the event does.
std::string StampEvent(std::string event, std::uint64_t at_ms);
struct TimedEvent {
  StoredEvent event;
  std::optional<std::uint64_t> at_ms = {};  // none: an older version stored it
};
// The same errors as DecodeEvent.
Result<TimedEvent> DecodeTimedEvent(std::string_view bytes);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_STORED_EVENT_H_
