// Pins every byte of dithered sections and code streams (docs/WIRE.md). A program that was written
// from the document alone reads them as the values below. A change here is a change of the wire: it
// needs a new layout version.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/checksum.h"
#include "compression/codecs/dithered/dithered_codec.h"
#include "compression/entropy/symbol_stream.h"

namespace shoal::compression {
namespace {

constexpr RandomKey kKey{0x0123456789abcdef, 42, 3, 2, 1};

std::string Hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte b : bytes) {
    hex += kDigits[std::to_integer<unsigned>(b) >> 4];
    hex += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return hex;
}

// Values that any language makes alike: a sum of four draws of a congruential generator, with
// tokens of several sizes, one of zeros, and values far out.
std::vector<float> Values(SampleShape shape) {
  std::vector<float> values(shape.values());
  std::uint32_t state = 12345;
  const auto draw = [&] {
    state = state * 1664525U + 1013904223U;
    return static_cast<float>(state >> 16) * 0x1p-16F - 0.5F;
  };
  for (std::size_t t = 0; t < shape.tokens; ++t) {
    const float size = t % 5 == 3 ? 0.0F : static_cast<float>(1U << t % 7 * 2) * 0x1p-5F;
    for (std::size_t i = 0; i < shape.hidden; ++i) {
      const float sum = draw() + draw() + draw() + draw();
      values[t * shape.hidden + i] = size * sum * (i % 101 == 7 ? 64.0F : 1.0F);
    }
  }
  return values;
}

struct Section {
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

Section Encode(double step, SampleShape shape) {
  const auto codec = std::make_shared<DitheredCodec>(DitherGoal::kStep, step);
  const auto given = Values(shape);
  Section section;
  section.bytes.resize(codec->EncodedBytesMax(shape, 1));
  section.values.resize(given.size());
  const std::span<const float> in = given;
  const std::span<float> out = section.values;
  section.bytes.resize(codec->Encode({&in, 1}, shape, kKey, section.bytes, {&out, 1}).value());
  return section;
}

std::string ChecksumOf(std::span<const std::byte> bytes) {
  std::byte sum[8];
  const std::uint64_t checksum = Checksum64(bytes);
  std::memcpy(sum, &checksum, 8);
  return Hex(sum);
}

TEST(DitheredGolden, ASmallSectionIsTheseBytes) {
  EXPECT_EQ(Hex(Encode(0.5, {4, 6}).bytes),
            "07020001000000001800000000000000"  // header
            "d0fc393d060000000c000000"          // step, sizes
            "008739000000"                      // classes, packed
            "0a2e6011cbba44cb0c6f163b"          // no offsets, tables, no escapes
            "2ad03d3677be0b00");                // words, one state
}

TEST(DitheredGolden, SectionsOfOneLaneAndOfManyHaveTheseChecksums) {
  const Section few = Encode(0.3, {40, 130});
  EXPECT_EQ(few.bytes.size(), 483U);
  EXPECT_EQ(ChecksumOf(few.bytes), "057f50c19bdf4dfa");
  EXPECT_EQ(ChecksumOf(std::as_bytes(std::span(few.values))), "df628a4b4d9591fd");
  const Section many = Encode(1, {40, 450});
  EXPECT_EQ(many.bytes.size(), 1059U);
  EXPECT_EQ(ChecksumOf(many.bytes), "cbf12fcdf5eada93");
  EXPECT_EQ(ChecksumOf(std::as_bytes(std::span(many.values))), "6936c3bbdd1d2e2f");
  // Enough tokens for offsets of channels.
  const Section channels = Encode(0.5, {150, 130});
  EXPECT_EQ(channels.bytes.size(), 1456U);
  EXPECT_EQ(ChecksumOf(channels.bytes), "24b86a419b5ce7f8");
  EXPECT_EQ(ChecksumOf(std::as_bytes(std::span(channels.values))), "02160253ab5d2f66");
}

std::string Stream(EntropyCoder coder, std::size_t n, int bits, bool all) {
  std::vector<std::uint8_t> codes(n);
  std::uint32_t state = 1;
  for (auto& code : codes) {
    state = state * 1664525U + 1013904223U;
    const std::uint32_t draw = state >> 16 & 0xff;
    const std::uint32_t middle = draw < 200 ? 1U << bits >> 1 : draw;
    code = static_cast<std::uint8_t>(middle & ((1U << bits) - 1));
  }
  std::vector<std::byte> out(SymbolBytesMax(coder, n, bits));
  out.resize(WriteSymbols(coder, codes, bits, out));
  return all ? Hex(out) : std::to_string(out.size()) + " " + ChecksumOf(out);
}

TEST(DitheredGolden, CodeStreamsAreTheseBytes) {
  EXPECT_EQ(Stream(EntropyCoder::kNone, 11, 3, true), "00240992240100");
  EXPECT_EQ(Stream(EntropyCoder::kRans, 100, 4, true),
            "0235675666cda8cc0454a602fa5363aa83004beaaffe0d0ce1243f751d4b87cb56cbb401");
  EXPECT_EQ(Stream(EntropyCoder::kRans, 20000, 6, false), "5237 f12e437a260baa02");
}

}  // namespace
}  // namespace shoal::compression
