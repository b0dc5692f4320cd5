// RelayState: a machine's registration at a relay (relay_door.h).

#ifndef SHOAL_NET_RELAY_RELAY_STATE_H_
#define SHOAL_NET_RELAY_RELAY_STATE_H_

#include <optional>
#include <string>

namespace shoal::net {

struct RelayState {
  std::string relay;         // host:port
  bool registered = false;   // others reach this machine by it now
  std::string seen_address;  // of this machine, as the relay saw it last
  std::string own_address;   // the same end of that connection, as this machine has it
  // Whether the relay, dialling from outside, reached this machine's listening port. Null: not
  // known.
  std::optional<bool> reached;
  std::string trouble;  // why it is not registered; empty: not tried yet, or no trouble
  double rtt_ms = 0;    // of the last ping; 0: none yet
};

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_RELAY_STATE_H_
