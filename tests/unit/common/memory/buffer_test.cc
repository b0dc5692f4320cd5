#include "common/memory/buffer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace shoal {
namespace {

static_assert(!std::is_copy_constructible_v<Buffer>);
static_assert(!std::is_copy_assignable_v<Buffer>);

TEST(BufferTest, EmptyHasNoBytes) {
  Buffer none;
  EXPECT_TRUE(none.empty());
  EXPECT_TRUE(none.bytes().empty());
  EXPECT_TRUE(none.floats().empty());
  EXPECT_EQ(Buffer(0).data(), nullptr);
  EXPECT_TRUE(Buffer::CopyOf({}).empty());
}

TEST(BufferTest, AlignedAndWritableInFull) {
  for (std::size_t size : {1, 4, 63, 64, 65, 1000, 1 << 20}) {
    Buffer buffer(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u) << size;
    EXPECT_EQ(buffer.size(), size);
    std::memset(buffer.data(), 0x5a, size);  // the address sanitizer watches
    EXPECT_EQ(buffer.bytes().back(), std::byte{0x5a});
  }
}

TEST(BufferTest, CopyOwnsItsBytes) {
  std::array<std::byte, 3> source = {std::byte{1}, std::byte{2}, std::byte{3}};
  const Buffer copy = Buffer::CopyOf(source);
  source[1] = std::byte{9};
  ASSERT_EQ(copy.size(), 3u);
  EXPECT_EQ(copy.bytes()[1], std::byte{2});
}

TEST(BufferTest, MovedFromIsEmpty) {
  Buffer a(16);
  a.data()[0] = std::byte{7};
  const std::byte* const address = a.data();
  Buffer b(std::move(a));
  EXPECT_EQ(b.data(), address);
  EXPECT_TRUE(a.empty());  // NOLINT: what a moved-from buffer is, is the point
  EXPECT_EQ(a.data(), nullptr);
  Buffer c(8);
  c = std::move(b);
  EXPECT_EQ(c.size(), 16u);
  EXPECT_EQ(c.bytes()[0], std::byte{7});
  EXPECT_TRUE(b.empty());  // NOLINT
}

TEST(BufferTest, FloatViewSharesTheBytes) {
  Buffer buffer(8);
  buffer.floats()[1] = 1.0f;
  EXPECT_EQ(buffer.bytes()[7], std::byte{0x3f});
  EXPECT_EQ(std::as_const(buffer).floats().size(), 2u);
}

TEST(BufferTest, TruncateKeepsTheFront) {
  Buffer buffer(8);
  buffer.data()[2] = std::byte{3};
  buffer.Truncate(3);
  EXPECT_EQ(buffer.size(), 3u);
  EXPECT_EQ(buffer.bytes().back(), std::byte{3});
}

TEST(BufferDeathTest, MisuseAborts) {
  Buffer buffer(6);
  EXPECT_DEATH(buffer.Truncate(7), "does not hold");
  EXPECT_DEATH(static_cast<void>(buffer.floats()), "does not hold");
  EXPECT_DEATH(Buffer(SIZE_MAX), "does not hold");
}

}  // namespace
}  // namespace shoal
