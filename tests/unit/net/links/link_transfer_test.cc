// What a link sends next and when it reads, without a link: caps, order, bounds.

#include <gtest/gtest.h>

#include "net/links/link_receiver.h"
#include "net/links/link_sender.h"
#include "tests/support/sim_executor.h"

namespace shoal::net {
namespace {

using std::chrono::milliseconds;

Frame MakeFrame(FrameKind kind, std::size_t bytes) {
  Frame frame;
  frame.kind = kind;
  frame.run = {1};
  frame.generation = 1;
  frame.micro_batch = {5, 0};
  frame.payload = Buffer(bytes);
  return frame;
}

bulk::v1::ChunkHeader PingOf(std::uint64_t id) {
  bulk::v1::ChunkHeader header;
  header.mutable_ping()->set_id(id);
  return header;
}

class LinkTransferTest : public testing::Test {
 protected:
  TimePoint Now() const { return world_.Now(); }
  void Pass(Duration time) {
    world_.At(world_.Now() + time, [] {});
    world_.Step();
  }
  LinkStats Stats() const {
    LinkStats stats;
    sender_.AddTo(&stats);
    receiver_.AddTo(&stats);
    return stats;
  }
  static LinkLimits Limits() {
    LinkLimits limits;
    limits.chunk_bytes = 20'000;
    limits.queue_bytes_max = 200'000;
    return limits;
  }

  test_support::SimWorld world_;
  std::shared_ptr<RateLimiter> limiter_ = std::make_shared<RateLimiter>(&world_);
  std::shared_ptr<std::atomic<std::size_t>> stripes_most_ =
      std::make_shared<std::atomic<std::size_t>>(1);
  LinkSender sender_{Limits(), limiter_, stripes_most_};
  LinkReceiver receiver_{limiter_};
};

TEST_F(LinkTransferTest, AFrameGoesInChunksAndIsToldOnce) {
  ASSERT_TRUE(sender_.Push(MakeFrame(FrameKind::kActivation, 50'000), Now()).ok());
  for (const std::size_t size : {20'000u, 20'000u, 10'000u}) {
    EXPECT_EQ(sender_.PrepareChunk(Now()), Duration::zero());
    const OutChunk& chunk = sender_.StartChunk(Now());
    EXPECT_EQ(chunk.size, size);
    EXPECT_TRUE(sender_.writing());
    Pass(milliseconds(10));
    const auto sent = sender_.Written(Now());
    EXPECT_FALSE(sender_.writing());
    ASSERT_EQ(sent.has_value(), size == 10'000u);
    if (sent) {
      EXPECT_DOUBLE_EQ(sent->elapsed_ms, 30);
    }
  }
  EXPECT_FALSE(sender_.PrepareChunk(Now()));
  EXPECT_EQ(Stats().sent_frames, 1u);
  EXPECT_EQ(Stats().queued_bytes, 0u);
  EXPECT_DOUBLE_EQ(Stats().stall_network_ms, 30);
}

TEST_F(LinkTransferTest, AnUrgentFrameOvertakesTheRestOfAnother) {
  ASSERT_TRUE(sender_.Push(MakeFrame(FrameKind::kActivation, 50'000), Now()).ok());
  sender_.PrepareChunk(Now());
  EXPECT_EQ(sender_.StartChunk(Now()).kind, FrameKind::kActivation);
  sender_.Written(Now());
  ASSERT_TRUE(sender_.Push(MakeFrame(FrameKind::kGradient, 100), Now()).ok());
  sender_.PrepareChunk(Now());
  EXPECT_EQ(sender_.StartChunk(Now()).kind, FrameKind::kGradient);
}

TEST_F(LinkTransferTest, ChunksWaitForTheCapAndControlDoesNot) {
  limiter_->SetRate(BitsPerSecond{8 * 10'000});  // a chunk takes more than a second
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(sender_.Push(MakeFrame(FrameKind::kActivation, 16'384), Now()).ok());
  }
  std::optional<Duration> wait = sender_.PrepareChunk(Now());
  while (wait == Duration::zero()) {
    sender_.StartChunk(Now());
    sender_.Written(Now());
    wait = sender_.PrepareChunk(Now());
  }
  ASSERT_TRUE(wait);
  EXPECT_LE(*wait, kCapWaitSlice);  // a change of the cap is felt soon
  EXPECT_TRUE(sender_.waiting());
  ASSERT_TRUE(sender_.QueueControl(PingOf(1)));
  EXPECT_TRUE(sender_.StartControl(Now()));
  EXPECT_FALSE(sender_.Written(Now()));

  Pass(*wait);
  EXPECT_TRUE(sender_.Waited(Now()));
  EXPECT_FALSE(sender_.Waited(Now()));
  EXPECT_GT(Stats().stall_rate_limit_ms, 0);
  EXPECT_TRUE(sender_.TakeLimited());
  EXPECT_FALSE(sender_.TakeLimited());
  limiter_->SetRate({});
  EXPECT_EQ(sender_.PrepareChunk(Now()), Duration::zero());
}

TEST_F(LinkTransferTest, ChunksOfALinkThatIsNotAloneAreSmaller) {
  limiter_->SetRate(BitsPerSecond{8 * 4'000'000});
  stripes_most_->store(2);
  ASSERT_TRUE(sender_.Push(MakeFrame(FrameKind::kActivation, 50'000), Now()).ok());
  sender_.PrepareChunk(Now());
  EXPECT_EQ(sender_.StartChunk(Now()).size, 20'000u);  // 10 ms of half of the rate
  sender_.Written(Now());
  stripes_most_->store(4);
  sender_.PrepareChunk(Now());
  EXPECT_EQ(sender_.StartChunk(Now()).size, 16'384u);  // but no chunk is tiny
}

TEST_F(LinkTransferTest, ControlMessagesAreBounded) {
  for (std::size_t i = 0; i < kControlQueueMax; ++i) {
    ASSERT_TRUE(sender_.QueueControl(PingOf(i)));
  }
  EXPECT_FALSE(sender_.QueueControl(PingOf(0)));
  sender_.Restart();
  EXPECT_FALSE(sender_.StartControl(Now()));
  EXPECT_TRUE(sender_.QueueControl(PingOf(0)));
}

TEST_F(LinkTransferTest, AFullQueueRefusesAndClearForgets) {
  ASSERT_TRUE(sender_.Push(MakeFrame(FrameKind::kGroup, 150'000), Now()).ok());
  EXPECT_EQ(sender_.Push(MakeFrame(FrameKind::kGroup, 150'000), Now()).code(),
            StatusCode::kResourceExhausted);
  sender_.PrepareChunk(Now());
  EXPECT_GT(Stats().queued_bytes, 150'000u);  // the prepared chunk counts
  sender_.Clear();
  EXPECT_EQ(Stats().queued_bytes, 0u);
  EXPECT_FALSE(sender_.PrepareChunk(Now()));
}

TEST_F(LinkTransferTest, OneMessageIsReadAtATime) {
  EXPECT_EQ(receiver_.StartRead(), Duration::zero());
  EXPECT_TRUE(receiver_.reading());
  EXPECT_FALSE(receiver_.StartRead());
  receiver_.Read(100);
  EXPECT_EQ(receiver_.StartRead(), Duration::zero());
  receiver_.Restart();
  EXPECT_EQ(receiver_.StartRead(), Duration::zero());
  EXPECT_EQ(Stats().received_wire_bytes, 100u);
}

TEST_F(LinkTransferTest, ReadingWaitsForTheCap) {
  limiter_->SetRate(BitsPerSecond{8 * 10'000});
  receiver_.Read(100'000);
  const auto wait = receiver_.StartRead();
  ASSERT_TRUE(wait);
  EXPECT_GT(*wait, Duration::zero());
  EXPECT_LE(*wait, kCapWaitSlice);
  EXPECT_FALSE(receiver_.reading());
  EXPECT_FALSE(receiver_.StartRead());
  EXPECT_TRUE(receiver_.Waited());
  EXPECT_FALSE(receiver_.Waited());
  Pass(std::chrono::seconds(20));
  EXPECT_EQ(receiver_.StartRead(), Duration::zero());
}

TEST_F(LinkTransferTest, NothingIsReadWhileTheExecutorLags) {
  receiver_.Handed(kUndeliveredBytesMax);
  EXPECT_EQ(receiver_.StartRead(), Duration::zero());
  receiver_.Read(1);
  receiver_.Handed(1);
  EXPECT_FALSE(receiver_.StartRead());
  receiver_.Taken(1);
  EXPECT_EQ(receiver_.StartRead(), Duration::zero());
  EXPECT_EQ(Stats().received_frames, 2u);
}

}  // namespace
}  // namespace shoal::net
