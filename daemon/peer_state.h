// PeerState: what a peer is doing, as shown in the status, and which changes are possible.

#ifndef SHOAL_DAEMON_PEER_STATE_H_
#define SHOAL_DAEMON_PEER_STATE_H_

#include <cstdint>
#include <string_view>

namespace shoal::daemon {

enum class PeerState : std::uint8_t {
  kStarting,  // opening stores and ports
  kIdle,      // no invite yet: waits for `shoal join`
  kJoining,   // dialling the scheduler, also after a lost connection
  kWaiting,   // member without a stage: spare, or the run waits or is paused
  kSyncing,   // has a stage: fetches artefacts, loads weights, opens links
  kTraining,  // takes part in steps
  kPaused,    // by its user: member, but wants no stage
  kDraining,  // leaving
  kStopped,
};

std::string_view PeerStateName(PeerState state);

// The whole lifecycle in one table; docs/ARCHITECTURE.md draws it.
bool CanChange(PeerState from, PeerState to);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_PEER_STATE_H_
