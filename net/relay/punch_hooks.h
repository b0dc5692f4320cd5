// What a peer's door (relay_door.h) and its punches (punch_rules.h) have in common with their
// owner.

#ifndef SHOAL_NET_RELAY_PUNCH_HOOKS_H_
#define SHOAL_NET_RELAY_PUNCH_HOOKS_H_

#include <functional>
#include <string>

#include "common/ids.h"
#include "common/status.h"

namespace shoal::net {

// A connection that two peers behind routers made to each other.
struct PunchedWay {
  std::string entry;      // a port of this machine that leads into it, for who dials it first, soon
  std::string other_end;  // host:port of the other end
};
using PunchDone = std::function<void(Result<PunchedWay>)>;

// What becomes of punches that others ask for.
struct PunchHooks {
  std::function<bool(const PeerId& peer)> welcome;  // whether to take part; null: in none
  std::function<void(int fd)> take;                 // as that of NewRelayDoor
};

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_PUNCH_HOOKS_H_
