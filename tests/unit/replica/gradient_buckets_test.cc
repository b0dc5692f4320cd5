#include "replica/gradient_buckets.h"

#include <gtest/gtest.h>

#include <vector>

namespace shoal::replica {
namespace {

class BucketQueueTest : public testing::Test {
 protected:
  void Add(std::size_t buckets, std::uint64_t values) {
    for (std::size_t i = 0; i < buckets; ++i) queue_.Add(values);
  }
  void ReadyAll(std::size_t buckets) {
    for (std::size_t i = 0; i < buckets; ++i) queue_.Ready(i);
  }

  std::vector<std::size_t> started_;
  BucketQueue queue_{[this](std::size_t bucket) { started_.push_back(bucket); }};
};

using Numbers = std::vector<std::size_t>;
constexpr std::uint64_t kLarge = 2 << 20;  // values; more bytes than the queue lets run

// Members are ready in different orders, and begin in the same one.
TEST_F(BucketQueueTest, BucketsStartInOrder) {
  Add(4, 1000);
  queue_.Ready(2);
  queue_.Ready(1);
  EXPECT_EQ(started_, Numbers{});
  queue_.Ready(0);
  EXPECT_EQ(started_, (Numbers{0, 1, 2}));
  queue_.Ready(3);
  EXPECT_EQ(started_, (Numbers{0, 1, 2, 3}));
}

TEST_F(BucketQueueTest, TwoLargeOnesRunAtATime) {
  Add(4, kLarge);
  ReadyAll(4);
  EXPECT_EQ(started_, (Numbers{0, 1}));
  queue_.Ended(1, 8 * kLarge);
  EXPECT_EQ(started_, (Numbers{0, 1, 2}));
  queue_.Ended(0, 8 * kLarge);
  EXPECT_EQ(started_, (Numbers{0, 1, 2, 3}));
}

// As few bits as they turn out to send, so many more may run.
TEST_F(BucketQueueTest, WhatOneSentTellsHowManyMayRun) {
  Add(70, kLarge);
  ReadyAll(70);
  EXPECT_EQ(started_.size(), 2u);
  queue_.Ended(0, kLarge / 4);  // a quarter of a byte a value
  const auto at_once = static_cast<std::size_t>(BucketQueue::kBytesAtOnce / (kLarge / 4));
  EXPECT_EQ(started_.size(), 3u);  // number 1 still counts as it was taken to
  queue_.Ended(1, kLarge / 4);
  EXPECT_EQ(started_.size(), 2 + at_once);
}

TEST_F(BucketQueueTest, ARestartBeginsWithTheFirst) {
  Add(3, kLarge);
  ReadyAll(3);
  EXPECT_EQ(started_, (Numbers{0, 1}));
  queue_.Restart();
  queue_.Ready(1);
  EXPECT_EQ(started_, (Numbers{0, 1}));
  queue_.Ready(0);
  EXPECT_EQ(started_, (Numbers{0, 1, 0, 1}));
}

}  // namespace
}  // namespace shoal::replica
