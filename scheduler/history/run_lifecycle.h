// The states of a run and what moves it from one to the next; drawn in docs/ARCHITECTURE.md.

#ifndef SHOAL_SCHEDULER_HISTORY_RUN_LIFECYCLE_H_
#define SHOAL_SCHEDULER_HISTORY_RUN_LIFECYCLE_H_

#include <optional>
#include <string_view>

namespace shoal::scheduler {

enum class RunState { kWaiting, kPreparing, kTraining, kPaused, kFinished, kFailed };
std::string_view RunStateName(RunState state);

enum class RunEvent {
  kPlanned,      // enough peers: a plan was sent
  kAllReady,     // every peer of the plan has its layers and links
  kGoesOn,       // the scheduler was started again, and the generation has not ended
  kInterrupted,  // a peer was lost, a link broke, somebody ordered a pause
  kCompleted,    // the last checkpoint is whole
  kImpossible,   // this configuration cannot run
};

// The state after `event`, or nothing where the event has no meaning in `state`.
std::optional<RunState> NextState(RunState state, RunEvent event);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_RUN_LIFECYCLE_H_
