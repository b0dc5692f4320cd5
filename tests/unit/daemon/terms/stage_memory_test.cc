#include "daemon/terms/stage_memory.h"

#include <gmock/gmock.h>

#include <chrono>
#include <vector>

#include "tests/support/sim_executor.h"

namespace shoal::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// A device of 16 GiB.
class FakePool final : public StagePool {
 public:
  Status Check(std::uint64_t asked_bytes) const override {
    return asked_bytes <= 16 * kGiB ? Status::Ok() : InvalidArgument("it has 16 GiB");
  }
  Result<std::uint64_t> Bound(std::uint64_t asked_bytes) override {
    SHOAL_RETURN_IF_ERROR(Check(asked_bytes));
    bounds.push_back(asked_bytes);
    return asked_bytes == 0 ? 16 * kGiB : asked_bytes;
  }
  std::uint64_t PeakBytes() const override { return peak; }
  void ForgetPeak() override { peak = 0; }

  std::vector<std::uint64_t> bounds;
  std::uint64_t peak = 0;
};

class StageMemoryTest : public testing::Test, private StageMemory::Owner {
 protected:
  void Allow(std::uint64_t asked, std::optional<std::uint64_t> stage) {
    memory_.Allow(asked, stage);
    Pass();
  }
  void Pass() {
    world_.RunUntil([] { return false; }, std::chrono::seconds(1));
  }
  void OnStageTooLarge(std::uint64_t limit_bytes) override { too_large_.push_back(limit_bytes); }

  test_support::SimWorld world_;
  const std::unique_ptr<Executor> control_ = world_.NewExecutor("control");
  const std::unique_ptr<Executor> compute_ = world_.NewExecutor("compute");
  FakePool pool_;
  std::vector<std::uint64_t> too_large_;
  StageMemory::Owner* const owner_ = this;
  StageMemory memory_{control_.get(), compute_.get(), &pool_, 0, 16 * kGiB, owner_};
};

TEST_F(StageMemoryTest, WithoutAStageItIsBoundedAtOnce) {
  Allow(0, std::nullopt);
  EXPECT_THAT(pool_.bounds, IsEmpty()) << "as before";
  EXPECT_EQ(memory_.Text(), "");
  Allow(6 * kGiB, std::nullopt);
  EXPECT_THAT(pool_.bounds, ElementsAre(6 * kGiB));
  EXPECT_EQ(memory_.bytes(), 6 * kGiB);
  EXPECT_EQ(memory_.Text(), "device_memory 6.00 GiB");
  Allow(0, std::nullopt);
  EXPECT_EQ(memory_.bytes(), 16 * kGiB);
  EXPECT_EQ(memory_.Text(), "");
}

TEST_F(StageMemoryTest, AStageThatFitsStays) {
  pool_.peak = 5 * kGiB;
  Allow(6 * kGiB, 4 * kGiB);
  EXPECT_THAT(pool_.bounds, ElementsAre(6 * kGiB));
  EXPECT_THAT(too_large_, IsEmpty());
}

TEST_F(StageMemoryTest, WhatAStageHasTakenDecidesNotWhatItTakesNow) {
  pool_.peak = 7 * kGiB;
  Allow(6 * kGiB, 4 * kGiB);
  EXPECT_THAT(pool_.bounds, IsEmpty()) << "it computes on while it is handed over";
  EXPECT_THAT(too_large_, ElementsAre(6 * kGiB));
  EXPECT_EQ(memory_.bytes(), 6 * kGiB) << "for the next hello";
  EXPECT_EQ(memory_.Text(),
            "device_memory 6.00 GiB: the stage took up to 7.00 GiB and is handed over first");
  memory_.OnStageEnds();
  Pass();
  EXPECT_THAT(pool_.bounds, ElementsAre(6 * kGiB));
  EXPECT_EQ(pool_.peak, 0u) << "the next stage's counts anew";
  EXPECT_EQ(memory_.Text(), "device_memory 6.00 GiB");
  EXPECT_EQ(too_large_.size(), 1u);
}

TEST_F(StageMemoryTest, AStageThatIsMadeJustNowIsGivenBackUnlessItMayTakeMore) {
  Allow(6 * kGiB, kStageIsMade);
  EXPECT_THAT(too_large_, ElementsAre(6 * kGiB));
  memory_.OnStageEnds();
  Pass();
  Allow(8 * kGiB, kStageIsMade);
  Allow(0, kStageIsMade);
  EXPECT_THAT(pool_.bounds, ElementsAre(6 * kGiB, 8 * kGiB, 0u));
  EXPECT_EQ(too_large_.size(), 1u);
}

TEST_F(StageMemoryTest, WhatIsTooLargeStaysTooLargeForALittleMore) {
  pool_.peak = 7 * kGiB;
  Allow(5 * kGiB, 4 * kGiB);
  Allow(6 * kGiB, 4 * kGiB);
  EXPECT_THAT(pool_.bounds, IsEmpty());
  EXPECT_THAT(too_large_, ElementsAre(5 * kGiB, 6 * kGiB));
  Allow(8 * kGiB, 4 * kGiB);
  EXPECT_THAT(pool_.bounds, ElementsAre(8 * kGiB));
  EXPECT_EQ(memory_.Text(), "device_memory 8.00 GiB");
}

// The answer of compute is still on its way.
TEST_F(StageMemoryTest, AStageThatEndsMeanwhileIsNotGivenBack) {
  pool_.peak = 7 * kGiB;
  memory_.Allow(6 * kGiB, 4 * kGiB);
  memory_.OnStageEnds();
  Pass();
  EXPECT_THAT(too_large_, IsEmpty());
  EXPECT_THAT(pool_.bounds, ElementsAre(6 * kGiB));
}

TEST_F(StageMemoryTest, WhatDoesNotHoldIsSaid) {
  EXPECT_FALSE(memory_.Check(17 * kGiB).ok());
  Allow(17 * kGiB, std::nullopt);
  EXPECT_THAT(memory_.Text(), HasSubstr("device_memory 17.0 GiB does not hold: it has 16 GiB"));
  EXPECT_EQ(memory_.bytes(), 16 * kGiB);
}

TEST_F(StageMemoryTest, WithoutAPoolNothingIsBounded) {
  StageMemory memory(control_.get(), compute_.get(), nullptr, 0, 3, owner_);
  memory.Allow(6 * kGiB, kStageIsMade);
  memory.OnStageEnds();
  Pass();
  EXPECT_EQ(memory.bytes(), 3u);
  EXPECT_TRUE(memory.Check(99 * kGiB).ok());
  EXPECT_THAT(too_large_, IsEmpty());
}

}  // namespace
}  // namespace shoal::daemon
