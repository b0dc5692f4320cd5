#include "replica/collective/exchange_message.h"

#include <gtest/gtest.h>

#include <array>

#include "common/checksum.h"

namespace shoal::collective {
namespace {

MessageHeader Example() {
  MessageHeader header;
  header.phase = Phase::kResult;
  header.combine = Combine::kWeightedMean;
  header.op = CollectiveOp::kReduceScatter;
  header.transformed = true;
  header.chunk = 0x04030201;
  header.method = 0x1817161514131211;
  header.round = 0x2827262524232221;
  header.epoch = 0x3837363534333231;
  header.first_value = 0x4847464544434241;
  header.values = 0x54535251;
  header.tensor = 0x64636261;
  header.weight = 0x7877767574737271;
  return header;
}

std::array<std::byte, 67> Sealed() {
  std::array<std::byte, 67> message{};
  message[64] = std::byte{'a'};
  message[65] = std::byte{'b'};
  message[66] = std::byte{'c'};
  SealMessage(Example(), message);
  return message;
}

TEST(ExchangeMessageTest, LayoutIsPinned) {
  const unsigned char expected[67] = {
      1, 1, 1, 6, 0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21,
      0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
      0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x51, 0x52, 0x53, 0x54, 0x61, 0x62, 0x63,
      0x64, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78,
      // XXH3-64 of "abc" is 0x78af5f94892f3950.
      0x50, 0x39, 0x2f, 0x89, 0x94, 0x5f, 0xaf, 0x78, 'a', 'b', 'c'};
  const auto message = Sealed();
  for (std::size_t i = 0; i < message.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(message[i]), expected[i]) << "byte " << i;
  }
  const auto parsed = ParseMessageHeader(message);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(*parsed, Example());
  EXPECT_TRUE(CheckMessagePayload(message).ok());
}

TEST(ExchangeMessageTest, TheMethodIdIsTheHashOfItsText) {
  EXPECT_EQ(MethodId("abc"), 0x78af5f94892f3950u);
}

TEST(ExchangeMessageTest, EveryBitOfThePayloadCounts) {
  for (std::size_t bit = 0; bit < 24; ++bit) {
    auto message = Sealed();
    message[64 + bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(CheckMessagePayload(message).code(), StatusCode::kDataLoss);
  }
  const auto message = Sealed();
  EXPECT_FALSE(CheckMessagePayload(std::span(message).first(66)).ok());
}

TEST(ExchangeMessageTest, WrongHeadersAreRefused) {
  const auto with = [](std::size_t at, int value, std::size_t count = 1) {
    auto message = Sealed();
    for (std::size_t i = 0; i < count; ++i) message[at + i] = static_cast<std::byte>(value);
    return ParseMessageHeader(message).ok();
  };
  EXPECT_FALSE(with(0, 2));  // version
  EXPECT_FALSE(with(1, 2));  // phase
  EXPECT_FALSE(with(2, 2));  // combine
  EXPECT_FALSE(with(3, 3));  // op
  EXPECT_FALSE(with(3, 7));
  for (const int unused : {8, 16, 32, 64, 128}) EXPECT_FALSE(with(3, unused));
  EXPECT_TRUE(with(3, 5));
  EXPECT_FALSE(with(40, 0, 4));    // no values
  EXPECT_FALSE(with(48, 0, 8));    // no weight
  EXPECT_FALSE(with(32, 255, 8));  // beyond any vector
  EXPECT_TRUE(with(1, 0));
  const auto message = Sealed();
  for (std::size_t bytes = 0; bytes < 64; ++bytes) {
    EXPECT_FALSE(ParseMessageHeader(std::span(message).first(bytes)).ok());
  }
  EXPECT_TRUE(ParseMessageHeader(std::span(message).first(64)).ok());
}

}  // namespace
}  // namespace shoal::collective
