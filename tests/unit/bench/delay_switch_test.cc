#include "bench/delay_switch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace shoal::bench {
namespace {

constexpr Duration kDelay = std::chrono::milliseconds(20);
constexpr DelaySwitch::Address kAll = 0xffffffffffff;

TimePoint At(std::int64_t us) { return TimePoint(std::chrono::microseconds(us)); }

std::vector<std::byte> Bytes(std::size_t size, unsigned value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

struct Sent {
  std::size_t port;
  std::vector<std::byte> bytes;
  bool operator==(const Sent&) const = default;
};

std::vector<Sent> Leaving(DelaySwitch* lines, TimePoint now) {
  std::vector<Sent> sent;
  lines->Leave(now, [&](std::size_t port, std::span<const std::byte> bytes) {
    sent.push_back({port, {bytes.begin(), bytes.end()}});
  });
  return sent;
}

TEST(DelaySwitch, AFrameLeavesAfterTheDelayAndNotBefore) {
  DelaySwitch lines(2, kDelay);
  EXPECT_EQ(lines.next(), std::nullopt);
  ASSERT_TRUE(lines.Enter(0, 2, 4, Bytes(3, 7), At(100)));
  EXPECT_EQ(lines.next(), At(20'100));
  EXPECT_TRUE(Leaving(&lines, At(20'099)).empty());
  EXPECT_EQ(Leaving(&lines, At(20'100)), (std::vector<Sent>{{1, Bytes(3, 7)}}));
  EXPECT_EQ(lines.next(), std::nullopt);
  EXPECT_TRUE(Leaving(&lines, At(90'000)).empty());
}

TEST(DelaySwitch, LearnsWhereASenderIsAndWhereItWent) {
  DelaySwitch lines(3, kDelay);
  ASSERT_TRUE(lines.Enter(0, 2, kAll, Bytes(1, 0), At(0)));  // to everybody
  ASSERT_TRUE(lines.Enter(1, 4, 2, Bytes(1, 1), At(1)));     // back to the sender only
  ASSERT_TRUE(lines.Enter(0, 2, 6, Bytes(1, 2), At(2)));     // to somebody unknown
  ASSERT_TRUE(lines.Enter(2, 2, 4, Bytes(1, 3), At(3)));     // the first sender has moved
  ASSERT_TRUE(lines.Enter(1, 4, 2, Bytes(1, 4), At(4)));
  ASSERT_TRUE(lines.Enter(2, 8, 2, Bytes(1, 5), At(5)));  // behind the same port: it has it
  EXPECT_EQ(Leaving(&lines, At(30'000)), (std::vector<Sent>{{1, Bytes(1, 0)},
                                                            {2, Bytes(1, 0)},
                                                            {0, Bytes(1, 1)},
                                                            {1, Bytes(1, 2)},
                                                            {2, Bytes(1, 2)},
                                                            {1, Bytes(1, 3)},
                                                            {2, Bytes(1, 4)}}));
}

TEST(DelaySwitch, MoreThanItsBytesAreRefused) {
  DelaySwitch lines(2, kDelay, 10);
  EXPECT_TRUE(lines.Enter(0, 2, 4, Bytes(6, 1), At(0)));
  EXPECT_FALSE(lines.Enter(0, 2, 4, Bytes(5, 2), At(1)));
  EXPECT_TRUE(lines.Enter(1, 4, 2, Bytes(4, 3), At(2)));
  EXPECT_FALSE(lines.Enter(1, 4, 2, Bytes(1, 4), At(3)));
  EXPECT_EQ(Leaving(&lines, At(20'000)), (std::vector<Sent>{{1, Bytes(6, 1)}}));
  EXPECT_TRUE(lines.Enter(0, 2, 4, Bytes(6, 5), At(20'001)));
  EXPECT_FALSE(lines.Enter(0, 2, 4, Bytes(1, 6), At(20'002)));
}

TEST(DelaySwitch, RemembersABoundedNumberOfSenders) {
  DelaySwitch lines(3, kDelay);
  // Groups send nothing that is worth remembering.
  ASSERT_TRUE(lines.Enter(0, kAll, kAll, Bytes(1, 0), At(0)));
  for (DelaySwitch::Address sender = 0; sender <= DelaySwitch::kAddressesMax; ++sender) {
    ASSERT_TRUE(lines.Enter(0, sender, kAll, Bytes(1, 0), At(0)));
  }
  Leaving(&lines, At(20'000));
  const DelaySwitch::Address last = DelaySwitch::kAddressesMax - 1;
  ASSERT_TRUE(lines.Enter(1, 0, last, Bytes(1, 1), At(30'000)));
  EXPECT_EQ(Leaving(&lines, At(50'000)).size(), 1u);
  ASSERT_TRUE(lines.Enter(1, 0, last + 1, Bytes(1, 2), At(60'000)));
  EXPECT_EQ(Leaving(&lines, At(80'000)).size(), 2u);
  ASSERT_TRUE(lines.Enter(1, 0, kAll, Bytes(1, 3), At(90'000)));
  EXPECT_EQ(Leaving(&lines, At(110'000)).size(), 2u);
}

// All that ever entered; what is due is looked for among all of it.
class Reference {
 public:
  Reference(std::size_t ports, Duration delay) : ports_(ports), delay_(delay) {}

  void Enter(std::size_t port, DelaySwitch::Address from, DelaySwitch::Address to,
             std::vector<std::byte> bytes, TimePoint now) {
    all_.push_back({port, from, to, std::move(bytes), now + delay_, false});
  }

  std::optional<TimePoint> next() const {
    std::optional<TimePoint> next;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].left || PortsOf(i).empty()) continue;
      next = std::min(next.value_or(all_[i].due), all_[i].due);
    }
    return next;
  }

  std::vector<Sent> Leaving(TimePoint now) {
    std::vector<Sent> sent;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].left || all_[i].due > now) continue;
      all_[i].left = true;
      for (const std::size_t port : PortsOf(i)) sent.push_back({port, all_[i].bytes});
    }
    return sent;
  }

 private:
  struct Frame {
    std::size_t in;
    DelaySwitch::Address from, to;
    std::vector<std::byte> bytes;
    TimePoint due;
    bool left;
  };

  // By what had been heard when frame `at` came: the last one that its receiver sent.
  std::vector<std::size_t> PortsOf(std::size_t at) const {
    for (std::size_t i = at + 1; i-- > 0;) {
      if (all_[i].from != all_[at].to || all_[at].to == kAll) continue;
      if (all_[i].in == all_[at].in) return {};
      return {all_[i].in};
    }
    std::vector<std::size_t> ports;
    for (std::size_t port = 0; port < ports_; ++port) {
      if (port != all_[at].in) ports.push_back(port);
    }
    return ports;
  }

  const std::size_t ports_;
  const Duration delay_;
  std::vector<Frame> all_;
};

TEST(DelaySwitch, DoesWhatTheReferenceDoes) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const std::size_t ports = 2 + below(4);
    const Duration delay = std::chrono::microseconds(below(300));
    DelaySwitch lines(ports, delay);
    Reference reference(ports, delay);
    std::int64_t now = 0;
    for (int i = 0; i < 300; ++i) {
      now += static_cast<std::int64_t>(below(60));
      if (below(3) > 0) {
        const std::size_t port = below(ports);
        const DelaySwitch::Address from = 2 * below(6);
        const DelaySwitch::Address to = below(5) == 0 ? kAll : 2 * below(8);
        const std::vector<std::byte> bytes = Bytes(below(5), static_cast<unsigned>(i));
        ASSERT_TRUE(lines.Enter(port, from, to, bytes, At(now)));
        reference.Enter(port, from, to, bytes, At(now));
      } else {
        ASSERT_EQ(Leaving(&lines, At(now)), reference.Leaving(At(now)));
      }
      ASSERT_EQ(lines.next(), reference.next());
    }
    EXPECT_EQ(Leaving(&lines, At(now + 1000)), reference.Leaving(At(now + 1000)));
  }
}

}  // namespace
}  // namespace shoal::bench
