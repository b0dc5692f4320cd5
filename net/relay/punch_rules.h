// What a relay and its peers hold to where two peers connect to each other through their routers at
// the same moment ("punch", TCP's simultaneous open). The relay tells each the other's address, and
// is not trusted: neither may it lead a peer against somebody else's machine. Pure.

#ifndef SHOAL_NET_RELAY_PUNCH_RULES_H_
#define SHOAL_NET_RELAY_PUNCH_RULES_H_

#include <chrono>
#include <cstdint>
#include <string_view>

#include "common/clock.h"
#include "common/status.h"

namespace shoal::net {

// From the request to the connection, at either end.
inline constexpr std::chrono::seconds kPunchPatience{8};
// The ends try at most so often, so far apart; the kernel repeats an unanswered one after 1, 3 and
// 7 s.
inline constexpr int kPunchTries = 8;
inline constexpr std::chrono::milliseconds kPunchEvery{500};
// No router translates to a port below; services that answer strangers have them.
inline constexpr std::uint16_t kPunchPortMin = 1024;

// Of punches, at a relay of one peer's, at a peer of all: so many at once, then one every
// `kEvery`. Thread: the owner's.
class PunchBudget {
 public:
  static constexpr int kAtOnce = 8;
  static constexpr std::chrono::seconds kEvery{3};

  // False: none is left.
  bool Take(TimePoint now);

 private:
  double left_ = kAtOnce;
  TimePoint counted_at_{};
};

// Whether `target` (host:port in digits), of which a relay at `relay` tells, may be dialled: an
// address of the internet, of the kind IPv4 or IPv6 that the relay's is. One of a home or of the
// machine itself only from a relay that has such an address, too. The status says why not.
Status CheckPunchTarget(std::string_view target, std::string_view relay);

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_PUNCH_RULES_H_
