#include "pipeline/core/lifecycle.h"

namespace shoal::pipeline {

std::string_view RunnerStateName(RunnerState state) {
  switch (state) {
    case RunnerState::kNew: return "new";
    case RunnerState::kOpening: return "opening links";
    case RunnerState::kWaiting: return "waiting for a step plan";
    case RunnerState::kRunning: return "running micro-batches";
    case RunnerState::kReady: return "waiting for the order to reduce";
    case RunnerState::kReducing: return "reducing";
    case RunnerState::kSynced: return "waiting for the order to apply";
    case RunnerState::kApplying: return "applying";
  }
  return "unknown";
}

std::optional<RunnerState> NextState(RunnerState state, RunnerEvent event) {
  struct Row {
    RunnerState from;
    RunnerEvent event;
    RunnerState to;
  };
  static constexpr Row kTable[] = {
      {RunnerState::kNew, RunnerEvent::kStart, RunnerState::kOpening},
      {RunnerState::kOpening, RunnerEvent::kLinksUp, RunnerState::kWaiting},
      {RunnerState::kWaiting, RunnerEvent::kPlan, RunnerState::kRunning},
      {RunnerState::kRunning, RunnerEvent::kAmended, RunnerState::kRunning},
      {RunnerState::kReady, RunnerEvent::kAmended, RunnerState::kRunning},
      {RunnerState::kReducing, RunnerEvent::kAmended, RunnerState::kRunning},
      {RunnerState::kSynced, RunnerEvent::kAmended, RunnerState::kRunning},
      {RunnerState::kRunning, RunnerEvent::kMicroBatchesDone, RunnerState::kReady},
      {RunnerState::kReady, RunnerEvent::kReduce, RunnerState::kReducing},
      {RunnerState::kReducing, RunnerEvent::kReduced, RunnerState::kSynced},
      {RunnerState::kSynced, RunnerEvent::kApply, RunnerState::kApplying},
      {RunnerState::kApplying, RunnerEvent::kApplied, RunnerState::kWaiting},
  };
  for (const Row& row : kTable) {
    if (row.from == state && row.event == event) return row.to;
  }
  return std::nullopt;
}

bool AwaitsScheduler(RunnerState state) {
  return state == RunnerState::kWaiting || state == RunnerState::kReady ||
         state == RunnerState::kSynced;
}

bool GoesOnAlone(RunnerState state) {
  return state != RunnerState::kNew && state != RunnerState::kOpening;
}

std::optional<Activity> ActivityOf(RunnerState state) {
  switch (state) {
    case RunnerState::kNew:
    case RunnerState::kOpening:
    case RunnerState::kRunning: return std::nullopt;
    case RunnerState::kWaiting:
    case RunnerState::kReady:
    case RunnerState::kSynced: return Activity::kStep;
    case RunnerState::kReducing: return Activity::kExchange;
    case RunnerState::kApplying: return Activity::kOptimizer;
  }
  return std::nullopt;
}

}  // namespace shoal::pipeline
