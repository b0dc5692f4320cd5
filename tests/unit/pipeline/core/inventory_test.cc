#include "pipeline/core/inventory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

namespace shoal::pipeline {
namespace {

using Entries = std::vector<storage::DeltaInventoryEntry>;

std::string Hex(std::span<const std::byte> bytes) {
  static const char* const digits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += digits[std::to_integer<int>(b) >> 4];
    text += digits[std::to_integer<int>(b) & 15];
  }
  return text;
}

Entries RandomEntries(std::mt19937_64& random, std::size_t count) {
  std::map<std::uint64_t, storage::DeltaInventoryEntry> entries;
  while (entries.size() < count) {
    const std::uint64_t sample = random() % 64;
    entries[sample] = {{sample}, random() % 3 + 1, random() % 2};
  }
  Entries list;
  for (const auto& [sample, entry] : entries) list.push_back(entry);
  return list;
}

TEST(InventoryTest, BytesAreAsDocumented) {
  const Entries entries{{{1}, 2, 0x0102030405060708}, {{0x1ff}, 7, 9}};
  EXPECT_EQ(Hex(EncodeInventory(entries).bytes()),
            "01000000"
            "0200000000000000"
            "0100000000000000"
            "0200000000000000"
            "0807060504030201"
            "ff01000000000000"
            "0700000000000000"
            "0900000000000000");
  EXPECT_EQ(Hex(EncodeInventory({}).bytes()), "010000000000000000000000");
}

TEST(LossesTest, BytesAreAsDocumentedAndForeignOnesAreChecked) {
  EXPECT_EQ(Hex(EncodeLosses({}).bytes()), "010000000000000000000000");
  const Buffer payload = EncodeLosses({{0x1ff}, {1}});
  EXPECT_EQ(Hex(payload.bytes()),
            "01000000"
            "0200000000000000"
            "0100000000000000"
            "ff01000000000000");
  EXPECT_EQ(*DecodeLosses(payload.bytes()), (std::vector<SegmentId>{{1}, {0x1ff}}));
  for (std::size_t size = 0; size < payload.size(); ++size) {
    EXPECT_FALSE(DecodeLosses(payload.bytes().first(size)).ok()) << size;
  }
  for (const std::size_t at : {0, 4, 19}) {  // layout, count, order
    Buffer wrong = Buffer::CopyOf(payload.bytes());
    wrong.data()[at] ^= std::byte{0x80};
    EXPECT_FALSE(DecodeLosses(wrong.bytes()).ok()) << at;
  }
}

TEST(InventoryTest, DecodesWhatWasEncoded) {
  std::mt19937_64 random(3);
  for (std::size_t count = 0; count < 50; ++count) {
    const Entries entries = RandomEntries(random, count);
    const auto decoded = DecodeInventory(EncodeInventory(entries).bytes());
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    ASSERT_EQ(decoded->size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ((*decoded)[i].segment, entries[i].segment);
      EXPECT_EQ((*decoded)[i].version, entries[i].version);
      EXPECT_EQ((*decoded)[i].checksum, entries[i].checksum);
    }
  }
}

TEST(InventoryTest, WrongSizesCountsLayoutsAndOrdersAreRefused) {
  const Buffer good = EncodeInventory(Entries{{{1}, 1, 1}, {{2}, 1, 1}});
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(DecodeInventory(good.bytes().first(size)).ok()) << size;
  }
  const auto changed = [&](std::size_t at, int value) {
    Buffer bytes = Buffer::CopyOf(good.bytes());
    bytes.data()[at] = std::byte(value);
    return DecodeInventory(bytes.bytes()).status();
  };
  EXPECT_NE(changed(0, 2).message().find("layout"), std::string::npos);
  EXPECT_NE(changed(4, 3).message().find("cannot hold"), std::string::npos);
  EXPECT_NE(changed(11, 0xff).message().find("cannot hold"), std::string::npos);  // 2^63 entries
  EXPECT_NE(changed(12, 2).message().find("order"), std::string::npos);
}

TEST(InventoryTest, RandomBytesNeverCrash) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 20000; ++i) {
    Buffer bytes(random() % 120);
    for (std::byte& b : bytes.bytes()) b = std::byte(random() % 4 == 0 ? random() : 0);
    if (bytes.size() > 0 && random() % 2 != 0) bytes.data()[0] = std::byte{1};
    const auto decoded = DecodeInventory(bytes.bytes());
    if (decoded.ok()) {
      EXPECT_EQ(Hex(EncodeInventory(*decoded).bytes()), Hex(bytes.bytes()));
    }
  }
}

TEST(InventoryTest, DisagreeingIsTheComplementOfTheIntersection) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 500; ++i) {
    const Entries own = RandomEntries(random, random() % 60);
    const Entries theirs = RandomEntries(random, random() % 60);
    std::vector<SegmentId> expected;
    for (const auto& mine : own) {
      bool found = false;
      for (const auto& other : theirs) {
        found = found || (other.segment == mine.segment && other.version == mine.version &&
                          other.checksum == mine.checksum);
      }
      if (!found) expected.push_back(mine.segment);
    }
    EXPECT_EQ(Disagreeing(own, theirs), expected);
  }
}

// Checksums of the m of activations and of gradients, at an end each, as the two ends' sums.
TEST(InventoryTest, SharedChecksumsAreEqualWhereAllMIs) {
  using Side = storage::BoundarySide;
  const std::vector<BoundaryChecksum> lower = {{4, Side::kSender, 0xf000000000000000, 3},
                                               {4, Side::kGradientReceiver, 0x2000000000000001, 2}};
  std::vector<BoundaryChecksum> upper = {{4, Side::kGradientSender, 0x2000000000000001, 2},
                                         {4, Side::kResidual, 77, 9},
                                         {4, Side::kReceiver, 0xf000000000000000, 3}};
  const auto below = SharedChecksums(lower), above = SharedChecksums(upper);
  ASSERT_EQ(below.size(), 1u);
  ASSERT_EQ(above.size(), 1u);
  EXPECT_EQ(below[0].side, Side::kSender);
  EXPECT_EQ(above[0].side, Side::kReceiver);
  EXPECT_EQ(below[0].boundary, 4u);
  EXPECT_EQ(below[0].checksum, 0x1000000000000001u);
  EXPECT_EQ(below[0].records, 5u);
  EXPECT_EQ(above[0].checksum, below[0].checksum);
  EXPECT_EQ(above[0].records, below[0].records);
  for (BoundaryChecksum& end : upper) {
    if (end.side == Side::kResidual) continue;
    ++end.checksum;
    EXPECT_NE(SharedChecksums(upper)[0].checksum, below[0].checksum);
    --end.checksum;
  }
  const std::vector<BoundaryChecksum> residual(1, {4, Side::kResidual, 77, 9});
  EXPECT_TRUE(SharedChecksums(residual).empty());
}

}  // namespace
}  // namespace shoal::pipeline
