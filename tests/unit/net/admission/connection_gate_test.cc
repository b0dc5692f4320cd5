// Sockets on their way through the gate.

#include "net/admission/connection_gate.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

namespace shoal::net {
namespace {

int FlagOf(int fd, int option) {
  int value = 0;
  socklen_t size = sizeof(value);
  EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, option, &value, &size), 0);
  return value;
}

// Both ends of a TCP connection over loopback. Each is as the kernel makes it: it blocks.
struct Pair {
  Pair() {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    EXPECT_EQ(::bind(listener, address, size), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    EXPECT_EQ(::getsockname(listener, address, &size), 0);
    caller = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(caller, address, size), 0);
    called = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    EXPECT_GE(called, 0);
    ::close(listener);
  }
  ~Pair() {
    ::close(caller);
    ::close(called);
  }
  int caller = -1, called = -1;
};

// A connection that this end accepted while it punched came to gRPC as one that blocks: one of
// gRPC's few threads then waited in recvmsg for the other end's next byte, and other links stood
// still with it.
TEST(ConnectionGate, GrpcGetsNoSocketThatBlocksFromAPunch) {
  for (const bool punched : {true, false}) {
    const auto gate = ConnectionGate::Listen("127.0.0.1:0", {}).value();
    std::promise<int> taken;
    gate->Open([&taken](int fd) { taken.set_value(fd); });
    const Pair pair;
    EXPECT_EQ(::fcntl(pair.called, F_GETFL) & O_NONBLOCK, 0);
    punched ? gate->TakePunched(pair.called) : gate->TakeRelayed(pair.called);
    ASSERT_EQ(taken.get_future().get(), pair.called);
    EXPECT_NE(::fcntl(pair.called, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(FlagOf(pair.called, TCP_NODELAY), 0);
    EXPECT_GT(FlagOf(pair.called, TCP_USER_TIMEOUT), 0);
    gate->Close();
  }
}

TEST(ConnectionGate, SaysWhyItCannotListenAndWhatToDo) {
  const std::string foreign = ConnectionGate::Listen("192.0.2.1:1234", {}).status().message();
  EXPECT_THAT(foreign, testing::HasSubstr("is not of this machine; choose another host:port"));
  EXPECT_THAT(foreign, testing::Not(testing::HasSubstr("holds it")));
  const auto gate = ConnectionGate::Listen("127.0.0.1:0", {}).value();
  const std::string taken = "127.0.0.1:" + std::to_string(gate->port());
  EXPECT_THAT(ConnectionGate::Listen(taken, {}).status().message(),
              testing::HasSubstr("in use; choose another host:port, or stop the program"));
}

}  // namespace
}  // namespace shoal::net
