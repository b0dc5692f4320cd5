#include "compression/entropy/symbol_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/unit/compression/reference.h"

namespace shoal::compression {
namespace {

constexpr EntropyCoder kStages[] = {EntropyCoder::kNone, EntropyCoder::kZstd, EntropyCoder::kRans};

std::vector<std::byte> Write(EntropyCoder coder, const std::vector<std::uint8_t>& codes, int bits) {
  std::vector<std::byte> out(SymbolBytesMax(coder, codes.size(), bits));
  out.resize(WriteSymbols(coder, codes, bits, out));
  return out;
}

// Codes of Gaussian values in mid-rise buckets of 128: few far out, most in the middle.
std::vector<std::uint8_t> BucketCodes(std::size_t n, int bits, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<std::uint8_t> codes(n);
  const int levels = 1 << bits;
  for (std::size_t first = 0; first < n; first += 128) {
    double values[128];
    double most = 0;
    for (double& v : values) most = std::max(most, std::fabs(v = normal(random)));
    for (std::size_t i = first; i < std::min(n, first + 128); ++i) {
      const double at = (values[i - first] / most + 1) / 2 * levels;
      codes[i] = static_cast<std::uint8_t>(std::min<int>(static_cast<int>(at), levels - 1));
    }
  }
  return codes;
}

double Entropy(const std::vector<std::uint8_t>& codes) {
  std::vector<double> count(256);
  for (const std::uint8_t code : codes) ++count[code];
  double bits = 0;
  const double n = static_cast<double>(codes.size());
  for (const double c : count) bits -= c == 0 ? 0 : c * std::log2(c / n);
  return bits / n;
}

TEST(SymbolStream, EveryStageGivesTheCodesBack) {
  for (const EntropyCoder coder : kStages) {
    for (int bits = 2; bits <= 8; ++bits) {
      for (const std::size_t n : {0, 1, 7, 8, 9, 63, 100, 1000, 4096, 70001}) {
        const auto codes = BucketCodes(n, bits, n + static_cast<std::size_t>(bits));
        const auto bytes = Write(coder, codes, bits);
        std::vector<std::uint8_t> back(n);
        ASSERT_TRUE(ReadSymbols(bytes, bits, back, "test").ok()) << bits << " " << n;
        ASSERT_EQ(back, codes) << bits << " " << n;
      }
    }
  }
}

TEST(SymbolStream, PackedIsTheDocumentedBits) {
  const auto codes = BucketCodes(1003, 5, 1);
  const auto bytes = Write(EntropyCoder::kNone, codes, 5);
  ASSERT_EQ(bytes.size(), 1U + 126 * 5);
  EXPECT_EQ(bytes[0], std::byte{0});
  for (std::size_t i = 0; i < codes.size(); ++i) {
    ASSERT_EQ(reference::CodeAt(std::span(bytes).subspan(1), 5, i), codes[i]);
  }
}

TEST(SymbolStream, WhatDoesNotShrinkStaysPacked) {
  std::mt19937_64 random(5);
  std::vector<std::uint8_t> codes(5000);
  for (auto& code : codes) code = static_cast<std::uint8_t>(random() % 16);
  for (const EntropyCoder coder : kStages) {
    const auto bytes = Write(coder, codes, 4);
    EXPECT_EQ(bytes[0], std::byte{0});
    EXPECT_EQ(bytes.size(), 1U + 2500);
  }
}

TEST(SymbolStream, AStageComesCloseToTheEntropy) {
  for (int bits = 2; bits <= 8; ++bits) {
    const auto codes = BucketCodes(131072, bits, 7);
    const double bound = Entropy(codes);
    const double n = static_cast<double>(codes.size());
    const double zstd = 8 * static_cast<double>(Write(EntropyCoder::kZstd, codes, bits).size()) / n;
    EXPECT_LT(zstd, bound * 1.04 + 0.06) << bits;
    const double rans = 8 * static_cast<double>(Write(EntropyCoder::kRans, codes, bits).size()) / n;
    EXPECT_LT(rans, bound * 1.005 + 0.01) << bits;
    RecordProperty("rans_" + std::to_string(bits), std::to_string(rans / bound));
    RecordProperty("zstd_" + std::to_string(bits), std::to_string(zstd / bound));
  }
}

TEST(SymbolStream, ForeignBytesAreRefused) {
  std::mt19937_64 random(9);
  const auto codes = BucketCodes(1001, 3, 2);
  std::vector<std::uint8_t> back(codes.size());
  EXPECT_FALSE(ReadSymbols({}, 3, back, "test").ok());
  for (const EntropyCoder coder : kStages) {
    const auto bytes = Write(coder, codes, 3);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      ASSERT_FALSE(ReadSymbols(std::span(bytes).first(cut), 3, back, "test").ok()) << cut;
    }
    auto longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(ReadSymbols(longer, 3, back, "test").ok());
    std::vector<std::uint8_t> fewer(codes.size() - 1), more(codes.size() + 8);
    EXPECT_FALSE(ReadSymbols(bytes, 3, fewer, "test").ok());
    EXPECT_FALSE(ReadSymbols(bytes, 3, more, "test").ok());
    for (int trial = 0; trial < 2000; ++trial) {
      auto wrong = bytes;
      for (int flips = 0; flips <= trial % 4; ++flips) {
        wrong[random() % wrong.size()] ^= static_cast<std::byte>(1U << random() % 8);
      }
      if (!ReadSymbols(wrong, 3, back, "test").ok()) continue;
      for (const std::uint8_t code : back) ASSERT_LT(code, 8);
    }
  }
  auto unknown = Write(EntropyCoder::kNone, codes, 3);
  unknown[0] = std::byte{17};
  EXPECT_FALSE(ReadSymbols(unknown, 3, back, "test").ok());
  auto padding = Write(EntropyCoder::kNone, codes, 3);
  padding.back() |= std::byte{0x80};
  EXPECT_FALSE(ReadSymbols(padding, 3, back, "test").ok());
}

// A frame that is whole but holds codes which the width does not have.
TEST(SymbolStream, CodesBeyondTheWidthAreRefused) {
  for (const auto& [bits, fewer] : {std::pair(7, 6), std::pair(8, 5)}) {
    std::vector<std::uint8_t> codes(4000, 1);
    codes[1234] = 99;
    const auto bytes = Write(EntropyCoder::kZstd, codes, bits);
    ASSERT_EQ(bytes[0], std::byte{1});
    std::vector<std::uint8_t> back(codes.size());
    EXPECT_TRUE(ReadSymbols(bytes, bits, back, "test").ok());
    EXPECT_FALSE(ReadSymbols(bytes, fewer, back, "test").ok());
  }
}

TEST(SymbolStream, StagesHaveNames) {
  for (const EntropyCoder coder : kStages) {
    const std::string_view suffix = EntropySuffix(coder);
    const auto parsed = ParseEntropyCoder(suffix.empty() ? suffix : suffix.substr(1));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, coder);
  }
  const auto unknown = ParseEntropyCoder("lzma");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("+zstd, +rans"), std::string::npos);
}

}  // namespace
}  // namespace shoal::compression
