#include "net/relay/punch_desk-inl.h"

#include <fcntl.h>

#include <algorithm>

#include "common/clock.h"
#include "common/log.h"
#include "net/base/host_port.h"
#include "net/relay/splice-inl.h"

namespace shoal::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::chrono::seconds kEntryPatience{5};
constexpr int kEntryWindowBytes = 128 * 1024;  // what waits there is late for nothing

std::string TextOfEnd(const tcp::endpoint& end) {
  return FormatHostPort({end.address().to_string(), end.port()});
}

}  // namespace

class PunchEntry : public std::enable_shared_from_this<PunchEntry> {
 public:
  PunchEntry(asio::io_context* context, tcp::socket punched)
      : acceptor_(*context), timer_(*context), punched_(std::move(punched)) {}

  // The entry's own address and the other end's.
  Result<PunchedWay> Open() {
    boost::system::error_code error;
    const auto other_end = punched_.remote_endpoint(error);
    if (error) return Unavailable("the other end hung up");
    const tcp::endpoint any(asio::ip::address_v4::loopback(), 0);
    acceptor_.open(any.protocol(), error);
    if (!error) (void)::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
    if (!error) acceptor_.bind(any, error);
    if (!error) acceptor_.listen(1, error);
    const auto own = error ? tcp::endpoint() : acceptor_.local_endpoint(error);
    if (error) return Unavailable("no port is free: " + error.message());
    timer_.expires_after(kEntryPatience);
    timer_.async_wait([self = shared_from_this()](boost::system::error_code early) {
      if (!early) self->End();
    });
    acceptor_.async_accept(
        [self = shared_from_this()](boost::system::error_code failed, tcp::socket caller) {
          if (!failed) self->Pass(std::move(caller));
        });
    return PunchedWay{TextOfEnd(own), TextOfEnd(other_end)};
  }

  void End() {
    boost::system::error_code ignored;
    timer_.cancel();
    acceptor_.close(ignored);
    punched_.close(ignored);
    if (splice_) std::exchange(splice_, nullptr)->End();
  }

 private:
  void Pass(tcp::socket caller) {
    boost::system::error_code ignored;
    timer_.cancel();
    acceptor_.close(ignored);
    (void)::fcntl(caller.native_handle(), F_SETFD, FD_CLOEXEC);
    caller.set_option(tcp::no_delay(true), ignored);
    Splice::Hooks hooks;
    hooks.on_end = [self = shared_from_this()] { self->splice_ = nullptr; };
    splice_ = std::make_shared<Splice>(std::move(caller), std::move(punched_),
                                       std::vector<std::shared_ptr<RateLimiter>>(), hooks);
    splice_->Start("", "", kEntryWindowBytes);
  }

  tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  tcp::socket punched_;
  std::shared_ptr<Splice> splice_;
};

void PunchDesk::Ask(const std::string& secret, const PeerId& other,
                    const std::function<void(const RelayMessage&)>& send, PunchDone done) {
  if (stopped_) return done(Cancelled("this peer is stopping"));
  if (wishes_.size() >= kPunchersMax) {
    return done(ResourceExhausted("too many punches are under way"));
  }
  const std::uint64_t number = ++last_wish_;
  auto timer = std::make_unique<asio::steady_timer>(*context_, kPunchPatience);
  timer->async_wait([this, number](boost::system::error_code error) {
    if (!error) Answer(number, DeadlineExceeded("the relay does not begin the punch"));
  });
  wishes_.emplace(number, Wish{secret, other, std::move(done), std::move(timer)});
  send(RelayPunch{other});
}

void PunchDesk::OnPunching(const std::string& secret, const RelayPunching& punching,
                           const tcp::endpoint& relay_end) {
  std::erase_if(punchers_, [](const auto& weak) { return weak.expired(); });
  if (stopped_ || punchers_.size() >= kPunchersMax) return;
  if (punching.asked) {
    const auto wish = std::find_if(wishes_.begin(), wishes_.end(), [&](const auto& each) {
      return !each.second.begun && each.second.secret == secret &&
             each.second.other == punching.other;
    });
    if (wish == wishes_.end()) return;
    wish->second.begun = true;
    wish->second.timer->cancel();  // the puncher has its own
    return Begin(punching, relay_end, [this, number = wish->first](Result<tcp::socket> socket) {
      if (!socket.ok()) return Answer(number, socket.status());
      Enter(number, std::move(socket).value());
    });
  }
  if (!hooks_.welcome || !hooks_.welcome(punching.other)) return;
  if (!budget_.Take(SystemClock().Now())) return;
  Begin(punching, relay_end, [this, other = punching.other](Result<tcp::socket> socket) {
    SHOAL_LOG(kDebug, "net", "punch.called", {"peer", other.ToShort()},
              {"error", socket.ok() ? "" : socket.status().message()});
    if (!socket.ok()) return;
    boost::system::error_code failed;
    const int fd = socket->release(failed);
    if (!failed) hooks_.take(fd);
  });
}

void PunchDesk::Begin(const RelayPunching& punching, const tcp::endpoint& relay_end,
                      Puncher::Done done) {
  const auto puncher =
      std::make_shared<Puncher>(context_, relay_end, punching.session, std::move(done));
  punchers_.push_back(puncher);
  puncher->Start();
}

void PunchDesk::Enter(std::uint64_t number, tcp::socket socket) {
  std::erase_if(entries_, [](const auto& weak) { return weak.expired(); });
  const auto entry = std::make_shared<PunchEntry>(context_, std::move(socket));
  entries_.push_back(entry);
  Answer(number, entry->Open());
}

void PunchDesk::Answer(std::uint64_t number, Result<PunchedWay> result) {
  const auto wish = wishes_.find(number);
  if (wish == wishes_.end()) return;
  SHOAL_LOG(kDebug, "net", "punch.asked", {"peer", wish->second.other.ToShort()},
            {"error", result.ok() ? "" : result.status().message()});
  const PunchDone done = std::move(wish->second.done);
  wish->second.timer->cancel();
  wishes_.erase(wish);
  done(std::move(result));
}

void PunchDesk::Stop() {
  stopped_ = true;
  for (const auto& weak : punchers_) {
    if (const auto puncher = weak.lock()) puncher->Cancel();
  }
  for (const auto& weak : entries_) {
    if (const auto entry = weak.lock()) entry->End();
  }
  const auto wishes = std::exchange(wishes_, {});
  for (const auto& [number, wish] : wishes) wish.done(Cancelled("this peer is stopping"));
}

}  // namespace shoal::net
