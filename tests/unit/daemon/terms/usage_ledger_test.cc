#include "daemon/terms/usage_ledger.h"

#include <gmock/gmock.h>

namespace shoal::daemon {
namespace {

LocalTime Date(int year, int month, int day) { return {year, month, day, 0, 0}; }

TEST(UsageLedger, CountsByDayMonthAndInAll) {
  UsageLedger ledger;
  ledger.Add(Date(2026, 1, 31), {1000, 2, 30, 40});
  ledger.Add(Date(2026, 2, 1), {1, 1, 1, 1});
  ledger.Add(Date(2026, 2, 28), {1, 1, 2, 3});
  ledger.Add(Date(2026, 2, 28), {});
  EXPECT_EQ(ledger.Day(Date(2026, 1, 31)), (Usage{1000, 2, 30, 40}));
  EXPECT_EQ(ledger.Day(Date(2026, 1, 30)), Usage{});
  EXPECT_EQ(ledger.Month(Date(2026, 2, 14)), (Usage{2, 2, 3, 4}));
  EXPECT_EQ(ledger.Month(Date(2026, 3, 1)), Usage{});
  EXPECT_EQ(ledger.total(), (Usage{1002, 4, 33, 44}));
}

TEST(UsageLedger, ComesBackAsWritten) {
  UsageLedger ledger;
  ledger.Add(Date(2026, 11, 28), {3'600'000, 512, 1'000'000, 2'000'000, 900'000});
  EXPECT_EQ(ledger.Text(),
            "{\"version\":2,\"days\":{\"2026-11-28\":{\"trainedMs\":3600000,\"microBatches\":512,"
            "\"sentBytes\":1000000,\"receivedBytes\":2000000,\"energyJoules\":900000}},\"total\":{"
            "\"trainedMs\":3600000,\"microBatches\":512,\"sentBytes\":1000000,"
            "\"receivedBytes\":2000000,\"energyJoules\":900000}}\n");
  const Result<UsageLedger> back = UsageLedger::Parse(ledger.Text());
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(back->Text(), ledger.Text());
  EXPECT_EQ(UsageLedger::Parse(UsageLedger().Text()).value().total(), Usage{});
}

TEST(UsageLedger, AFileOfBeforeEnergyWasCountedIsRead) {
  const char* const old =
      "{\"version\":1,\"days\":{\"2026-11-28\":{\"trainedMs\":1,\"microBatches\":2,"
      "\"sentBytes\":3,\"receivedBytes\":4}},\"total\":{\"trainedMs\":1,\"microBatches\":2,"
      "\"sentBytes\":3,\"receivedBytes\":4}}\n";
  UsageLedger ledger = UsageLedger::Parse(old).value();
  EXPECT_EQ(ledger.total(), (Usage{1, 2, 3, 4, 0}));
  ledger.Add(Date(2026, 11, 28), {0, 0, 0, 0, 7});
  EXPECT_EQ(UsageLedger::Parse(ledger.Text()).value().Day(Date(2026, 11, 28)),
            (Usage{1, 2, 3, 4, 7}));
}

TEST(UsageLedger, EnergyIsShownWhereADriverTold) {
  UsageLedger ledger;
  ledger.Add(Date(2026, 11, 28), {1, 2, 3, 4, 5});
  EXPECT_THAT(StatsJson(ledger, 9), testing::HasSubstr("\"receivedBytes\":4,\"energyJoules\":5}]"));
}

TEST(UsageLedger, IsShownByDayTheOldestFirst) {
  UsageLedger ledger;
  ledger.Add(Date(2026, 11, 28), {1, 2, 3, 4});
  ledger.Add(Date(2026, 11, 9), {5, 6, 7, 8});
  EXPECT_EQ(StatsJson(ledger, 99),
            "{\"schemaVersion\":1,\"days\":[{\"day\":\"2026-11-09\",\"trainedMs\":5,"
            "\"microBatches\":6,\"sentBytes\":7,\"receivedBytes\":8},{\"day\":\"2026-11-28\","
            "\"trainedMs\":1,\"microBatches\":2,\"sentBytes\":3,\"receivedBytes\":4}],\"total\":{"
            "\"trainedMs\":6,\"microBatches\":8,\"sentBytes\":10,\"receivedBytes\":12},"
            "\"diskBytes\":99}");
}

TEST(UsageLedger, StaysSmall) {
  UsageLedger ledger;
  for (int year = 2020; year < 2030; ++year) {
    for (int month = 1; month <= 12; ++month) {
      for (int day = 1; day <= 31; ++day) {
        ledger.Add(Date(year, month, day), {86'400'000, 1'000'000, 1ull << 40, 1ull << 40});
      }
    }
  }
  EXPECT_EQ(ledger.days().size(), kUsageDaysMax);
  EXPECT_EQ(ledger.Month(Date(2029, 12, 31)).sent_bytes, 31ull << 40);
  EXPECT_LT(ledger.Text().size(), kUsageFileBytesMax / 2);
}

TEST(UsageLedger, FiguresStayWithinTheirBounds) {
  UsageLedger ledger;
  for (int i = 0; i < 300; ++i) ledger.Add(Date(2026, 1, 1), {0, 0, ~0ull, 1});
  EXPECT_TRUE(UsageLedger::Parse(ledger.Text()).ok());
}

TEST(UsageLedger, WhatIsDamagedIsRefused) {
  UsageLedger ledger;
  ledger.Add(Date(2026, 11, 28), {1, 2, 3, 4});
  const std::string whole = ledger.Text();
  for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
    EXPECT_FALSE(UsageLedger::Parse(whole.substr(0, size)).ok()) << size;
  }
  const std::pair<const char*, const char*> changes[] = {
      {"\"version\":2", "\"version\":1"},
      {"\"version\":2", "\"version\":3"},
      {"2026-11-28", "2026-13-28"},
      {"2026-11-28", "2026-1-281"},
      {"\"sentBytes\":3", "\"sentBytes\":-3"},
      {"\"sentBytes\":3", "\"sent\":3"},
      {"\"microBatches\":2", "\"microBatches\":2e30"}};
  for (const auto& [from, to] : changes) {
    std::string text = whole;
    text.replace(text.find(from), std::string(from).size(), to);
    EXPECT_FALSE(UsageLedger::Parse(text).ok()) << text;
  }
}

}  // namespace
}  // namespace shoal::daemon
