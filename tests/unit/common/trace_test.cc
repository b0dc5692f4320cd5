#include "common/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/file.h"
#include "tests/support/temporary_folder.h"

namespace shoal {
namespace {

using std::chrono::microseconds;

TEST(TraceTest, OffByDefault) {
  EXPECT_FALSE(TraceEnabled());
  Trace("mb.forward", {1, 2});
  StartTrace(10);
  EXPECT_TRUE(TraceEnabled());
  EXPECT_TRUE(TakeTrace().empty());
  EXPECT_FALSE(TraceEnabled());
}

TEST(TraceTest, RecordsInstantsAndSpansInOrderOfStart) {
  StartTrace(10);
  const TimePoint start = SystemClock().Now() - microseconds(500);
  Trace("act.sent", {4, 2}, 3);
  TraceSpan("mb.forward", {4, 1}, start);
  const std::vector<TraceEvent> events = TakeTrace();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_STREQ(events[0].name, "mb.forward");
  EXPECT_EQ(events[0].start, start);
  EXPECT_GE(events[0].duration, microseconds(500));
  EXPECT_EQ(events[0].micro_batch, (MicroBatchId{4, 1}));
  EXPECT_EQ(events[0].segment, std::nullopt);
  EXPECT_EQ(events[1].segment, 3u);
  EXPECT_STREQ(events[1].name, "act.sent");
  EXPECT_EQ(events[1].duration, Duration::zero());
}

TEST(TraceTest, KeepsNoMoreThanTheLimitAndStartsAfresh) {
  StartTrace(3);
  for (std::uint32_t i = 0; i < 5; ++i) Trace("e", {0, i});
  const std::vector<TraceEvent> events = TakeTrace();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2].micro_batch.index, 2u);
  StartTrace(3);
  Trace("other", {});
  EXPECT_EQ(TakeTrace().size(), 1u);
}

TEST(TraceTest, NamesTheThread) {
  StartTrace(10);
  std::thread([] { Trace("e", {0, 0}); }).join();
  std::array<char, 16> system_name{};
  std::thread([&] {
    SetThreadName("a-name-of-more-than-15");
    pthread_getname_np(pthread_self(), system_name.data(), system_name.size());
    Trace("e", {0, 1});
  }).join();
  const std::vector<TraceEvent> events = TakeTrace();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].thread, "grpc");  // not one of ours
  EXPECT_EQ(events[1].thread, "a-name-of-more-than-15");
  EXPECT_STREQ(system_name.data(), "a-name-of-more-");
}

TEST(TraceTest, ManyThreadsRecordWithoutLoss) {
  StartTrace(10'000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (std::uint32_t i = 0; i < 1000; ++i) Trace("e", {0, i});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(TakeTrace().size(), 4000u);
}

TEST(TraceTest, FileIsWhatChromeReads) {
  const test_support::TemporaryFolder folder;
  const TimePoint zero{};
  const std::vector<TraceEvent> events = {
      {"mb.forward", "compute", {3, 1}, zero + microseconds(10), microseconds(5)},
      {"act.sent", "control", {3, 1}, zero + microseconds(15), Duration::zero(), 2},
  };
  ASSERT_TRUE(WriteTraceFile(folder / "t.json", events).ok());
  const auto json = nlohmann::json::parse(ReadFile(folder / "t.json", 1 << 20).value());
  const auto& list = json.at("traceEvents");
  ASSERT_EQ(list.size(), 5u);  // two events, two thread names, the process name
  EXPECT_EQ(list[0].at("name"), "mb.forward");
  EXPECT_EQ(list[0].at("ph"), "X");
  EXPECT_EQ(list[0].at("ts"), 10.0);
  EXPECT_EQ(list[0].at("dur"), 5.0);
  EXPECT_EQ(list[0].at("args").at("step"), 3);
  EXPECT_FALSE(list[0].at("args").contains("segment"));
  EXPECT_EQ(list[1].at("args").at("segment"), 2);
  EXPECT_EQ(list[1].at("ph"), "i");
  EXPECT_NE(list[0].at("tid"), list[1].at("tid"));
  EXPECT_EQ(list[2].at("args").at("name"), "compute");
  EXPECT_EQ(list[2].at("tid"), list[0].at("tid"));
}

TEST(TraceTest, AnEmptyTraceIsAFileToo) {
  const test_support::TemporaryFolder folder;
  ASSERT_TRUE(WriteTraceFile(folder / "t.json", {}).ok());
  EXPECT_TRUE(nlohmann::json::accept(ReadFile(folder / "t.json", 1 << 20).value()));
}

}  // namespace
}  // namespace shoal
