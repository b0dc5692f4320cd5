#include "compression/entropy/rans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "compression/entropy/rans_table.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

using Frequencies = std::vector<std::uint16_t>;

// The coder as it is defined, one division at a time.
struct SlowCoder {
  explicit SlowCoder(std::size_t lanes) : states(lanes, 32768) {}

  void Encode(const Frequencies& table, const std::vector<std::uint8_t>& symbols) {
    const std::size_t lanes = states.size();
    for (std::size_t step = (symbols.size() + lanes - 1) / lanes; step-- > 0;) {
      for (std::size_t i = step * lanes; i < std::min(symbols.size(), (step + 1) * lanes); ++i) {
        std::uint64_t start = 0;
        for (std::size_t s = 0; s < symbols[i]; ++s) start += table[s];
        const std::uint64_t f = table[symbols[i]];
        std::uint64_t& x = states[i % lanes];
        if (x >= f * (1U << 20)) {
          words.push_back(static_cast<std::uint16_t>(x % 65536));
          x /= 65536;
        }
        x = x / f * 2048 + start + x % f;
      }
    }
  }

  std::vector<std::uint64_t> states;
  std::vector<std::uint16_t> words;
};

std::vector<std::uint8_t> Draw(const Frequencies& table, std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::discrete_distribution<int> draw(table.begin(), table.end());
  std::vector<std::uint8_t> symbols(n);
  for (auto& s : symbols) s = static_cast<std::uint8_t>(draw(random));
  return symbols;
}

// Tables with certain, likely, rare and impossible symbols.
std::vector<Frequencies> Tables() {
  std::vector<Frequencies> tables = {{2047, 1}, {1, 2047}, {1024, 1024}, {1, 0, 2000, 0, 47}};
  Frequencies flat(256, 8);
  tables.push_back(flat);
  Frequencies steep(16, 1);
  steep[5] = 2048 - 15;
  tables.push_back(steep);
  return tables;
}

struct Coded {
  std::vector<std::byte> words;  // and the slack
  std::size_t bytes = 0;
  RansLanes lanes{1};
};

Coded Encode(const Frequencies& table, const std::vector<std::uint8_t>& symbols,
             std::size_t lanes) {
  RansEncodeTable encode;
  encode.Set(table, 0);
  Coded coded;
  coded.lanes = RansLanes(lanes);
  coded.words.resize(2 * symbols.size() + kRansSlack);
  const std::byte* end = RansEncode(&encode, nullptr, symbols.data(), symbols.size(), &coded.lanes,
                                    coded.words.data());
  coded.bytes = static_cast<std::size_t>(end - coded.words.data());
  return coded;
}

constexpr std::size_t kCounts[] = {0, 1, 31, 32, 33, 63, 64, 100, 1000, 20000};

TEST(Rans, EveryLevelWritesWhatTheDefinitionWrites) {
  AtEveryLevel([] {
    for (const Frequencies& table : Tables()) {
      for (const std::size_t lanes : {std::size_t{1}, kRansLanes}) {
        for (const std::size_t n : kCounts) {
          const auto symbols = Draw(table, n, n);
          SlowCoder slow(lanes);
          slow.Encode(table, symbols);
          const Coded coded = Encode(table, symbols, lanes);
          ASSERT_EQ(coded.bytes, 2 * slow.words.size());
          const auto expected = std::as_bytes(std::span(slow.words));
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(), coded.words.begin()));
          for (std::size_t i = 0; i < lanes; ++i) {
            ASSERT_EQ(coded.lanes.states[i], slow.states[i]);
          }
        }
      }
    }
  });
}

TEST(Rans, EveryLevelGivesTheSymbolsBack) {
  AtEveryLevel([] {
    for (const Frequencies& table : Tables()) {
      std::vector<std::uint32_t> slots(kRansTotal);
      FillRansSlots(table, slots.data());
      for (const std::size_t lanes : {std::size_t{1}, kRansLanes}) {
        for (const std::size_t n : kCounts) {
          const auto symbols = Draw(table, n, n + 1);
          Coded coded = Encode(table, symbols, lanes);
          std::vector<std::uint8_t> back(n);
          const std::byte* begin = coded.words.data();
          const std::byte* end = RansDecode(slots.data(), nullptr, nullptr, n, &coded.lanes, begin,
                                            begin + coded.bytes, back.data());
          ASSERT_EQ(end, begin);
          ASSERT_TRUE(coded.lanes.AtStart());
          ASSERT_EQ(back, symbols);
        }
      }
    }
  });
}

// Runs of different tables share the lanes; contexts choose among four tables inside a run.
TEST(Rans, EveryLevelCountsAlike) {
  AtEveryLevel([] {
    std::mt19937_64 random(11);
    for (const std::size_t n : {0, 1, 63, 64, 65, 4000, 16320, 16321, 100'000}) {
      for (const std::size_t alphabet : {2, 4, 8, 16, 32, 256}) {
        std::vector<std::uint8_t> codes(n);
        std::array<std::uint32_t, 256> expected{};
        for (auto& code : codes) {
          // Mostly one code, so that the counts of a lane come to their most.
          code = static_cast<std::uint8_t>(random() % 8 == 0 ? random() % alphabet : alphabet - 1);
          ++expected[code];
        }
        EXPECT_EQ(CountCodes(codes, alphabet), expected) << n << " of " << alphabet;
      }
    }
  });
}

TEST(Rans, TablesMayChangeFromRunToRunAndFromSymbolToSymbol) {
  const Frequencies likely[] = {
      {2000, 16, 16, 16}, {16, 2000, 16, 16}, {16, 16, 2000, 16}, {512, 512, 512, 512}};
  RansEncodeTable table;
  std::vector<std::uint32_t> slots(4 * kRansTotal);
  for (std::size_t t = 0; t < 4; ++t) {
    table.Set(likely[t], 64 * t);
    FillRansSlots(likely[t], slots.data() + t * kRansTotal);
  }
  std::mt19937_64 random(4);
  for (const std::size_t lanes : {std::size_t{1}, kRansLanes}) {
    std::vector<std::vector<std::uint8_t>> runs;
    std::vector<std::vector<std::uint16_t>> contexts;
    for (const std::size_t n : {100, 1, 0, 500, 32, 47}) {
      runs.emplace_back(n);
      contexts.emplace_back(n);
      for (std::size_t i = 0; i < n; ++i) {
        contexts.back()[i] = static_cast<std::uint16_t>(random());
        runs.back()[i] =
            static_cast<std::uint8_t>((contexts.back()[i] >> 13 & 3) * 64 + random() % 4);
      }
    }
    std::vector<std::byte> first_bytes;
    AtEveryLevel([&] {
      RansLanes encoder(lanes);
      std::vector<std::byte> words(2000 + kRansSlack);
      std::byte* to = words.data();
      for (std::size_t r = runs.size(); r-- > 0;) {
        to = RansEncode(&table, nullptr, runs[r].data(), runs[r].size(), &encoder, to);
      }
      const std::vector<std::byte> bytes(words.data(), to);
      if (first_bytes.empty()) first_bytes = bytes;
      ASSERT_EQ(bytes, first_bytes);
      const std::byte* end = to;
      for (std::size_t r = 0; r < runs.size(); ++r) {
        std::vector<std::uint8_t> back(runs[r].size());
        end = RansDecode(slots.data(), nullptr, contexts[r].data(), back.size(), &encoder,
                         words.data(), end, back.data());
        ASSERT_NE(end, nullptr);
        for (std::size_t i = 0; i < back.size(); ++i) ASSERT_EQ(back[i], runs[r][i] % 64);
      }
      EXPECT_EQ(end, words.data());
      EXPECT_TRUE(encoder.AtStart());
    });
  }
}

// Rows of tables, chosen per symbol, with and without contexts: each level reads what any wrote.
TEST(Rans, RowsMayChangeFromSymbolToSymbol) {
  const std::size_t rows = 5;
  std::vector<RansEncodeTable> tables(rows);
  std::vector<std::uint32_t> slots(rows * kRansRowSlots);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t t = 0; t < 4; ++t) {
      Frequencies likely(4, static_cast<std::uint16_t>(20 + 7 * r + t));
      likely[(r + t) % 4] = static_cast<std::uint16_t>(kRansTotal - 3 * (20 + 7 * r + t));
      tables[r].Set(likely, 64 * t);
      FillRansSlots(likely, slots.data() + r * kRansRowSlots + t * kRansTotal);
    }
  }
  std::mt19937_64 random(14);
  for (const std::size_t lanes : {std::size_t{1}, kRansLanes}) {
    for (const bool with_contexts : {false, true}) {
      const std::size_t n = 1234;
      std::vector<std::uint16_t> row(n), contexts(n);
      std::vector<std::uint8_t> cells(n);
      for (std::size_t i = 0; i < n; ++i) {
        row[i] = static_cast<std::uint16_t>(random() % rows);
        contexts[i] = static_cast<std::uint16_t>(random());
        const std::size_t t = with_contexts ? contexts[i] >> 13 & 3 : 0;
        cells[i] = static_cast<std::uint8_t>(64 * t + random() % 4);
      }
      std::vector<std::byte> first_bytes;
      AtEveryLevel([&] {
        RansLanes states(lanes);
        std::vector<std::byte> words(2 * n + kRansSlack);
        std::byte* to =
            RansEncode(tables.data(), row.data(), cells.data(), n, &states, words.data());
        const std::vector<std::byte> bytes(words.data(), to);
        if (first_bytes.empty()) first_bytes = bytes;
        ASSERT_EQ(bytes, first_bytes);
        std::vector<std::uint8_t> back(n);
        const std::byte* end =
            RansDecode(slots.data(), row.data(), with_contexts ? contexts.data() : nullptr, n,
                       &states, words.data(), to, back.data());
        ASSERT_EQ(end, words.data());
        ASSERT_TRUE(states.AtStart());
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(back[i], cells[i] % 64);
      });
    }
  }
}

TEST(Rans, DivisionByReciprocalIsExact) {
  std::mt19937_64 random(8);
  for (std::uint32_t f = 1; f < kRansTotal; ++f) {
    const Frequencies table = {static_cast<std::uint16_t>(f),
                               static_cast<std::uint16_t>(kRansTotal - f)};
    RansEncodeTable encode;
    encode.Set(table, 0);
    const std::uint32_t limit = f << 20;
    for (int trial = 0; trial < 64; ++trial) {
      // States around multiples of f, where a quotient that is off by one would show.
      auto x = static_cast<std::uint32_t>(random() % (limit - kRansLow) + kRansLow);
      if (trial % 2 == 0) x = std::max(x / f * f - trial % 4 / 2, kRansLow);
      RansLanes lanes(1);
      lanes.states[0] = x;
      const std::uint8_t symbol = 0;
      std::byte words[2 + kRansSlack];
      ASSERT_EQ(RansEncode(&encode, nullptr, &symbol, 1, &lanes, words), words);
      ASSERT_EQ(lanes.states[0], x / f * kRansTotal + x % f) << f << " " << x;
    }
  }
}

TEST(Rans, WordsThatDoNotSufficeAreNoticed) {
  const Frequencies table = {700, 700, 648};
  std::vector<std::uint32_t> slots(kRansTotal);
  FillRansSlots(table, slots.data());
  AtEveryLevel([&] {
    for (const std::size_t lanes : {std::size_t{1}, kRansLanes}) {
      const auto symbols = Draw(table, 1000, 3);
      const Coded coded = Encode(table, symbols, lanes);
      for (std::size_t bytes = 0; bytes < coded.bytes; ++bytes) {
        // Exactly the bytes that may be read: the sanitizer sees one too many.
        std::vector<std::byte> words(coded.words.begin() + (coded.bytes - bytes),
                                     coded.words.begin() + coded.bytes + kRansSlack);
        RansLanes states = coded.lanes;
        std::vector<std::uint8_t> back(symbols.size());
        ASSERT_EQ(RansDecode(slots.data(), nullptr, nullptr, back.size(), &states, words.data(),
                             words.data() + bytes, back.data()),
                  nullptr);
      }
    }
  });
}

TEST(Rans, StatesOutOfRangeAreRefused) {
  RansLanes lanes(kRansLanes);
  std::vector<std::byte> bytes(lanes.bytes());
  lanes.Store(bytes.data());
  EXPECT_TRUE(RansLanes(kRansLanes).Load(bytes.data()));
  for (const std::uint32_t wrong : {0U, 32767U, 0x80000000U, 0xffffffffU}) {
    std::memcpy(bytes.data() + 4 * 17, &wrong, 4);
    EXPECT_FALSE(RansLanes(kRansLanes).Load(bytes.data()));
  }
}

TEST(RansTable, LevelsAreEighthsOfAnOctave) {
  for (std::uint64_t part = 1; part < 5000; part += 7) {
    const double exact = 8 * std::log2(5000.0 / static_cast<double>(part));
    const int level = LevelOf(part, 5000);
    if (exact > 96.5) {
      EXPECT_EQ(level, kLevelMax);
    } else {
      EXPECT_NEAR(level, exact, 0.501) << part;
    }
  }
  EXPECT_EQ(LevelOf(0, 10), kLevelAbsent);
  EXPECT_EQ(LevelOf(1, std::uint64_t{1} << 39), kLevelMax);
}

TEST(RansTable, LevelsSurviveTheirBits) {
  std::mt19937_64 random(6);
  for (int trial = 0; trial < 10000; ++trial) {
    std::vector<std::uint8_t> levels(random() % 257), back(levels.size());
    const unsigned spread = 1U << random() % 7;
    for (auto& level : levels) {
      level =
          static_cast<std::uint8_t>(random() % 5 == 0 ? 104 : std::min(104UL, random() % spread));
    }
    BitWriter writer;
    WriteLevels(levels, &writer);
    BitReader reader(writer.bytes());
    ASSERT_TRUE(ReadLevels(&reader, back));
    ASSERT_EQ(back, levels);
    ASSERT_EQ(reader.bytes_used(), writer.bytes().size());
    ASSERT_TRUE(reader.RestIsZero());
    if (levels.empty()) continue;
    BitReader shorter(std::span(writer.bytes()).first(writer.bytes().size() - 1));
    ASSERT_FALSE(ReadLevels(&shorter, back));
  }
}

TEST(RansTable, FrequenciesAddUpAndFollowTheLevels) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 10000; ++trial) {
    std::vector<std::uint8_t> levels(2 + random() % 255);
    for (auto& level : levels) level = static_cast<std::uint8_t>(random() % 105);
    levels[random() % levels.size()] = static_cast<std::uint8_t>(random() % 20);
    std::vector<std::uint16_t> frequencies(levels.size());
    const std::uint32_t total = trial % 2 == 0 ? kRansTotal : kRansTotal - 1;
    FrequenciesOf(levels, total, frequencies);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      sum += frequencies[i];
      ASSERT_EQ(frequencies[i] == 0, levels[i] == kLevelAbsent);
    }
    ASSERT_EQ(sum, total);
  }
  std::vector<std::uint16_t> frequencies(4);
  FrequenciesOf(std::vector<std::uint8_t>{8, 16, 24, 24}, kRansTotal, frequencies);
  EXPECT_EQ(frequencies, (std::vector<std::uint16_t>{1024, 512, 256, 256}));
}

TEST(RansTable, RandomBitsAreReadOrRefused) {
  std::mt19937_64 random(8);
  for (int trial = 0; trial < 20000; ++trial) {
    std::vector<std::byte> bits(random() % 300);
    for (auto& b : bits) b = static_cast<std::byte>(random() & random());
    BitReader reader(bits);
    std::vector<std::uint8_t> levels(random() % 257);
    if (!ReadLevels(&reader, levels)) continue;
    for (const std::uint8_t level : levels) ASSERT_LE(level, kLevelAbsent);
  }
}

}  // namespace
}  // namespace shoal::compression
