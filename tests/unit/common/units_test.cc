#include "common/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace shoal {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

template <typename T>
using Table = std::vector<std::pair<const char*, T>>;

TEST(RateTest, EveryForm) {
  for (const auto& [text, bits] : Table<std::uint64_t>{{"1bit", 1},
                                                       {"500kbit", 500'000},
                                                       {"20mbit", 20'000'000},
                                                       {"20 mbit", 20'000'000},
                                                       {"1.5gbit", 1'500'000'000},
                                                       {"100bit/s", 100},
                                                       {"7kbit/s", 7'000},
                                                       {"20 Mbit/s", 20'000'000},
                                                       {"1 Gbit/s", 1'000'000'000},
                                                       {"3B/s", 24},
                                                       {"4kB/s", 32'000},
                                                       {"2.5MB/s", 20'000'000},
                                                       {"1GB/s", 8'000'000'000},
                                                       {"1e3mbit", 1'000'000'000},
                                                       {"off", 0},
                                                       {"unlimited", 0}}) {
    const Result<BitsPerSecond> rate = ParseRate(text);
    ASSERT_TRUE(rate.ok()) << text << ": " << rate.status().ToString();
    EXPECT_EQ(rate->value, bits) << text;
  }
}

TEST(RateTest, RefusesAndSaysWhatToWrite) {
  for (const char* text :
       {"", "fast", "20", "20 mb", "20MBIT", "-1mbit", "+1mbit", "mbit", " 1mbit", "1mbit ",
        "nanmbit", "infmbit", "1e999mbit", "1mbit1", "0x10mbit"}) {
    const Result<BitsPerSecond> rate = ParseRate(text);
    ASSERT_FALSE(rate.ok()) << text;
    EXPECT_EQ(rate.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(rate.status().message(), HasSubstr("20mbit")) << text;
  }
}

// Zero would silently mean "no limit".
TEST(RateTest, RefusesZeroAndAbsurdRates) {
  for (const char* text : {"0mbit", "0.4bit", "1e7gbit"}) {
    EXPECT_THAT(ParseRate(text).status().message(), HasSubstr("out of range")) << text;
  }
}

TEST(RateTest, PrintsForPeople) {
  EXPECT_EQ(FormatRate({0}), "unlimited");
  EXPECT_EQ(FormatRate({999}), "999 bit/s");
  EXPECT_EQ(FormatRate({1'000}), "1 kbit/s");
  EXPECT_EQ(FormatRate({20'000'000}), "20 Mbit/s");
  EXPECT_EQ(FormatRate({12'340'000}), "12.34 Mbit/s");
  EXPECT_EQ(FormatRate({2'500'000'000}), "2.5 Gbit/s");
  EXPECT_EQ(BitsPerSecond{80}.bytes_per_second(), 10.0);
}

TEST(RateTest, ReadsWhatItPrints) {
  for (std::uint64_t bits : {1ull, 999ull, 1'500ull, 20'000'000ull, 1'250'000'000ull}) {
    EXPECT_EQ(ParseRate(FormatRate({bits})).value().value, bits);
  }
}

TEST(BytesTest, EveryForm) {
  for (const auto& [text, bytes] : Table<std::uint64_t>{{"0", 0},
                                                        {"512", 512},
                                                        {"12B", 12},
                                                        {"1kB", 1'000},
                                                        {"10MB", 10'000'000},
                                                        {"10GB", 10'000'000'000},
                                                        {"2TB", 2'000'000'000'000},
                                                        {"8KiB", 8'192},
                                                        {"20 MiB", 20'971'520},
                                                        {"1.5GiB", 1'610'612'736},
                                                        {"1TiB", 1'099'511'627'776}}) {
    const Result<std::uint64_t> parsed = ParseBytes(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status().ToString();
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(BytesTest, WithUnitANumberAloneIsRefused) {
  EXPECT_EQ(*ParseBytesWithUnit("8GiB"), std::uint64_t{8} << 30);
  EXPECT_EQ(*ParseBytesWithUnit("8B"), 8u);
  EXPECT_EQ(*ParseBytesWithUnit("0"), 0u);
  EXPECT_THAT(ParseBytesWithUnit("8").status().message(),
              HasSubstr("'8' has no unit of a size; write for example 8GiB"));
  EXPECT_FALSE(ParseBytesWithUnit("big").ok());
}

TEST(BytesTest, RefusesAndSaysWhatToWrite) {
  for (const char* text : {"", "big", "-1", "1KB", "1kib", "1MiBs", "nan", "GiB"}) {
    EXPECT_THAT(ParseBytes(text).status().message(), HasSubstr("512MiB")) << text;
  }
  EXPECT_THAT(ParseBytes("2e6TB").status().message(), HasSubstr("out of range"));
}

TEST(BytesTest, PrintsForPeople) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatBytes(20'971'520), "20.0 MiB");
  EXPECT_EQ(FormatBytes(1'048'575), "1.00 MiB");  // never 1024.0 KiB
  EXPECT_EQ(FormatBytes(~std::uint64_t{0}), "16384.0 PiB");
}

TEST(DurationTest, EveryForm) {
  for (const auto& [text, duration] : Table<Duration>{{"250ms", milliseconds(250)},
                                                      {"0s", Duration::zero()},
                                                      {"10s", seconds(10)},
                                                      {"1.5 s", milliseconds(1500)},
                                                      {"5m", minutes(5)},
                                                      {"2h", hours(2)},
                                                      {"7d", hours(168)}}) {
    const Result<Duration> parsed = ParseDuration(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status().ToString();
    EXPECT_EQ(*parsed, duration) << text;
  }
}

TEST(DurationTest, RefusesAndSaysWhatToWrite) {
  for (const char* text : {"", "soon", "10", "-1s", "10 sec", "1h30m", "inf"}) {
    EXPECT_THAT(ParseDuration(text).status().message(), HasSubstr("250ms")) << text;
  }
  EXPECT_THAT(ParseDuration("200000d").status().message(), HasSubstr("too long"));
}

TEST(DurationTest, PrintsForPeople) {
  EXPECT_EQ(FormatDuration(milliseconds(35)), "35ms");
  EXPECT_EQ(FormatDuration(milliseconds(4200)), "4.2s");
  EXPECT_EQ(FormatDuration(seconds(200)), "3m 20s");
  EXPECT_EQ(FormatDuration(minutes(62)), "1h 02m");
  EXPECT_EQ(FormatDuration(hours(50)), "50h 00m");
}

TEST(DurationTest, RoundsIntoTheNextUnit) {
  EXPECT_EQ(FormatDuration(std::chrono::microseconds(999'700)), "1.0s");
  EXPECT_EQ(FormatDuration(milliseconds(59'960)), "1m 00s");
}

TEST(UnitsTest, RandomTextNeverBreaksTheParsers) {
  std::mt19937 random(3);
  const std::string alphabet = "0123456789.eE+- kKmMgGtTiIbBsShdft/";
  for (int round = 0; round < 50000; ++round) {
    std::string text(random() % 12, '\0');
    for (char& c : text) {
      c = random() % 8 == 0 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
    }
    if (const auto rate = ParseRate(text); rate.ok()) {
      EXPECT_LE(rate->value, 1e15) << text;
    }
    if (const auto bytes = ParseBytes(text); bytes.ok()) {
      EXPECT_LE(*bytes, 1e18) << text;
    }
    if (const auto time = ParseDuration(text); time.ok()) {
      EXPECT_GE(time->count(), 0) << text;
    }
  }
}

}  // namespace
}  // namespace shoal
