#include "replica/collective/ring/ring_message.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace shoal::collective {
namespace {

constexpr RingHeader kExample = {.kind = RingKind::kOneBit,
                                 .phase = RingPhase::kColumnReduce,
                                 .hop = 5,
                                 .slice = 0x01020304,
                                 .chunk = 0x11121314,
                                 .contributors = 0x21222324,
                                 .round = 0x3132333435363738,
                                 .epoch = 0x4142434445464748,
                                 .method = 0x5152535455565758,
                                 .hash = 0x6162636465666768};
// docs/WIRE.md, "Rings of a stage group".
constexpr unsigned char kBytes[] = {
    1,    2,    1,    5,    0x04, 0x03, 0x02, 0x01, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21,
    0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, 0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41,
    0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51, 0x68, 0x67, 0x66, 0x65, 0x64, 0x63, 0x62, 0x61};

std::vector<std::byte> Golden() {
  std::vector<std::byte> bytes(sizeof(kBytes));
  std::memcpy(bytes.data(), kBytes, sizeof(kBytes));
  return bytes;
}

TEST(RingMessageTest, BytesAreThoseOfTheDocument) {
  std::vector<std::byte> message(kRingHeaderBytes + 3, std::byte{9});
  WriteRingHeader(kExample, message);
  std::vector<std::byte> expected = Golden();
  expected.resize(kRingHeaderBytes + 3, std::byte{9});
  EXPECT_EQ(message, expected);
  const Result<RingHeader> read = ReadRingHeader(message);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, kExample);
}

TEST(RingMessageTest, WrongHeadersAreRefused) {
  const auto refused = [](std::vector<std::byte> bytes, const std::string& why) {
    const Result<RingHeader> read = ReadRingHeader(bytes);
    EXPECT_FALSE(read.ok());
    if (!read.ok()) {
      EXPECT_NE(read.status().message().find(why), std::string::npos) << read.status().message();
    }
  };
  std::vector<std::byte> bytes = Golden();
  bytes.pop_back();
  refused(bytes, "shorter than its header");
  refused({}, "shorter than its header");
  const auto with = [](std::size_t at, int value) {
    std::vector<std::byte> changed = Golden();
    changed[at] = static_cast<std::byte>(value);
    return changed;
  };
  refused(with(0, 2), "layout version 2");
  refused(with(1, 0), "unknown kind 0");
  refused(with(1, 3), "unknown kind 3");
  refused(with(2, 4), "unknown phase 4");
}

}  // namespace
}  // namespace shoal::collective
