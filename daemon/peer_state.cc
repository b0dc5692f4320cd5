#include "daemon/peer_state.h"

#include <initializer_list>

namespace shoal::daemon {

std::string_view PeerStateName(PeerState state) {
  switch (state) {
    case PeerState::kStarting: return "starting";
    case PeerState::kIdle: return "idle";
    case PeerState::kJoining: return "joining";
    case PeerState::kWaiting: return "waiting";
    case PeerState::kSyncing: return "syncing";
    case PeerState::kTraining: return "training";
    case PeerState::kPaused: return "paused";
    case PeerState::kDraining: return "draining";
    case PeerState::kStopped: return "stopped";
  }
  return "unknown";
}

bool CanChange(PeerState from, PeerState to) {
  using S = PeerState;
  const auto one_of = [to](std::initializer_list<S> states) {
    for (S state : states) {
      if (state == to) return true;
    }
    return false;
  };
  if (to == S::kStopped) return from != S::kStopped;
  if (to == S::kDraining) return from != S::kStopped && from != S::kDraining;
  switch (from) {
    case S::kStarting: return one_of({S::kIdle, S::kJoining});
    case S::kIdle: return one_of({S::kJoining});
    case S::kJoining: return one_of({S::kWaiting, S::kPaused, S::kSyncing, S::kIdle});
    case S::kWaiting: return one_of({S::kSyncing, S::kTraining, S::kJoining, S::kPaused});
    case S::kSyncing: return one_of({S::kTraining, S::kWaiting, S::kJoining, S::kPaused});
    case S::kTraining: return one_of({S::kWaiting, S::kSyncing, S::kJoining, S::kPaused});
    case S::kPaused: return one_of({S::kJoining, S::kWaiting});
    case S::kDraining:
    case S::kStopped: return false;
  }
  return false;
}

}  // namespace shoal::daemon
