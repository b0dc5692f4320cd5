#include "scheduler/tracking/run_activity.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/sim_executor.h"
#include "tests/support/temporary_folder.h"

namespace shoal::scheduler {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

constexpr std::int64_t kNow_ms = 1'795'860'000'000;  // 2026-11-28 10:00 UTC

// In virtual time, a tick each second.
class RunActivityTest : public testing::Test {
 protected:
  void Open() {
    activity_ = *RunActivity::Open(folder_.path(),
                                   {control_.get(), store_.get(), [this] { return now_ms_; }});
  }
  void Pass(int ticks, bool training = true) {
    for (; ticks > 0; --ticks) {
      control_->PostAfter("test.tick", seconds(1), [&, training] {
        activity_->Tick(training, [this] {
          ++asked_;
          return std::vector<MemberTraffic>{
              {PeerId{}, R"({"traffic":{"linkSentWireBytes":)" + std::to_string(sent_) + "}}"}};
        });
      });
      world_.RunUntil([this] { return world_.pending() == 0; }, seconds(2));
      now_ms_ += 1000;
    }
  }
  std::string Hour() const { return activity_->Json("span=1h").value(); }

  const test_support::TemporaryFolder folder_;
  test_support::SimWorld world_;
  const std::unique_ptr<Executor> control_ = world_.NewExecutor("control");
  const std::unique_ptr<Executor> store_ = world_.NewExecutor("store");
  std::int64_t now_ms_ = kNow_ms;
  std::uint64_t sent_ = 5'000'000;  // of before the scheduler's start
  int asked_ = 0;
  std::unique_ptr<RunActivity> activity_;
};

TEST_F(RunActivityTest, CountsWhatTheRunDidByTheMinute) {
  Open();
  Pass(2);
  activity_->Applied(1, 2.5, 8);
  activity_->Applied(2, 2.25, 8);
  sent_ += 700;
  Pass(60);
  EXPECT_THAT(Hour(), HasSubstr("[[1795860000000,700,0,16,"));
  EXPECT_THAT(Hour(), HasSubstr(",2.25]]"));
  EXPECT_LE(asked_, 8) << "the members' figures are parsed every ten seconds";
}

TEST_F(RunActivityTest, ATimeWithoutTrainingIsNotCounted) {
  Open();
  Pass(31);
  Pass(60, false);
  const std::string hour = Hour();
  EXPECT_THAT(hour, HasSubstr("[[1795860000000,0,0,0,30000,null]"));
}

TEST_F(RunActivityTest, GoesOnWithItsFile) {
  Open();
  Pass(2);
  activity_->Applied(1, 2.5, 8);
  Pass(60);
  activity_->Save();
  Pass(1);
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/history.bin"));
  Open();
  EXPECT_THAT(Hour(), HasSubstr("[[1795860000000,0,0,8,"));
  EXPECT_FALSE(activity_->Json("span=2h").ok());
}

}  // namespace
}  // namespace shoal::scheduler
