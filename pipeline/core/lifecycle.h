// Lifecycle of a StageRunner: an enum and one transition function.
//
//   opening -> waiting -> running -> ready -> reducing -> synced -> applying -> waiting ...
//
// Where pipelines break in a step, those that are whole run their micro-batches, too, and who is
// left of them runs none: from ready, reducing and synced back to running. Failure ends it from
// anywhere: then nothing of the runner runs any more.

#ifndef SHOAL_PIPELINE_CORE_LIFECYCLE_H_
#define SHOAL_PIPELINE_CORE_LIFECYCLE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "pipeline/core/activity.h"

namespace shoal::pipeline {

enum class RunnerState : std::uint8_t {
  kNew,
  kOpening,   // links, inventories
  kWaiting,   // for a step plan
  kRunning,   // micro-batches
  kReady,     // all micro-batches done, waits for Reduce
  kReducing,  // sums over the stage group and shared tensors
  kSynced,    // waits for Apply
  kApplying,  // optimizer step
};
enum class RunnerEvent : std::uint8_t {
  kStart,
  kLinksUp,
  kPlan,
  kAmended,  // there are more micro-batches, or none any more
  kMicroBatchesDone,
  kReduce,
  kReduced,
  kApply,
  kApplied,
};

std::string_view RunnerStateName(RunnerState state);
// The state after `event`, or nothing where the event is out of place.
std::optional<RunnerState> NextState(RunnerState state, RunnerEvent event);
// Whether the next move is the scheduler's.
bool AwaitsScheduler(RunnerState state);
// Whether a runner in it has its links, and does what it can until an order is missing.
bool GoesOnAlone(RunnerState state);
// What the time in a state counts as; nothing where the operations of the step say it themselves,
// and before the links are open.
std::optional<Activity> ActivityOf(RunnerState state);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_LIFECYCLE_H_
