#include "daemon/churn/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/file.h"

namespace shoal::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const auto trace = ParseTrace(text, 0);
  EXPECT_EQ(trace.status().code(), StatusCode::kInvalidArgument) << text;
  return trace.status().message();
}

TEST(ChurnTrace, EventsKeepTheirTimesAndTheirOrder) {
  const auto trace = ParseTrace("0,add,a\n5,add,b\n5,remove,a\n5,add,a\n7,remove,b\n", 0);
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  ASSERT_EQ(trace->events.size(), 5u);
  EXPECT_EQ(trace->events[2].at, milliseconds(5));
  EXPECT_FALSE(trace->events[2].comes);
  EXPECT_EQ(trace->events[2].machine, 0u);
  EXPECT_EQ(trace->events[3].machine, 2u) << "who comes back is another machine";
  EXPECT_EQ(trace->machines, 3u);
  EXPECT_EQ(trace->named, 2u);
  EXPECT_EQ(trace->length, milliseconds(7));
}

TEST(ChurnTrace, SaysInWhichLineWhatIsWrong) {
  EXPECT_THAT(ErrorOf("0,add,a\n1,add\n"), HasSubstr("line 2: '1,add' is not"));
  EXPECT_THAT(ErrorOf("0,add,a\n\n"), HasSubstr("line 2"));
  EXPECT_THAT(ErrorOf("0,add,a,b\n"), HasSubstr("line 1"));
  EXPECT_THAT(ErrorOf("-1,add,a\n"), HasSubstr("line 1: '-1' is no number of milliseconds"));
  EXPECT_THAT(ErrorOf("99999999999999999999,add,a\n"), HasSubstr("no number of milliseconds"));
  EXPECT_THAT(ErrorOf("99999999999999,add,a\n"), HasSubstr("no number of milliseconds"));
  EXPECT_THAT(ErrorOf("0,adds,a\n"), HasSubstr("'adds' is neither add nor remove"));
  EXPECT_THAT(ErrorOf("0,add,\n"), HasSubstr("1 to 64 characters"));
  EXPECT_THAT(ErrorOf("0,add," + std::string(65, 'n') + "\n"), HasSubstr("1 to 64 characters"));
  EXPECT_THAT(ErrorOf("2,add,a\n1,add,b\n"), HasSubstr("line 2: comes before"));
  EXPECT_THAT(ErrorOf("0,add,a\n0,add,a\n"), HasSubstr("line 2: node a is there already"));
  EXPECT_THAT(ErrorOf("0,remove,a\n"), HasSubstr("line 1: node a is not there"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("no event"));
  std::string many;
  for (std::uint32_t i = 0; i <= kTraceMachinesMax; ++i)
    many += "0,add,n" + std::to_string(i) + "\n";
  EXPECT_THAT(ErrorOf(many), HasSubstr("more than 2048 machines at once"));
}

TEST(ChurnTrace, OfCountsTheFirstGoFirstOrWithASeedAny) {
  const std::string text = R"({"metadata": {"gap_seconds": 300}, "data": [0, 3, 1, 2]})";
  const auto trace = ParseTrace(text, 0);
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  std::vector<std::uint32_t> gone;
  for (const ChurnEvent& event : trace->events) {
    if (!event.comes) gone.push_back(event.machine);
    EXPECT_EQ(event.at, seconds(300) * (event.comes ? (event.machine < 3 ? 1 : 3) : 2));
  }
  EXPECT_EQ(gone, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(trace->named, 3u);
  EXPECT_EQ(trace->length, seconds(1200));
  bool others = false;
  for (std::uint64_t seed = 1; seed < 10; ++seed) {
    const auto any = ParseTrace(text, seed);
    const auto again = ParseTrace(text, seed);
    ASSERT_TRUE(any.ok() && again.ok());
    for (std::size_t i = 0; i < any->events.size(); ++i) {
      EXPECT_EQ(any->events[i].machine, again->events[i].machine);
      others = others || any->events[i].machine != trace->events[i].machine;
    }
  }
  EXPECT_TRUE(others);
}

TEST(ChurnTrace, SaysWhichCountIsWrong) {
  const auto with = [](const std::string& gap, const std::string& data) {
    return R"({"metadata": {"gap_seconds": )" + gap + R"(}, "data": [)" + data + "]}";
  };
  EXPECT_THAT(ErrorOf("{"), HasSubstr("gap_seconds"));
  EXPECT_THAT(ErrorOf(R"({"data": [1]})"), HasSubstr("gap_seconds"));
  EXPECT_THAT(ErrorOf(with("\"x\"", "1")), HasSubstr("gap_seconds"));
  EXPECT_THAT(ErrorOf(with("0", "1")), HasSubstr("distances above 0"));
  EXPECT_THAT(ErrorOf(with("1e30", "1")), HasSubstr("lasts a year"));
  EXPECT_THAT(ErrorOf(with("300", "")), HasSubstr("1 to 1000000 counts"));
  EXPECT_THAT(ErrorOf(with("300", "1, -1")), HasSubstr("data[1] is no whole number"));
  EXPECT_THAT(ErrorOf(with("300", "1, 2.5")), HasSubstr("data[1] is no whole number"));
  EXPECT_THAT(ErrorOf(with("300", "2049")), HasSubstr("data[0] is no whole number from 0 to 2048"));
  EXPECT_THAT(ErrorOf(with("300", "0, 0")), HasSubstr("no machine"));
  std::string waves;
  for (int i = 0; i < 60; ++i) waves += (i == 0 ? "" : ",") + std::string(i % 2 ? "0" : "2048");
  EXPECT_THAT(ErrorOf(with("1", waves)), HasSubstr("more than 100000 events"));
}

TEST(ChurnTrace, CompressedTimesKeepTheirOrder) {
  const auto trace = ParseTrace("0,add,a\n1000,add,b\n1000,remove,a\n3000,remove,b\n", 0);
  ASSERT_TRUE(trace.ok());
  const ChurnTrace fast = Compress(*trace, 4);
  EXPECT_EQ(fast.events[1].at, milliseconds(250));
  EXPECT_EQ(fast.events[2].at, milliseconds(250)) << "what is at once stays at once";
  EXPECT_EQ(fast.length, milliseconds(750));
}

TEST(ChurnTrace, WholePipelinesAreWhatMachinesCanFill) {
  const auto trace = ParseTrace("0,add,a\n0,add,b\n0,add,c\n1000,remove,a\n2000,remove,b\n", 0);
  ASSERT_TRUE(trace.ok());
  // 3 machines for a second, of whom 2 make a pipeline of two; then 2.
  EXPECT_DOUBLE_EQ(WholePipelines(*trace, 2, 4, Duration{}), 4.0 / 5);
  EXPECT_DOUBLE_EQ(WholePipelines(*trace, 1, 4, Duration{}), 1.0);
  EXPECT_DOUBLE_EQ(WholePipelines(*trace, 1, 1, Duration{}), 2.0 / 5);
  EXPECT_DOUBLE_EQ(WholePipelines(*trace, 3, 1, Duration{}), 3.0 / 5);
}

TEST(ChurnTrace, WhoComesLaterHasToFetchAStage) {
  // c comes when a and b are a pipeline, and is of use from 1.5 s on, b's end; d never is.
  const auto trace = ParseTrace(
      "0,add,a\n0,add,b\n500,add,c\n1500,remove,b\n1700,add,d\n2500,remove,a\n2500,remove,c\n"
      "2500,remove,d\n",
      0);
  ASSERT_TRUE(trace.ok());
  const double all = 2.5 + 1.5 + 2 + 0.8;
  EXPECT_DOUBLE_EQ(WholePipelines(*trace, 2, 4, seconds(1)), 2 * 2.5 / all);
  EXPECT_DOUBLE_EQ(WholePipelines(*trace, 2, 4, milliseconds(1500)), 2 * 2.0 / all);
  EXPECT_DOUBLE_EQ(WholePipelines(*trace, 2, 4, Duration{}), 2 * 2.5 / all);
}

TEST(ChurnTrace, SteadyDeathsComeAtEqualDistances) {
  SteadyChurn churn;
  churn.machines = 8;
  churn.kill_every = seconds(60);
  churn.length = minutes(5);
  churn.back_after = seconds(90);
  const auto trace = MakeSteadyTrace(churn);
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  std::vector<Duration> deaths;
  for (const ChurnEvent& event : trace->events) {
    if (!event.comes) deaths.push_back(event.at - churn.warm_up);
  }
  EXPECT_EQ(deaths,
            (std::vector<Duration>{minutes(1), minutes(2), minutes(3), minutes(4), minutes(5)}));
  EXPECT_EQ(trace->machines, 8u + 3u) << "those whose time came";
  EXPECT_TRUE(std::ranges::is_sorted(trace->events, {}, &ChurnEvent::at));
  EXPECT_EQ(trace->measured_from, churn.warm_up);
  churn.kill_every = Duration::zero();
  EXPECT_FALSE(MakeSteadyTrace(churn).ok());
  churn.kill_every = milliseconds(1);
  churn.length = std::chrono::hours(1000);
  EXPECT_FALSE(MakeSteadyTrace(churn).ok());
}

TEST(ChurnTrace, ReadsTheTracesOfRealMachines) {
  const char* const shared = std::getenv("SHOAL_SHARED_DATA");
  const std::string folder = std::string(shared == nullptr ? "" : shared) + "/traces/";
  const auto text = ReadFile(folder + "g4dn_2020.csv", kTraceBytesMax);
  if (!text.ok()) GTEST_SKIP() << "no shared data: its traces are not beside this checkout";
  const auto trace = ParseTrace(*text, 0);
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  EXPECT_EQ(trace->machines, 79u);
  const auto counts = ReadFile(folder + "spot16_us-west-2a.json", kTraceBytesMax);
  ASSERT_TRUE(counts.ok());
  const auto spot = ParseTrace(*counts, 1);
  ASSERT_TRUE(spot.ok()) << spot.status().ToString();
  EXPECT_EQ(spot->named, 16u);
}

}  // namespace
}  // namespace shoal::daemon
