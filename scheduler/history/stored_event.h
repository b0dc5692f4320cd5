// StoredEvent: what of a run survives a restart of the scheduler, and its form in the event log:
// one JSON object each, with "type" first.

#ifndef SHOAL_SCHEDULER_HISTORY_STORED_EVENT_H_
#define SHOAL_SCHEDULER_HISTORY_STORED_EVENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "proto/control.pb.h"

namespace shoal::scheduler {

// First event of every log. `config_hash` covers what may not change during a run.
struct RunBegan {
  RunId run;
  std::uint64_t config_hash = 0;
};
struct RunStarted {};
// A generation began; losses from `resume_step` on are void.
struct PlanMade {
  std::uint64_t generation = 0;
  std::uint64_t resume_step = 0;
  std::vector<PeerId> hosts = {};  // by pipeline, then stage; older logs have none
};
// From `step` on, these pipelines of the newest plan compute the micro-batches: the k-th of them
// those with global index k modulo their number. Until one comes, all pipelines of the plan do.
struct PipelinesCount {
  std::uint64_t step = 0;
  std::vector<std::uint32_t> pipelines;  // ascending, not empty
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

using StoredEvent =
    std::variant<RunBegan, RunStarted, PlanMade, PipelinesCount, LossesKnown, HeldOutMeasured,
                 StepSkipped, CheckpointMade, RunHeld, RunReleased, RunFinished>;

std::string EncodeEvent(const StoredEvent& event);
// Data loss: not an event of this format.
Result<StoredEvent> DecodeEvent(std::string_view bytes);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_STORED_EVENT_H_
