// PunchBook: a relay's punches that are under way. Two registered peers are each given a session;
// each comes with a new connection that names its own; when both have, each is told the address
// that the other's came from, and the relay's part is over. Pure. Thread: the relay's.

#ifndef SHOAL_NET_RELAY_PUNCH_BOOK_H_
#define SHOAL_NET_RELAY_PUNCH_BOOK_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/ids.h"
#include "common/status.h"
#include "net/relay/relay_message.h"

namespace shoal::net {

class PunchBook {
 public:
  static constexpr std::size_t kPunchesMax = 256;  // under way
  static constexpr std::size_t kPerPeerMax = 16;   // of them, of one peer
  static constexpr std::chrono::seconds kPatience{10};

  // `asker` wants one with `other`; `its` and `others` are new random sessions. Resource exhausted:
  // too many are under way.
  Status Ask(const PeerId& asker, const RelaySession& its, const PeerId& other,
             const RelaySession& others, TimePoint now);

  // The one of the two that came first, and the address that it came from.
  struct Met {
    RelaySession session{};
    std::string address;
  };
  // Somebody comes from `address` for `session`. Nullopt: the other is not here yet. Else the punch
  // is over. Not found: there is no such session, or no more, or it was used.
  Result<std::optional<Met>> Come(const RelaySession& session, const std::string& address,
                                  TimePoint now);
  // Whose the session is; null: nobody's.
  const PeerId* PeerOfSession(const RelaySession& session) const;
  bool empty() const { return sides_.empty(); }

 private:
  struct Side {
    PeerId key;
    RelaySession other{};
    std::string address;  // empty: it has not come
    TimePoint begun_at{};
  };

  void Expire(TimePoint now);
  std::size_t CountOf(const PeerId& key) const;

  std::map<RelaySession, Side> sides_;  // two of each punch
};

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_PUNCH_BOOK_H_
