#include "daemon/gpu/settled_device.h"

#include <gmock/gmock.h>

#include "common/file.h"
#include "tests/support/temporary_folder.h"

namespace shoal::daemon {
namespace {

using testing::HasSubstr;

class SettledDevice : public testing::Test {
 protected:
  Status Settle(const std::string& asked, bool gpu) { return SettleDevice(path_, asked, gpu); }
  std::string Kept() const { return ReadFile(path_, 64).value(); }

  const test_support::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/device";
};

TEST_F(SettledDevice, AutoDoesNotBecomeTheCpuWhereAGpuWas) {
  ASSERT_TRUE(Settle("auto", true).ok());
  EXPECT_EQ(Kept(), "gpu\n");
  for (int start = 0; start < 2; ++start) {
    const Status status = Settle("auto", false);
    EXPECT_EQ(status.code(), StatusCode::kAborted);
    EXPECT_THAT(status.message(), HasSubstr("--device cpu"));
    EXPECT_EQ(Kept(), "gpu\n");
  }
  EXPECT_TRUE(Settle("auto", true).ok()) << "it is there again";
}

TEST_F(SettledDevice, WhoAsksForTheCpuGetsItFromThenOn) {
  ASSERT_TRUE(Settle("cuda:0", true).ok());
  EXPECT_TRUE(Settle("cpu", false).ok());
  EXPECT_EQ(Kept(), "cpu\n");
  EXPECT_TRUE(Settle("auto", false).ok());
  EXPECT_TRUE(Settle("auto", true).ok()) << "a card was built in";
  EXPECT_EQ(Kept(), "gpu\n");
}

TEST_F(SettledDevice, AFileThatIsNotOursIsReplaced) {
  ASSERT_TRUE(WriteFileAtomic(path_, std::string(1000, 'g')).ok());
  EXPECT_TRUE(Settle("auto", false).ok());
  EXPECT_EQ(Kept(), "cpu\n");
}

}  // namespace
}  // namespace shoal::daemon
