#include "storage/history/usage_history.h"

#include <gmock/gmock.h>

#include <cmath>

#include "common/bytes.h"
#include "common/checksum.h"

namespace shoal::storage {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kNow = 1'795'860'000'000;  // ms: 2026-11-28 10:00 UTC
constexpr std::int64_t kMinute = 60'000;

std::string ToHex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) {
    for (const int digit : {(c >> 4) & 15, c & 15}) hex += "0123456789abcdef"[digit];
  }
  return hex;
}

// The checksum of its bytes anew, after a change.
std::string Sealed(std::string bytes) {
  const std::size_t end = bytes.size() - 8;
  auto* data = reinterpret_cast<std::byte*>(bytes.data());
  StoreLittle(data + end, Checksum64({data, end}));
  return bytes;
}

TEST(UsageHistory, SumsByTheMinuteAndByTen) {
  UsageHistory history;
  history.Add(kNow, {900, 1, 10, 20}, 3.5);
  history.Add(kNow + 59'999, {100, 2, 30, 40}, std::nullopt);
  history.Add(kNow + kMinute, {1000, 3, 50, 60}, 3.25);
  history.Add(kNow + 10 * kMinute, {}, std::nullopt);
  ASSERT_EQ(history.fine().size(), 3u);
  EXPECT_EQ(history.fine()[0].minute, kNow / kMinute);
  EXPECT_EQ(history.fine()[0].trained_ms, 1000u);
  EXPECT_EQ(history.fine()[0].micro_batches, 3u);
  EXPECT_EQ(history.fine()[0].sent_bytes, 40u);
  EXPECT_EQ(history.fine()[0].received_bytes, 60u);
  EXPECT_EQ(history.fine()[0].loss, 3.5F);
  EXPECT_EQ(history.fine()[1].loss, 3.25F);
  EXPECT_TRUE(std::isnan(history.fine()[2].loss)) << "no step was made";
  ASSERT_EQ(history.coarse().size(), 2u);
  EXPECT_EQ(history.coarse()[0].micro_batches, 6u);
  EXPECT_EQ(history.coarse()[0].loss, 3.25F) << "of the newest step";
}

// docs/STORAGE.md, "History".
TEST(UsageHistory, GoldenVector) {
  UsageHistory history;
  history.Add(kNow + kMinute, {60'000, 7, 0x1122334455, 3}, 2.5);
  EXPECT_EQ(ToHex(history.Bytes()),
            "53484f414c48495301000000010000000100000000000000"
            "f9b5c801070000005544332211000000030000000000000060ea000000002040"
            "f8b5c801070000005544332211000000030000000000000060ea000000002040"
            "7167822378a95b1d");
  EXPECT_EQ(UsageHistory::Parse(history.Bytes()).value().Bytes(), history.Bytes());
  EXPECT_EQ(UsageHistory::Parse(UsageHistory().Bytes()).value().fine().size(), 0u);
}

TEST(UsageHistory, StaysSmall) {
  UsageHistory history;
  for (int minute = 0; minute < 20'000; ++minute) {
    history.Add(kNow + minute * kMinute, {~0ull, ~0ull, ~0ull, ~0ull}, 1e300);
    history.Add(kNow + minute * kMinute, {1, 1, 1, 1}, 1);
  }
  EXPECT_EQ(history.fine().size(), kFinePointsMax);
  EXPECT_EQ(history.coarse().size(), kCoarsePointsMax);
  EXPECT_EQ(history.fine().back().sent_bytes, ~0ull) << "figures stop at their bounds";
  const std::string bytes = history.Bytes();
  EXPECT_EQ(bytes.size(), kHistoryFileBytesMax);
  EXPECT_EQ(UsageHistory::Parse(bytes).value().Bytes(), bytes);
}

TEST(UsageHistory, AClockThatIsSetBackBreaksNothing) {
  UsageHistory history;
  history.Add(kNow, {0, 1, 0, 0}, std::nullopt);
  history.Add(kNow + 5 * kMinute, {0, 1, 0, 0}, std::nullopt);
  history.Add(kNow + 2 * kMinute, {0, 1, 0, 0}, std::nullopt);  // a little: the newest point's
  EXPECT_EQ(history.fine().size(), 2u);
  EXPECT_EQ(history.fine().back().micro_batches, 2u);
  history.Add(kNow + 9000 * kMinute, {0, 1, 0, 0}, std::nullopt);
  history.Add(kNow + 6 * kMinute, {0, 1, 0, 0}, std::nullopt);  // days: that point was wrong
  EXPECT_EQ(history.fine().size(), 3u);
  EXPECT_EQ(history.fine().back().minute, kNow / kMinute + 6);
  EXPECT_TRUE(UsageHistory::Parse(history.Bytes()).ok());
  history.Add(-5, {0, 1, 0, 0}, std::nullopt);
  EXPECT_EQ(history.fine().size(), 1u);
  EXPECT_TRUE(UsageHistory::Parse(history.Bytes()).ok());
}

TEST(UsageHistory, WhatIsDamagedIsRefused) {
  UsageHistory history;
  for (int i = 0; i < 20; ++i) history.Add(kNow + i * kMinute, {1, 2, 3, 4}, 1.5);
  const std::string whole = history.Bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(UsageHistory::Parse(whole.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(UsageHistory::Parse(whole + "x").ok());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    EXPECT_FALSE(UsageHistory::Parse(bytes).ok()) << at;
  }
  // Under a checksum that is right.
  const auto changed = [&whole](std::size_t at, std::uint32_t value) {
    std::string bytes = whole;
    StoreLittle(reinterpret_cast<std::byte*>(bytes.data()) + at, value);
    return UsageHistory::Parse(Sealed(bytes)).status().message();
  };
  EXPECT_THAT(changed(8, 2), HasSubstr("version is 2"));
  EXPECT_THAT(changed(12, 19), HasSubstr("size"));
  EXPECT_THAT(changed(12, 0xffffffff), HasSubstr("size"));
  EXPECT_THAT(changed(20, 1), HasSubstr("size"));
  EXPECT_THAT(changed(24, 0xffffffff), HasSubstr("order"));
  EXPECT_THAT(changed(24 + 28, 0x7f800000), HasSubstr("finite"));
  EXPECT_THAT(changed(24 + 20 * 32, 1), HasSubstr("border"));
}

TEST(UsageHistory, IsShownUpToTheLastWholePeriod) {
  UsageHistory history;
  history.Add(kNow - 3 * 60 * kMinute, {1, 1, 1, 1}, std::nullopt);
  history.Add(kNow - 2 * kMinute, {60'000, 5, 1000, 2000}, 2.5);
  history.Add(kNow - kMinute, {}, std::nullopt);
  history.Add(kNow, {1, 1, 1, 1}, std::nullopt);
  const std::string hour =
      "{\"schemaVersion\":1,\"span\":\"1h\",\"periodMs\":60000,\"points\":"
      "[[1795859880000,1000,2000,5,60000,2.5],[1795859940000,0,0,0,0,null]]}";
  EXPECT_EQ(HistoryJson(history, "span=1h", kNow + 5000).value(), hour);
  EXPECT_EQ(HistoryJson(history, "", kNow + 5000).value(), hour);
  EXPECT_EQ(HistoryJson(history, "span=24h", kNow + 5000).value(),
            "{\"schemaVersion\":1,\"span\":\"24h\",\"periodMs\":600000,\"points\":"
            "[[1795849200000,1,1,1,1,null],[1795859400000,1000,2000,5,60000,2.5]]}");
  EXPECT_EQ(HistoryJson(UsageHistory(), "span=7d", kNow).value(),
            "{\"schemaVersion\":1,\"span\":\"7d\",\"periodMs\":600000,\"points\":[]}");
  for (const char* query : {"span=2h", "span", "span=1h&x=y", "x"}) {
    EXPECT_EQ(HistoryJson(history, query, kNow).status().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace shoal::storage
