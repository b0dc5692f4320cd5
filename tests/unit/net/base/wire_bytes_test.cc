// Counted wire bytes against the kernel's counters of the loopback interface, in a network
// namespace of this test's own, so that nothing else is counted.

#include "net/base/wire_bytes.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

TEST(WireBytes, SmallAndLargeMessages) {
  EXPECT_EQ(WireBytes(0), 5u + 9 + 22 + 66);
  EXPECT_EQ(WireBytes(1000), 1000u + 5 + 9 + 22 + 66);
  // 1 MiB and 5 bytes: 65 HTTP/2 frames; these and their headers: 65 TLS records, 17 segments.
  EXPECT_EQ(WireBytes(1 << 20), (1u << 20) + 5 + 65 * 9 + 65 * 22 + 17 * 66);
}

bool RaiseLoopback() {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");  // NOLINT: fits
  bool good = ::ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  good = good && ::ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  ::close(fd);
  return good;
}

std::uint64_t LoopbackBytes() {
  std::ifstream file("/proc/self/net/dev");
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find("lo:");
    if (at == std::string::npos) continue;
    std::uint64_t received = 0;
    std::istringstream(line.substr(at + 3)) >> received;
    return received;
  }
  return 0;
}

TEST(WireBytes, AgreeWithTheKernelWithinTwoPercent) {
  if (::geteuid() != 0 || ::unshare(CLONE_NEWNET) != 0 || !RaiseLoopback()) {
    GTEST_SKIP() << "skipped: needs root";
  }
  const auto executor = NewThreadExecutor("control");
  std::unique_ptr<HubPeer> a, b;
  std::unique_ptr<Link> from, to;
  int opened = 0;
  std::size_t frames = 0;
  const auto target = [](const HubPeer& peer) {
    return LinkTarget{peer.identity->id, {peer.address()}, RunId{1}, 1, "boundary/0/1"};
  };
  RunOn(executor.get(), [&] {
    a = std::make_unique<HubPeer>(executor.get());
    b = std::make_unique<HubPeer>(executor.get());
    LinkHandlers handlers;
    handlers.on_open = [&] { ++opened; };
    handlers.on_frame = [&](Frame) { ++frames; };
    from = a->hub->Dial(target(*b), handlers);
    to = b->hub->Accept(target(*a), handlers);
    return 0;
  });
  ASSERT_TRUE(WaitUntil(executor.get(), [&] { return opened == 2; }));

  for (const std::uint64_t cap : {std::uint64_t{0}, std::uint64_t{100'000'000}}) {
    a->hub->SetCaps({cap}, {});
    const std::size_t frames_before = frames;
    const std::uint64_t kernel_before = LoopbackBytes();
    const std::uint64_t ours_before = from->stats().sent_wire_bytes + to->stats().sent_wire_bytes;
    RunOn(executor.get(), [&] {
      for (std::uint32_t i = 0; i < 40; ++i) {
        Frame frame;
        frame.run = RunId{1};
        frame.generation = 1;
        frame.payload = Buffer(300'000);
        std::memset(frame.payload.data(), static_cast<int>(i), frame.payload.size());
        EXPECT_TRUE(from->Send(std::move(frame)).ok());
      }
      return 0;
    });
    ASSERT_TRUE(WaitUntil(executor.get(), [&] { return frames == frames_before + 40; }));
    const auto kernel = static_cast<double>(LoopbackBytes() - kernel_before);
    const auto ours = static_cast<double>(from->stats().sent_wire_bytes +
                                          to->stats().sent_wire_bytes - ours_before);
    std::printf("cap %llu bit/s: counted %.0f, kernel %.0f, ratio %.4f\n",
                static_cast<unsigned long long>(cap), ours, kernel, ours / kernel);
    EXPECT_NEAR(ours / kernel, 1, 0.02);
  }
  RunOn(executor.get(), [&] {
    from.reset();
    to.reset();
    a.reset();
    b.reset();
    return 0;
  });
}

}  // namespace
}  // namespace shoal::net
