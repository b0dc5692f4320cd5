#include "common/memory/block_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace shoal {
namespace {

constexpr std::size_t kMebi = std::size_t{1} << 20;

TEST(BlockPool, CapacityHoldsTheBytesAndWastesAnEighthAtMost) {
  for (std::size_t bytes = 1; bytes < 64 * kMebi; bytes += bytes / 7 + 1) {
    const std::size_t capacity = BlockPool::Capacity(bytes);
    EXPECT_GE(capacity, bytes);
    EXPECT_EQ(capacity % BlockPool::kAlignment, 0u) << bytes;
    EXPECT_LT(capacity, bytes + bytes / 8 + BlockPool::kAlignment) << bytes;
    EXPECT_EQ(BlockPool::Capacity(capacity), capacity) << bytes;
  }
}

TEST(BlockPool, GivesTheNewestOfTheClassAgain) {
  BlockPool pool(16 * kMebi);
  std::byte* const first = pool.Take(kMebi);
  std::byte* const second = pool.Take(kMebi);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % BlockPool::kAlignment, 0u);
  EXPECT_NE(first, second);
  pool.Give(first, kMebi);
  pool.Give(second, kMebi);
  EXPECT_EQ(pool.kept_bytes(), 2 * kMebi);
  EXPECT_EQ(pool.Take(kMebi - 1000), second);  // the same class
  std::byte* const other = pool.Take(2 * kMebi);
  EXPECT_NE(other, first);
  EXPECT_EQ(pool.Take(kMebi), first);
  EXPECT_EQ(pool.kept_bytes(), 0u);
  for (std::byte* const block : {first, second}) pool.Give(block, kMebi);
  pool.Give(other, 2 * kMebi);
}

TEST(BlockPool, KeepsNoMoreThanItMayAndTheNewest) {
  BlockPool pool(4 * kMebi);
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(pool.Take(kMebi));
  for (std::byte* const block : blocks) {
    pool.Give(block, kMebi);
    EXPECT_LE(pool.kept_bytes(), 4 * kMebi);
  }
  EXPECT_EQ(pool.kept_bytes(), 4 * kMebi);
  EXPECT_EQ(pool.Take(kMebi), blocks.back());
  pool.Give(blocks.back(), kMebi);
  pool.Give(pool.Take(5 * kMebi), 5 * kMebi);  // too large to be kept at all
  EXPECT_EQ(pool.kept_bytes(), 4 * kMebi);
}

TEST(BlockPool, TrimsToNothing) {
  BlockPool pool(4 * kMebi);
  for (const std::size_t bytes : {kMebi, 2 * kMebi}) pool.Give(pool.Take(bytes), bytes);
  EXPECT_EQ(pool.kept_bytes(), 3 * kMebi);
  pool.Trim();
  EXPECT_EQ(pool.kept_bytes(), 0u);
  pool.Give(pool.Take(kMebi), kMebi);
  EXPECT_EQ(pool.kept_bytes(), kMebi);
}

TEST(BlockPool, SmallOnesAreNotItsBusiness) {
  BlockPool pool(4 * kMebi);
  pool.Give(pool.Take(BlockPool::kPooledBytesMin / 2), BlockPool::kPooledBytesMin / 2);
  EXPECT_EQ(pool.kept_bytes(), 0u);
  pool.Give(nullptr, 0);
}

// A block belongs to one thread at a time, or its pattern would be torn.
TEST(BlockPool, ThreadsNeverShareABlock) {
  BlockPool pool(8 * kMebi);
  std::vector<std::thread> threads;
  for (unsigned char id = 1; id <= 4; ++id) {
    threads.emplace_back([&pool, id] {
      std::mt19937 random(id);
      for (int i = 0; i < 300; ++i) {
        const std::size_t bytes = BlockPool::kPooledBytesMin + random() % kMebi;
        std::byte* const block = pool.Take(bytes);
        std::memset(block, id, 4096);
        std::memset(block + bytes - 4096, id, 4096);
        for (std::size_t at = 0; at < 4096; ++at) {
          ASSERT_EQ(block[at], std::byte{id});
          ASSERT_EQ(block[bytes - 4096 + at], std::byte{id});
        }
        pool.Give(block, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(pool.kept_bytes(), 8 * kMebi);
}

}  // namespace
}  // namespace shoal
