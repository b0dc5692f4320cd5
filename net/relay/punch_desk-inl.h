// PunchDesk: a peer's punches, of its own wish and of others'. What this peer asked for becomes a
// port of this machine that leads into the connection, as gRPC dials by itself only; what others
// asked for is handed over as if it had been accepted. Thread: the relay door's.

#ifndef SHOAL_NET_RELAY_PUNCH_DESK_INL_H_
#define SHOAL_NET_RELAY_PUNCH_DESK_INL_H_

#include <utility>  // Asio 1.74 forgets it in C++20 mode; must come first.

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "net/relay/punch_hooks.h"
#include "net/relay/punch_rules.h"
#include "net/relay/puncher-inl.h"
#include "net/relay/relay_message.h"

namespace shoal::net {

// One port of this machine, for one who dials it soon. Whoever does gets no further than the TLS of
// the other end.
class PunchEntry;

class PunchDesk {
 public:
  static constexpr std::size_t kPunchersMax = 16;  // under way; as many may wait for the relay

  PunchDesk(boost::asio::io_context* context, PunchHooks hooks)
      : context_(context), hooks_(std::move(hooks)) {}

  // Asks the relay of that secret, by `send`, for a punch with `other`.
  void Ask(const std::string& secret, const PeerId& other,
           const std::function<void(const RelayMessage&)>& send, PunchDone done);
  // What the relay of that secret, at `relay_end`, wants to begin.
  void OnPunching(const std::string& secret, const RelayPunching& punching,
                  const boost::asio::ip::tcp::endpoint& relay_end);
  // Whoever waits is told.
  void Stop();

 private:
  struct Wish {
    std::string secret;  // of the relay
    PeerId other;
    PunchDone done;
    std::unique_ptr<boost::asio::steady_timer> timer;
    bool begun = false;
  };

  void Answer(std::uint64_t number, Result<PunchedWay> result);
  void Begin(const RelayPunching& punching, const boost::asio::ip::tcp::endpoint& relay_end,
             Puncher::Done done);
  void Enter(std::uint64_t number, boost::asio::ip::tcp::socket socket);

  boost::asio::io_context* const context_;
  const PunchHooks hooks_;
  PunchBudget budget_;                    // of what others asked for
  std::map<std::uint64_t, Wish> wishes_;  // two links may want the same at once
  std::uint64_t last_wish_ = 0;
  std::vector<std::weak_ptr<Puncher>> punchers_;
  std::vector<std::weak_ptr<PunchEntry>> entries_;
  bool stopped_ = false;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_PUNCH_DESK_INL_H_
