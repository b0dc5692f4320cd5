#include "replica/state/state_message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace shoal::replica {
namespace {

std::string Hex(const Buffer& buffer) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    const auto byte = std::to_integer<unsigned>(buffer.data()[i]);
    hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return hex;
}

Result<StateMessage> Parse(const Buffer& buffer, std::size_t state_size) {
  return ParseStateMessage({buffer.data(), buffer.size()}, state_size);
}

Buffer Chunk() {
  Buffer chunk = NewStateMessage({StateMessage::Kind::kChunk, 7, 2, 258});
  const float values[] = {1, 2, 3, 4, 5, 6};
  std::ranges::copy(values, StateValues(&chunk).begin());
  SealStateMessage(&chunk);
  return chunk;
}

// docs/WIRE.md, "State of a stage".
TEST(StateMessage, GoldenBytes) {
  const Buffer request = NewStateMessage({StateMessage::Kind::kRequest, 7, 2, 0});
  // Of no bytes; XXH3-64 says so itself.
  EXPECT_EQ(Hex(request),
            "01010000020000000700000000000000"
            "0000000000000000c294d3380580062d");
  EXPECT_EQ(Hex(Chunk()),
            "01020000020000000700000000000000"
            "0201000000000000473470f7cc07e7a6"
            "0000803f000000400000404000008040"
            "0000a0400000c040");
}

TEST(StateMessage, ComesBackAsItWas) {
  Buffer chunk = Chunk();
  const auto parsed = Parse(chunk, 9);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->kind, StateMessage::Kind::kChunk);
  EXPECT_EQ(parsed->first, 7u);
  EXPECT_EQ(parsed->values, 2u);
  EXPECT_EQ(parsed->steps, 258u);
  EXPECT_EQ(StateValues(&chunk)[5], 6.0F);
}

TEST(StateMessage, EveryChangedByteAndEveryCutIsAnError) {
  const Buffer chunk = Chunk();
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    if (i == 2 || i == 3 || (i >= 16 && i < 24)) continue;  // unused; any number of steps is one
    Buffer changed = Buffer::CopyOf({chunk.data(), chunk.size()});
    changed.data()[i] ^= std::byte{0x55};
    EXPECT_FALSE(Parse(changed, 9).ok()) << i;
  }
  for (std::size_t size = 0; size < chunk.size(); ++size) {
    EXPECT_FALSE(ParseStateMessage({chunk.data(), size}, 9).ok()) << size;
  }
}

TEST(StateMessage, ARangeOutsideOfTheStageIsAnError) {
  EXPECT_FALSE(Parse(Chunk(), 8).ok());
  EXPECT_FALSE(Parse(Chunk(), 0).ok());
  EXPECT_TRUE(Parse(Chunk(), 9).ok());
}

}  // namespace
}  // namespace shoal::replica
