#include "storage/history/history_keeper.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "common/file.h"
#include "tests/support/sim_executor.h"
#include "tests/support/temporary_folder.h"

namespace shoal::storage {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// In virtual time, a look each second.
class HistoryKeeperTest : public testing::Test {
 protected:
  void Start() {
    Result<UsageHistory> history = OpenHistory(path_);
    ASSERT_TRUE(history.ok()) << history.status().ToString();
    keeper_ =
        std::make_unique<HistoryKeeper>(control_.get(), store_.get(), path_, *std::move(history));
  }
  void Pass(int looks) {
    for (; looks > 0; --looks) {
      control_->PostAfter("test.look", seconds(1),
                          [this] { keeper_->Look(now_ms_, total_, step_, 2.5); });
      world_.RunUntil([this] { return world_.pending() == 0; }, seconds(2));
      now_ms_ += 1000;
    }
  }
  std::string Hour() const { return keeper_->Json("span=1h", now_ms_).value(); }

  const test_support::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/history.bin";
  test_support::SimWorld world_;
  const std::unique_ptr<Executor> control_ = world_.NewExecutor("control");
  const std::unique_ptr<Executor> store_ = world_.NewExecutor("store");
  std::int64_t now_ms_ = 1'795'860'000'000;
  HistoryCounts total_;
  std::uint64_t step_ = 0;
  std::unique_ptr<HistoryKeeper> keeper_;
};

TEST_F(HistoryKeeperTest, CountsFromTheFirstLookAndGoesOnAfterARestart) {
  total_.sent_bytes = 1'000'000;  // of earlier starts
  Start();
  Pass(1);
  total_.sent_bytes += 500;
  step_ = 1;
  Pass(60);
  EXPECT_THAT(Hour(), HasSubstr("[1795860000000,500,0,0,0,2.5]"));
  keeper_->Save();
  Pass(1);
  Start();
  Pass(1);
  total_.sent_bytes += 7;
  Pass(60);
  EXPECT_THAT(Hour(), HasSubstr("[[1795860000000,500,0,0,0,2.5],[1795860060000,7,"));
}

TEST_F(HistoryKeeperTest, WritesEveryTenMinutesOnTheStoresThread) {
  Start();
  Pass(9 * 60);
  EXPECT_FALSE(std::filesystem::exists(path_));
  Pass(2 * 60);
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_LT(std::filesystem::file_size(path_), 1000u);
}

TEST_F(HistoryKeeperTest, SetsADamagedFileAsideAndBeginsAnew) {
  ASSERT_TRUE(WriteFileAtomic(path_, "SHOALHIS and more").ok());
  Start();
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(ReadFile(path_ + ".damaged", 100).value(), "SHOALHIS and more");
  EXPECT_THAT(Hour(), HasSubstr("\"points\":[]"));
  ASSERT_TRUE(WriteFileAtomic(path_, std::string(kHistoryFileBytesMax + 1, 'x')).ok());
  EXPECT_TRUE(OpenHistory(path_).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace shoal::storage
