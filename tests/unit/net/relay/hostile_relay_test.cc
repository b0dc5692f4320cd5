// A relay that answers a call itself: it brings the caller to a peer of its own, under the other's
// name.

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <optional>
#include <thread>

#include "net/relay/relay_message.h"
#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

// Takes one call after the other, whatever its ticket, and passes it on to a port of this machine.
class HostileRelay {
 public:
  explicit HostileRelay(std::uint16_t to) : to_(to), fd_(NewSocket()) {
    sockaddr_in end = EndAt(0);
    socklen_t size = sizeof(end);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&end), sizeof(end)), 0);
    EXPECT_EQ(::listen(fd_, 8), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&end), &size), 0);
    port_ = ntohs(end.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~HostileRelay() {
    over_ = true;
    thread_.join();
    ::close(fd_);
  }
  std::string address() const {
    return std::string(kJoinSecret) + "@127.0.0.1:" + std::to_string(port_);
  }
  int calls() const { return calls_; }

 private:
  static int NewSocket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }
  static sockaddr_in EndAt(std::uint16_t port) {
    sockaddr_in end{};
    end.sin_family = AF_INET;
    end.sin_port = htons(port);
    end.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return end;
  }
  // False: not within a moment.
  static bool Readable(int fd) {
    pollfd polled{fd, POLLIN, 0};
    return ::poll(&polled, 1, 20) == 1;
  }

  void Serve() {
    while (!over_) {
      if (!Readable(fd_)) continue;
      const int caller = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
      const int peer = NewSocket();
      const sockaddr_in end = EndAt(to_);
      std::string head;
      char byte;
      while (!head.ends_with("\r\n\r\n") && ::recv(caller, &byte, 1, 0) == 1) head.push_back(byte);
      const std::string answer = RelayCallAnswer(Status::Ok());
      if (ParseRelayCall(head).ok() &&
          ::connect(peer, reinterpret_cast<const sockaddr*>(&end), sizeof(end)) == 0 &&
          ::send(caller, answer.data(), answer.size(), MSG_NOSIGNAL) > 0) {
        ++calls_;
        Pass(caller, peer);
      }
      ::close(caller);
      ::close(peer);
    }
  }
  // Until one end hangs up.
  void Pass(int one, int other) const {
    std::array<pollfd, 2> polled{pollfd{one, POLLIN, 0}, pollfd{other, POLLIN, 0}};
    while (!over_) {
      (void)::poll(polled.data(), polled.size(), 20);
      for (std::size_t i = 0; i < 2; ++i) {
        if (polled[i].revents == 0) continue;
        char bytes[4096];
        const ssize_t n = ::recv(polled[i].fd, bytes, sizeof(bytes), 0);
        if (n <= 0) return;
        (void)!::send(polled[1 - i].fd, bytes, static_cast<std::size_t>(n), MSG_NOSIGNAL);
      }
    }
  }

  const std::uint16_t to_;
  const int fd_;
  std::uint16_t port_ = 0;
  std::atomic<bool> over_ = false;
  std::atomic<int> calls_ = 0;
  std::thread thread_;
};

class HostileRelayTest : public testing::Test {
 protected:
  HostileRelayTest() {
    LinkLimits limits;
    limits.timeouts.link_open = std::chrono::seconds(2);
    peer_.emplace(executor_.get(), limits);
    other_.emplace(executor_.get());
    relay_.emplace(other_->hub->port());
  }
  ~HostileRelayTest() override {
    On([this] {
      dialled_.reset();
      accepted_.reset();
      peer_.reset();
      other_.reset();
    });
  }
  template <typename Task>
  void On(Task task) {
    RunOn(executor_.get(), [&task] {
      task();
      return 0;
    });
  }
  // Dials `wanted` by the relay, where the other peer expects the call.
  void Dial(const PeerId& wanted) {
    LinkTarget target;
    target.peer = wanted;
    target.addresses = {relay_->address()};
    target.run = RunId{0x77};
    target.generation = 1;
    target.channel = "boundary/0/1";
    LinkHandlers handlers;
    handlers.on_open = [this] { open_ = true; };
    handlers.on_closed = [this](Status status) { closed_ = std::move(status); };
    On([&] {
      dialled_ = peer_->hub->Dial(target, handlers);
      target.peer = peer_->identity->id;
      target.addresses = {};
      accepted_ = other_->hub->Accept(target, {});
    });
  }
  bool Ends() {
    return WaitUntil(executor_.get(), [this] { return open_ || closed_; });
  }

  std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
  std::optional<HubPeer> peer_, other_;
  std::optional<HostileRelay> relay_;
  std::unique_ptr<Link> dialled_, accepted_;
  bool open_ = false;
  std::optional<Status> closed_;
};

TEST_F(HostileRelayTest, WhoeverItBringsTheCallerToMustHaveTheKey) {
  Dial(MakeIdentity()->id);
  ASSERT_TRUE(Ends());
  EXPECT_FALSE(open_);
  ASSERT_TRUE(closed_);
  EXPECT_THAT(closed_->message(), HasSubstr("instead of"));
  EXPECT_GT(relay_->calls(), 0);
}

TEST_F(HostileRelayTest, ToThePeerThatIsMeantTheWayIsAsGoodAsAnother) {
  Dial(other_->identity->id);
  ASSERT_TRUE(Ends());
  EXPECT_TRUE(open_) << closed_->message();
}

}  // namespace
}  // namespace shoal::net
