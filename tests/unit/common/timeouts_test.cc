#include "common/timeouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "common/file.h"
#include "tests/support/temporary_folder.h"

namespace shoal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST(Timeouts, AreNestedOverTheWholeRangeOfTheSetting) {
  for (Duration setting = kPeerTimeoutMin; setting <= kPeerTimeoutMax;
       setting += milliseconds(50)) {
    const Timeouts timeouts = TimeoutsOf(setting);
    ASSERT_EQ(timeouts.peer_timeout, setting);
    const Status nested = CheckNesting(timeouts);
    ASSERT_TRUE(nested.ok()) << nested.ToString();
    // A heartbeat that is lost alone takes nobody out.
    ASSERT_GE(timeouts.silence_least, 3 * timeouts.heartbeat_interval);
  }
}

TEST(Timeouts, GrowWithTheSetting) {
  Timeouts before = TimeoutsOf(kPeerTimeoutMin);
  for (Duration setting = kPeerTimeoutMin; setting <= kPeerTimeoutMax; setting += seconds(1)) {
    const Timeouts now = TimeoutsOf(setting);
    ASSERT_GE(now.operation_least, before.operation_least);
    ASSERT_GE(now.link_silence, before.link_silence);
    ASSERT_GE(now.step_stall, before.step_stall);
    ASSERT_GE(now.doubt, before.doubt);
    before = now;
  }
}

TEST(Timeouts, OfASettingOutOfRangeAreThoseOfItsEnd) {
  EXPECT_EQ(TimeoutsOf(Duration::zero()).peer_timeout, kPeerTimeoutMin);
  EXPECT_EQ(TimeoutsOf(seconds(-5)).step_stall, TimeoutsOf(kPeerTimeoutMin).step_stall);
  EXPECT_EQ(TimeoutsOf(std::chrono::hours(9)).doubt, TimeoutsOf(kPeerTimeoutMax).doubt);
}

TEST(Timeouts, ThatDoNotNestAreNamed) {
  Timeouts timeouts = TimeoutsOf(kPeerTimeoutDefault);
  timeouts.frame_stall = timeouts.step_stall;
  const Status nested = CheckNesting(timeouts);
  EXPECT_THAT(nested.message(), HasSubstr("'step stalled'"));
  EXPECT_THAT(nested.message(), HasSubstr("'frame stalled'"));
}

TEST(Timeouts, TheTableNamesEachOnceWithItsValue) {
  const Timeouts timeouts = TimeoutsOf(seconds(12));
  std::set<std::string> names;
  bool setting = false;
  for (const TimeoutRow& row : TimeoutTable(timeouts)) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GT(row.value, Duration::zero()) << row.name;
    EXPECT_FALSE(std::string(row.meaning).empty() || std::string(row.action).empty());
    if (std::string(row.name) == "peer silent") setting = row.value == seconds(12);
  }
  EXPECT_TRUE(setting);
  EXPECT_EQ(names.size(), 16u);
}

TEST(Timeouts, OperationsSaysAfterHowLongWhoNoticesWhat) {
  const auto page =
      ReadFile(test_support::Environment("SHOAL_SOURCE_DIR") + "/docs/OPERATIONS.md", 1 << 20);
  ASSERT_TRUE(page.ok());
  const Timeouts t = TimeoutsOf(kPeerTimeoutDefault);
  const auto text = [](Duration duration) { return std::to_string(duration / seconds(1)) + " s"; };
  for (const std::string& said :
       {"the scheduler, " + text(t.silence_least) + " to " + text(t.peer_timeout) + " after its",
        "the peer: " + text(t.operation_least) + ", or at most ten times",
        "a silent one " + text(t.link_silence) + ", a frame without its rest " +
            text(t.frame_stall),
        "who waits: " + text(t.wait_least) + ", or at most ten times",
        "a step's first frame " + text(t.step_stall), text(t.link_open) + " to open",
        "complaints count after " + std::to_string(t.doubt / std::chrono::minutes(1)) + " minutes",
        "`peer_timeout = \"" + std::to_string(t.peer_timeout / seconds(1)) + "s\"`"}) {
    EXPECT_THAT(*page, HasSubstr(said));
  }
}

}  // namespace
}  // namespace shoal
