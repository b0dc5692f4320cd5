// RelayDoor: keeps this machine reachable through relays. It registers at each of them, comes for
// whoever calls there, and hands the connection over as if it had been accepted here. A relay that
// is gone is tried again and again.

#ifndef SHOAL_NET_RELAY_RELAY_DOOR_H_
#define SHOAL_NET_RELAY_RELAY_DOOR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "net/identity/identity.h"
#include "net/relay/punch_hooks.h"
#include "net/relay/relay_address.h"
#include "net/relay/relay_state.h"

namespace shoal::net {

class RelayDoor {
 public:
  static constexpr std::chrono::seconds kConnectPatience{5};
  static constexpr std::chrono::seconds kPingEvery{5};
  static constexpr std::chrono::seconds kDialBackEvery{120};  // it is asked for
  static constexpr std::chrono::seconds kSilence{12};         // then the relay is gone
  static constexpr std::chrono::milliseconds kRetryFirst{500};
  static constexpr std::chrono::milliseconds kRetryMax{10'000};
  static constexpr std::size_t kRelaysMax = 8;      // more are left out
  static constexpr std::size_t kArrivalsMax = 128;  // calls that are being fetched at once

  virtual ~RelayDoor() = default;  // `take` does not run afterwards

  // Thread: any, all of them.
  virtual void Use(const std::vector<RelayAddress>& relays) = 0;  // in place of those before
  virtual std::vector<RelayState> states() const = 0;
  // Tries to connect to `peer`, who must be registered at that relay, too, through both routers.
  // `done` runs once, on the door's thread, within two times kPunchPatience; never within the call.
  virtual void Punch(const RelayAddress& relay, const PeerId& peer, PunchDone done) = 0;
};

// `take` owns each connected, non-blocking socket it gets; it runs on a thread of the door's own.
// `port` is this machine's listening one, which relays try to reach from outside.
std::unique_ptr<RelayDoor> NewRelayDoor(std::shared_ptr<const Identity> identity,
                                        std::uint16_t port, std::function<void(int fd)> take,
                                        PunchHooks punch_hooks = {});

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_RELAY_DOOR_H_
