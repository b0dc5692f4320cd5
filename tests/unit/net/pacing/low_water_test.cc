// Low-water marks against a simulated connection: packets come at a line's rate, and a reader that
// is woken as the kernel would wake it takes all that waits.

#include "net/pacing/low_water.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "net/pacing/low_water_loop.h"
#include "tests/support/sim_executor.h"

namespace shoal::net {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint64_t kPacket = 1448;
constexpr microseconds kPacketTime{232};  // 50 Mbit/s
constexpr std::uint64_t kChunk = 44 * kPacket;

class LowWaterTest : public testing::Test {
 protected:
  struct Message {
    std::uint64_t bytes;
    std::optional<std::uint64_t> more;
    std::uint64_t end = 0;
    std::optional<TimePoint> came, read;
  };

  // One more message of the other end; sent when Run comes to it.
  void Queue(std::uint64_t bytes, std::optional<std::uint64_t> more) {
    queued_ += bytes;
    messages_.push_back({bytes, more, queued_, {}, {}});
  }
  // A frame of so many chunks, behind whose last one `next` bytes follow.
  void QueueFrame(int chunks, std::uint64_t next) {
    for (int i = 1; i <= chunks; ++i) {
      Queue(kChunk, i < chunks ? static_cast<std::uint64_t>(chunks - i) * kChunk : next);
    }
  }

  // All that is queued comes, a packet every kPacketTime.
  void Send() {
    while (sent_ < queued_) {
      Pass(kPacketTime);
      sent_ = std::min(queued_, sent_ + kPacket);
      for (Message& message : messages_) {
        if (message.end <= sent_ && !message.came) message.came = world_.Now();
      }
      ++packets_;
      Wake();
    }
  }
  void Pass(Duration time) {
    bool passed = false;
    world_.At(world_.Now() + time, [&passed] { passed = true; });
    world_.RunUntil([&passed] { return passed; }, time);
  }

  // As the kernel does, when something came or the mark changed.
  void Wake() {
    if (sent_ == taken_ || sent_ - taken_ < mark_) return;
    taken_ = sent_;
    ++wakes_;
    for (Message& message : messages_) {
      if (message.end > taken_ || message.read) continue;
      message.read = world_.Now();
      loop_->OnMessage({&socket_, 1}, message.bytes, message.more);
    }
  }

  Duration Delay(std::size_t message) const {
    const Message& one = messages_.at(message);
    return one.read ? *one.read - *one.came : Duration::max();
  }

  LowWaterLoop::Sockets Sockets() {
    LowWaterLoop::Sockets sockets;
    sockets.figures = [this](const TcpSocket&) {
      return gone_ ? std::nullopt : std::optional<ReceiveFigures>({taken_, sent_ - taken_});
    };
    sockets.set_mark = [this](const TcpSocket&, std::uint32_t bytes) {
      mark_ = bytes;
      highest_ = std::max(highest_, bytes);
      world_.At(world_.Now(), [this] { Wake(); });
      return true;
    };
    return sockets;
  }

  test_support::SimWorld world_;
  const std::unique_ptr<Executor> executor_ = world_.NewExecutor("control");
  const TcpSocket socket_{3, 77};
  std::vector<Message> messages_;
  std::uint64_t queued_ = 0, sent_ = 0, taken_ = 0;
  std::uint32_t mark_ = LowWater::kOff, highest_ = 0;
  int wakes_ = 0, packets_ = 0;
  bool gone_ = false;
  const std::shared_ptr<LowWaterLoop> loop_ =
      std::make_shared<LowWaterLoop>(executor_.get(), Sockets());
};

TEST_F(LowWaterTest, AFrameIsReadByManyPacketsAtOnce) {
  QueueFrame(20, 0);
  Send();
  EXPECT_LT(wakes_, packets_ / 4);
  EXPECT_EQ(taken_, queued_);
}

TEST_F(LowWaterTest, TheEndOfAFrameIsNeverDelayed) {
  for (int chunks = 1; chunks < 12; ++chunks) {
    QueueFrame(chunks, 0);
    Send();
    EXPECT_EQ(Delay(messages_.size() - 1), Duration::zero()) << chunks;
    Pass(milliseconds(3 * chunks));
  }
}

TEST_F(LowWaterTest, TheNextFrameIsKnownAtTheEndOfTheOneBefore) {
  constexpr int kFrames = 12;
  for (int i = 1; i <= kFrames; ++i) QueueFrame(4, i < kFrames ? 4 * kChunk : 0);
  Send();
  EXPECT_LT(wakes_, packets_ / 2);
  for (int i = 1; i <= kFrames; ++i) {
    EXPECT_EQ(Delay(static_cast<std::size_t>(4 * i - 1)), Duration::zero()) << i;
  }
}

// The rest of the chunk wakes the reader, and nothing is known to come behind it.
TEST_F(LowWaterTest, ASmallMessageBehindAPartlyReceivedChunkIsNotDelayed) {
  QueueFrame(8, 0);
  Queue(60, std::nullopt);
  Send();
  EXPECT_GT(highest_, kPacket);
  EXPECT_EQ(Delay(messages_.size() - 1), Duration::zero());
  Pass(milliseconds(100));
  Queue(60, std::nullopt);
  Send();
  EXPECT_EQ(Delay(messages_.size() - 1), Duration::zero());
}

// Between two chunks of a frame, and the sender's turn at its line goes to others.
TEST_F(LowWaterTest, ASmallMessageThatNothingFollowsWaitsForTwoLooks) {
  for (int i = 1; i <= 10; ++i) Queue(kChunk, (30 - i) * kChunk);
  Send();
  EXPECT_GT(mark_, LowWater::kOff);
  Pass(milliseconds(20));
  Queue(60, std::nullopt);
  Send();
  Pass(2 * LowWater::kLook);
  EXPECT_LE(Delay(messages_.size() - 1), 2 * LowWater::kLook);
  // And while no chunk comes, at once.
  Queue(60, std::nullopt);
  Send();
  Pass(2 * LowWater::kLook);
  EXPECT_LE(Delay(messages_.size() - 1), 2 * LowWater::kLook);
}

TEST_F(LowWaterTest, ASenderThatStopsLeavesNothingUnreadAndNoTimer) {
  for (int i = 1; i <= 10; ++i) Queue(kChunk, (30 - i) * kChunk);
  Queue(kChunk / 2, std::nullopt);
  Send();
  Pass(2 * LowWater::kLook);
  EXPECT_EQ(taken_, sent_);
  Pass((LowWater::kQuietLooks + 1) * LowWater::kLook);
  EXPECT_EQ(mark_, LowWater::kOff);
  EXPECT_EQ(world_.pending(), 0u);
}

TEST_F(LowWaterTest, NoTimerWhereNothingIsKnownToCome) {
  QueueFrame(8, 0);
  Send();
  Pass(2 * LowWater::kLook);
  EXPECT_EQ(mark_, LowWater::kOff);
  EXPECT_EQ(world_.pending(), 0u);
}

TEST_F(LowWaterTest, AnotherLinksSocketIsLeftAlone) {
  Queue(kChunk, 40 * kChunk);
  Send();
  Pass(milliseconds(1));
  // Its message is larger than what came by this socket.
  const std::uint32_t before = mark_;
  loop_->OnMessage({&socket_, 1}, 2 * kChunk, 0);
  EXPECT_EQ(mark_, before);
}

TEST_F(LowWaterTest, AConnectionThatEndsIsForgotten) {
  for (int i = 1; i <= 10; ++i) Queue(kChunk, (30 - i) * kChunk);
  Send();
  gone_ = true;
  Pass(2 * LowWater::kLook);
  EXPECT_EQ(world_.pending(), 0u);
}

// The number is the other end's.
TEST_F(LowWaterTest, WhatIsKnownToComeIsBounded) {
  for (int i = 1; i <= 10; ++i) Queue(kChunk, ~std::uint64_t{0});
  Send();
  EXPECT_GT(mark_, LowWater::kOff);
  EXPECT_LE(highest_, LowWater::kBytesMax);
  Pass((LowWater::kQuietLooks + 3) * LowWater::kLook);
  EXPECT_EQ(taken_, sent_);
  EXPECT_EQ(world_.pending(), 0u);
}

TEST(LowWater, TheMarkIsBoundedOnAFastLine) {
  LowWater low_water;
  ReceiveFigures figures{1 << 20, 0};
  low_water.OnMessage(figures, 1 << 20, std::uint64_t{1} << 30);
  TimePoint now{std::chrono::seconds(1)};
  low_water.Start(now, figures);
  for (int i = 0; i < 10; ++i) {
    now += LowWater::kLook;
    figures.taken_bytes += 5'000'000;  // 10 Gbit/s
    low_water.OnLook(now, figures);
  }
  EXPECT_EQ(low_water.mark(), static_cast<std::uint32_t>(LowWater::kBytesMax));
}

}  // namespace
}  // namespace shoal::net
