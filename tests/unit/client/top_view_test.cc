#include "client/top_view.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace shoal::client {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kPeer = R"({"name":"attic","state":"training","since":1000,"time":201000,
"stateReasons":[],"swarm":{"name":"demo","state":"training","step":50,"targetStep":200,
 "loss":3.25,"losses":[[38,4.0],[39,3.25]]},
"role":{"stage":0,"stages":2,"pipeline":1,"pipelines":2},"device":"cpu",
"work":{"samplesPerSecond":12.34},
"links":[{"channel":"boundary/1/0","name":"a-cellar-with-a-name","connected":true,
 "upBps":5000000,"downBps":2500000,"ratio":7.96,"rttMs":12.5},
 {"channel":"shared/0.1","name":"barn","connected":false}],
"limits":{"upBps":20000000,"downBps":0},
"health":[{"severity":"warning","text":"the disk is slow and this text is longer than one line",
 "fix":"buy another"}]})";

TEST(TopFrame, ShowsWhatMattersInSixtyColumns) {
  const auto lines = TopFrame(kPeer, Status::Ok(), 60, 30, 0);
  ASSERT_EQ(lines.size(), 30u);
  EXPECT_EQ(lines[0], "attic  training for 3m 20s");
  EXPECT_THAT(lines, Contains("progress  [#####...............] step 50 of 200"));
  EXPECT_THAT(lines, Contains("loss      █▁ 3.2500"));
  EXPECT_THAT(lines, Contains("upload    [#####...............] 5 Mbit/s of 20 Mbit/s"));
  EXPECT_THAT(lines, Contains("download  2.5 Mbit/s, no cap"));
  EXPECT_THAT(lines, Contains("boundary/1/0  a-cellar->  5.00       2.50  8.0x   12 ms"));
  EXPECT_THAT(lines, Contains("warning   the disk is slow and this text is longer than one"));
  EXPECT_THAT(lines, Contains("          line; buy another"));
  EXPECT_THAT(lines.back(), StartsWith("q quits"));
  for (const std::string& line : lines) EXPECT_LE(line.size(), 64u) << line;
}

TEST(TopFrame, ShowsTheGpuWhereItsDriverTells) {
  const char* const peer = R"({"name":"attic","state":"paused",
"stateReasons":["paused: the GPU is used by blender, or was a moment ago"],
"gpu":{"name":"RTX","powerWatts":287.5,"powerLimitWatts":350,"memoryUsedBytes":null,
 "memoryBytes":null}})";
  const auto lines = TopFrame(peer, Status::Ok(), 80, 30, 0);
  EXPECT_THAT(lines, Contains("GPU       288 W of at most 350 W"));
  EXPECT_THAT(lines, Contains("why       paused: the GPU is used by blender, or was a moment ago"));
}

TEST(TopFrame, ScrollsAsFarAsThereIsMore) {
  const auto all = TopFrame(kPeer, Status::Ok(), 80, 60, 0);
  const auto first = TopFrame(kPeer, Status::Ok(), 80, 8, 0);
  const auto second = TopFrame(kPeer, Status::Ok(), 80, 8, 1);
  EXPECT_EQ(first[1], all[1]);
  EXPECT_EQ(second[0], all[0]) << "the headline stays";
  EXPECT_EQ(second[1], all[2]);
  EXPECT_THAT(first.back(), HasSubstr("lines more"));
  const auto last = TopFrame(kPeer, Status::Ok(), 80, 8, 1000);
  EXPECT_THAT(last[6], HasSubstr("buy another"));
  EXPECT_EQ(TopFrame(kPeer, Status::Ok(), 80, 60, 1000), all);
}

TEST(TopFrame, HoldsInTerminalsOfAnySize) {
  for (std::size_t columns = 0; columns < 130; columns += 7) {
    for (std::size_t rows = 0; rows < 40; ++rows) {
      EXPECT_LE(TopFrame(kPeer, Status::Ok(), columns, rows, 3).size(), rows);
    }
  }
}

TEST(TopFrame, SaysThatNobodyAnswers) {
  const auto lines = TopFrame("", Unavailable("nobody listens"), 60, 10, 0);
  EXPECT_EQ(lines[0], "shoald does not answer");
  EXPECT_THAT(lines, Contains("why       nobody listens"));
  EXPECT_THAT(TopFrame("[]", Status::Ok(), 60, 10, 0)[1], HasSubstr("not a JSON object"));
}

TEST(TopFrame, LeavesNoControlCharactersOfOthers) {
  const auto lines = TopFrame(R"({"name":"a\u001b[2Jb","state":"idle",
      "stateReasons":["x\u001b[31my"],"links":[{"name":"\u0007"}]})",
                              Status::Ok(), 80, 20, 0);
  for (const std::string& line : lines) {
    EXPECT_TRUE(std::ranges::none_of(line, [](char c) { return c > 0 && c < ' '; })) << line;
  }
}

}  // namespace
}  // namespace shoal::client
