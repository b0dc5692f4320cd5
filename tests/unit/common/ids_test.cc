#include "common/ids.h"

#include <gtest/gtest.h>

#include <cctype>
#include <random>
#include <set>
#include <string>
#include <unordered_set>

namespace shoal {
namespace {

const std::string kHex = "000102030405060708090a0b0c0d0e0f10111213141516171819fafbfcfdfeff";

PeerId SomePeer() {
  PeerId id;
  for (std::size_t i = 0; i < 26; ++i) id.key[i] = static_cast<std::uint8_t>(i);
  for (std::size_t i = 26; i < 32; ++i) id.key[i] = static_cast<std::uint8_t>(0xfa + i - 26);
  return id;
}

TEST(PeerIdTest, GoldenHex) {
  EXPECT_EQ(SomePeer().ToHex(), kHex);
  EXPECT_EQ(SomePeer().ToShort(), "00010203");
  EXPECT_EQ(PeerId::FromHex(kHex).value(), SomePeer());
}

TEST(PeerIdTest, ReadsUpperCase) {
  std::string upper = kHex;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(PeerId::FromHex(upper).value(), SomePeer());
}

TEST(PeerIdTest, RefusesWrongText) {
  EXPECT_FALSE(PeerId::FromHex("").ok());
  EXPECT_FALSE(PeerId::FromHex(kHex.substr(1)).ok());
  EXPECT_FALSE(PeerId::FromHex(kHex + "0").ok());
  for (char wrong : {'g', ' ', '/', ':', '@', '`', '\0'}) {
    std::string text = kHex;
    text[17] = wrong;
    EXPECT_EQ(PeerId::FromHex(text).status().code(), StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(RunIdTest, GoldenHex) {
  EXPECT_EQ(RunId{0x00c0ffee12345678}.ToHex(), "00c0ffee12345678");
  EXPECT_EQ(RunId{0}.ToHex(), "0000000000000000");
  EXPECT_EQ(RunId::FromHex("ffffffffffffffff").value().value, ~std::uint64_t{0});
  EXPECT_EQ(RunId::FromHex("00C0FFEE12345678").value().value, 0x00c0ffee12345678u);
}

TEST(RunIdTest, RefusesWrongText) {
  for (const char* text :
       {"", "1", "00c0ffee1234567", "00c0ffee123456789", "-0c0ffee12345678", "+0c0ffee12345678",
        "0x00ffee12345678", "00c0ffee1234567g", " 0c0ffee12345678"}) {
    EXPECT_EQ(RunId::FromHex(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(RunIdTest, RandomBytesNeverBreakTheParsers) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 70, '\0');
    for (char& c : text)
      c = static_cast<char>(random() % 4 == 0 ? random() : "09afAF"[random() % 6]);
    if (const auto run = RunId::FromHex(text); run.ok()) {
      EXPECT_EQ(RunId::FromHex(run->ToHex()).value(), *run);
    }
    if (const auto peer = PeerId::FromHex(text); peer.ok()) {
      EXPECT_EQ(PeerId::FromHex(peer->ToHex()).value(), *peer);
    }
  }
}

TEST(IdsTest, OrderIsThatOfTheNumbers) {
  EXPECT_LT((MicroBatchId{1, 9}), (MicroBatchId{2, 0}));
  EXPECT_LT((MicroBatchId{2, 0}), (MicroBatchId{2, 1}));
  EXPECT_LT(SampleId{255}, SampleId{256});
  PeerId small, large;
  large.key[0] = 1;
  small.key[31] = 255;
  EXPECT_LT(small, large);
}

TEST(IdsTest, HashSetsTellIdsApart) {
  std::unordered_set<PeerId> peers;
  std::unordered_set<SampleId> samples;
  for (int i = 0; i < 300; ++i) {
    PeerId peer;
    peer.key[i % 32] = static_cast<std::uint8_t>(1 + i / 32);
    EXPECT_TRUE(peers.insert(peer).second);
    EXPECT_TRUE(samples.insert(SampleId{static_cast<std::uint64_t>(i)}).second);
    EXPECT_FALSE(peers.insert(peer).second);
  }
}

}  // namespace
}  // namespace shoal
