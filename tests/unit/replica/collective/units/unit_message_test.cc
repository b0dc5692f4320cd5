#include "replica/collective/units/unit_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/checksum.h"

namespace shoal::collective {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> Sealed(const UnitHeader& header, std::vector<std::uint8_t> payload) {
  std::vector<std::byte> message(kUnitHeaderBytes + payload.size());
  for (std::size_t i = 0; i < payload.size(); ++i) {
    message[kUnitHeaderBytes + i] = std::byte{payload[i]};
  }
  SealUnitMessage(header, message);
  return message;
}

UnitHeader Gradients() {
  UnitHeader header;
  header.kind = UnitKind::kGradients;
  header.piece = 7;
  header.method = 0x1122334455667788;
  header.step = 9;
  header.epoch = 3;
  header.micro_batch = 5;
  header.part = 2;
  header.chunk = 4;
  header.values = 300;
  return header;
}

TEST(UnitMessage, BytesAreAsDocumented) {
  const std::vector<std::byte> message = Sealed(Gradients(), {1, 2, 3});
  const std::vector<std::uint8_t> head = {
      1, 2, 0, 0, 7, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
      9, 0, 0, 0, 0, 0, 0, 0, 3,    0,    0,    0,    0,    0,    0,    0,
      5, 0, 0, 0, 2, 0, 0, 0, 4,    0,    0,    0,    44,   1,    0,    0};
  for (std::size_t i = 0; i < head.size(); ++i) {
    EXPECT_EQ(std::to_integer<unsigned>(message[i]), head[i]) << i;
  }
  const std::byte payload[] = {std::byte{1}, std::byte{2}, std::byte{3}};
  const std::uint64_t checksum = Checksum64(payload);
  for (unsigned i = 0; i < 8; ++i) {
    EXPECT_EQ(std::to_integer<unsigned>(message[48 + i]), checksum >> (8 * i) & 0xff);
  }
  EXPECT_EQ(*ParseUnitMessage(message), Gradients());
}

TEST(UnitMessage, EveryKindComesBack) {
  UnitHeader wanted;
  wanted.vector = UnitVector::kSecondMoment;
  wanted.piece = 1;
  UnitHeader values = wanted;
  values.kind = UnitKind::kValues;
  values.chunk = 3;
  values.values = 1;
  UnitHeader taken, end;
  taken.kind = UnitKind::kTaken;
  taken.piece = 2;
  end.kind = UnitKind::kEnd;
  for (const UnitHeader& header : {wanted, taken, end}) {
    EXPECT_EQ(*ParseUnitMessage(Sealed(header, {})), header);
    EXPECT_FALSE(ParseUnitMessage(Sealed(header, {1})).ok());
  }
  EXPECT_EQ(*ParseUnitMessage(Sealed(values, {1, 2})), values);
  EXPECT_FALSE(ParseUnitMessage(Sealed(values, {})).ok());
}

TEST(UnitMessage, RefusesWhatNobodySends) {
  const std::vector<std::byte> good = Sealed(Gradients(), {1, 2, 3});
  const auto changed = [&](std::size_t at, unsigned value) {
    std::vector<std::byte> message = good;
    message[at] = static_cast<std::byte>(value);
    return ParseUnitMessage(message).status().message();
  };
  EXPECT_THAT(changed(0, 2), HasSubstr("version 2"));
  EXPECT_THAT(changed(1, 5), HasSubstr("unknown kind"));
  EXPECT_THAT(changed(2, 4), HasSubstr("unknown kind"));
  EXPECT_THAT(changed(3, 1), HasSubstr("unknown kind"));
  EXPECT_THAT(changed(2, 1), HasSubstr("fields"));
  EXPECT_THAT(changed(1, 3), HasSubstr("fields"));
  EXPECT_THAT(changed(good.size() - 1, 4), HasSubstr("checksum"));
  for (std::size_t size = 0; size < kUnitHeaderBytes; ++size) {
    EXPECT_FALSE(ParseUnitMessage(std::span(good).first(size)).ok());
  }
}

}  // namespace
}  // namespace shoal::collective
