// Splice: two connections made one: what comes on the one goes out on the other, both ways, within
// caps. It holds at most one buffer per direction, so that a slow reader slows its writer down, and
// nothing piles up in the relay. Thread: the sockets' only.

#ifndef SHOAL_NET_RELAY_SPLICE_INL_H_
#define SHOAL_NET_RELAY_SPLICE_INL_H_

#include <utility>  // Asio 1.74 forgets it in C++20 mode; must come first.

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "net/pacing/rate_limiter.h"

namespace shoal::net {

class Splice : public std::enable_shared_from_this<Splice> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  // Pings of both ends come more often than this; a pair that is silent for longer is over.
  static constexpr std::chrono::seconds kSilence{90};
  static constexpr std::size_t kBufferBytes = 64 * 1024;
  // Of a writer that is faster than its reader, so much may wait in the kernel: enough for
  // 500 Mbit/s over 60 ms, little enough that urgent messages are not late by many seconds.
  static constexpr int kWindowBytes = 4 << 20;

  struct Hooks {
    std::function<void(std::uint64_t bytes)> on_bytes;  // were written
    std::function<void()> on_end;                       // once
  };

  // Each byte is paid for at all `limiters`, which outlive the splice by shared ownership.
  Splice(Socket one, Socket other, std::vector<std::shared_ptr<RateLimiter>> limiters, Hooks hooks);

  // `first` is what came from `one` already; `answer` goes to `one` before anything else. Both
  // sockets may do nothing else any more. `one_window_bytes`: what may wait unread at `one`.
  void Start(std::string first, std::string answer, int one_window_bytes = kWindowBytes);
  void End();

 private:
  struct Way {
    explicit Way(Socket* reads, Socket* writes)
        : from(reads), to(writes), timer(reads->get_executor()) {}
    Socket* const from;
    Socket* const to;
    boost::asio::steady_timer timer;
    std::vector<char> buffer = std::vector<char>(kBufferBytes);
    std::size_t bytes = 0;    // in the buffer
    std::size_t limiter = 0;  // at which it is being paid for
    RateLimiter::Ticket ticket;
    bool over = false;
  };

  void Read(Way* way);
  void Pay(Way* way);
  void Wait(Way* way);
  void Write(Way* way);
  // Nothing comes from there any more; what is under way the other way still arrives.
  void Over(Way* way);
  void Watch();

  Socket one_;
  Socket other_;
  const std::vector<std::shared_ptr<RateLimiter>> limiters_;
  Hooks hooks_;
  Way there_{&one_, &other_};
  Way back_{&other_, &one_};
  boost::asio::steady_timer watch_;
  std::string answer_;
  bool moved_ = true;  // something did, since the last look
  bool ended_ = false;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_SPLICE_INL_H_
