#include "scheduler/history/run_lifecycle.h"

namespace shoal::scheduler {

std::optional<RunState> NextState(RunState state, RunEvent event) {
  switch (state) {
    case RunState::kWaiting:
      if (event == RunEvent::kPlanned) return RunState::kPreparing;
      if (event == RunEvent::kInterrupted) return RunState::kPaused;
      if (event == RunEvent::kCompleted) return RunState::kFinished;
      if (event == RunEvent::kImpossible) return RunState::kFailed;
      return std::nullopt;
    case RunState::kPreparing:
      if (event == RunEvent::kAllReady) return RunState::kTraining;
      if (event == RunEvent::kInterrupted) return RunState::kPaused;
      if (event == RunEvent::kImpossible) return RunState::kFailed;
      return std::nullopt;
    case RunState::kTraining:
      if (event == RunEvent::kInterrupted) return RunState::kPaused;
      if (event == RunEvent::kCompleted) return RunState::kFinished;
      return std::nullopt;
    case RunState::kPaused:
      if (event == RunEvent::kPlanned) return RunState::kPreparing;
      if (event == RunEvent::kGoesOn) return RunState::kTraining;
      if (event == RunEvent::kInterrupted) return RunState::kPaused;
      if (event == RunEvent::kCompleted) return RunState::kFinished;
      if (event == RunEvent::kImpossible) return RunState::kFailed;
      return std::nullopt;
    case RunState::kFinished:
    case RunState::kFailed: return std::nullopt;
  }
  return std::nullopt;
}

std::string_view RunStateName(RunState state) {
  switch (state) {
    case RunState::kWaiting: return "waiting";
    case RunState::kPreparing: return "preparing";
    case RunState::kTraining: return "training";
    case RunState::kPaused: return "paused";
    case RunState::kFinished: return "finished";
    case RunState::kFailed: return "failed";
  }
  return "unknown";
}

}  // namespace shoal::scheduler
