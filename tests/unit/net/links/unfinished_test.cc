// What was begun and not finished: frames of a link, and hellos. Both are bounded and end.

#include <gmock/gmock.h>

#include <set>

#include "common/checksum.h"
#include "net/links/frame_intake.h"
#include "net/links/link_greeter.h"
#include "tests/support/sim_executor.h"

namespace shoal::net {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

constexpr RunId kRun{0x77};
constexpr std::uint64_t kFrameMax = 1 << 20;

class FrameIntakeTest : public testing::Test {
 protected:
  std::shared_ptr<FrameIntake> Intake() {
    return std::make_shared<FrameIntake>(kRun, 1, kFrameMax, budget_);
  }
  // The first `size` bytes of a frame of `total` zeros.
  static std::string Begin(std::uint64_t id, std::uint64_t total, std::size_t size) {
    bulk::v1::ChunkHeader header;
    header.set_frame(id);
    header.mutable_header()->set_kind(1);
    header.mutable_header()->set_run(kRun.value);
    header.mutable_header()->set_generation(1);
    header.mutable_header()->set_payload_bytes(total);
    const std::string zeros(total, '\0');
    header.mutable_header()->set_payload_checksum(
        Checksum64(std::as_bytes(std::span<const char>(zeros))));
    return ChunkHead(header) + std::string(size, '\0');
  }
  static std::string Rest(std::uint64_t id, std::uint64_t offset, std::size_t size) {
    bulk::v1::ChunkHeader header;
    header.set_frame(id);
    header.set_offset(offset);
    return ChunkHead(header) + std::string(size, '\0');
  }
  Result<FrameIntake::Incoming> Take(const std::shared_ptr<FrameIntake>& intake,
                                     const std::string& message) {
    return intake->Take({std::as_bytes(std::span<const char>(message))}, now_);
  }

  const std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(3 * kFrameMax);
  TimePoint now_{seconds(1000)};
};

TEST_F(FrameIntakeTest, UnfinishedFramesOfALinkAreBounded) {
  const auto intake = Intake();
  ASSERT_TRUE(Take(intake, Begin(1, kFrameMax, 1)).ok());
  ASSERT_TRUE(Take(intake, Begin(2, kFrameMax / 2, 1)).ok());
  const auto third = Take(intake, Begin(3, 1000, 1));
  EXPECT_EQ(third.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(third.status().message(), HasSubstr("no room for a frame of 1000 bytes"));
}

TEST_F(FrameIntakeTest, UnfinishedFramesOfAllLinksAreBoundedAndGivenBack) {
  std::vector<std::shared_ptr<FrameIntake>> links;
  for (int i = 0; i < 3; ++i) {
    links.push_back(Intake());
    ASSERT_TRUE(Take(links.back(), Begin(1, kFrameMax, 5)).ok());
  }
  EXPECT_EQ(Take(Intake(), Begin(1, 1, 0)).status().code(), StatusCode::kResourceExhausted);
  links.pop_back();  // with its link
  EXPECT_EQ(budget_->used(), 2 * kFrameMax);
  const auto whole = Take(links[0], Rest(1, 5, kFrameMax - 5));
  ASSERT_TRUE(whole.ok() && whole->frame);
  EXPECT_EQ(budget_->used(), kFrameMax);
  EXPECT_TRUE(Take(Intake(), Begin(1, 1, 1))->frame);
  links.clear();
  EXPECT_EQ(budget_->used(), 0u);
}

TEST_F(FrameIntakeTest, AFrameWithoutChunksIsOverdueUnlessNobodyListened) {
  const auto intake = Intake();
  EXPECT_FALSE(intake->Overdue(now_, seconds(120)));
  ASSERT_TRUE(Take(intake, Begin(1, 10, 5)).ok());
  now_ += seconds(100);
  ASSERT_TRUE(Take(intake, Rest(1, 5, 2)).ok());
  now_ += seconds(120);
  EXPECT_FALSE(intake->Overdue(now_, seconds(120)));
  now_ += seconds(1);
  EXPECT_TRUE(intake->Overdue(now_, seconds(120)));
  intake->Excuse(now_);
  EXPECT_FALSE(intake->Overdue(now_, seconds(120)));
  ASSERT_TRUE(Take(intake, Rest(1, 7, 3))->frame);
  now_ += seconds(1000);
  EXPECT_FALSE(intake->Overdue(now_, seconds(120)));
}

// A caller that neither finishes its hello nor reads what it is told.
class MuteStream final : public BulkStream {
 public:
  bool SetSink(std::shared_ptr<StreamSink>) override { return true; }
  void Write(std::string, std::shared_ptr<const Buffer>, std::size_t, std::size_t) override {
    ++writes;
  }
  void Read() override {}
  void Close(const Status&) override { closed = true; }
  std::string address() const override { return "10.0.0.1:1"; }
  std::string peer_address() const override { return address(); }

  int writes = 0;
  bool closed = false;
};

TEST(LinkGreeter, UnfinishedHellosEndAlsoIfTheRefusalIsNotRead) {
  test_support::SimWorld world;
  const auto executor = world.NewExecutor("control");
  const auto greeter = std::make_shared<LinkGreeter>(seconds(30), executor.get());
  std::vector<std::shared_ptr<MuteStream>> streams;
  std::vector<std::shared_ptr<StreamSink>> sinks;
  for (unsigned char key = 0; key < 16; ++key) {
    PeerId peer;
    peer.key[0] = key;
    for (int i = 0; i < 16; ++i) {
      streams.push_back(std::make_shared<MuteStream>());
      sinks.push_back(greeter->Greet(streams.back(), peer));
      ASSERT_NE(sinks.back(), nullptr);
    }
    EXPECT_EQ(greeter->Greet(std::make_shared<MuteStream>(), peer), nullptr);
  }
  PeerId other;
  other.key[0] = 99;
  EXPECT_EQ(greeter->Greet(std::make_shared<MuteStream>(), other), nullptr);  // 256 of them wait
  world.RunUntil([] { return false; }, seconds(20));
  for (std::size_t i = 0; i < streams.size(); ++i) {
    EXPECT_EQ(streams[i]->writes, 1);
    EXPECT_TRUE(streams[i]->closed);
    sinks[i]->OnGone(streams[i].get(), Aborted("closed"));
  }
  EXPECT_NE(greeter->Greet(std::make_shared<MuteStream>(), other), nullptr);
}

}  // namespace
}  // namespace shoal::net
