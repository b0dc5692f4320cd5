#include "replica/collective/direct/chunk_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "replica/collective/direct/early_messages.h"

namespace shoal::collective {
namespace {

// Chunks until the windows are full.
std::vector<ChunkId> TakeAll(ChunkSchedule* schedule) {
  std::vector<ChunkId> taken;
  while (const auto next = schedule->Next()) taken.push_back(*next);
  return taken;
}

ChunkSchedule New(std::vector<std::size_t> chunks, std::size_t rank, std::size_t window) {
  return ChunkSchedule({.chunks = std::move(chunks), .rank = rank, .window = window});
}

TEST(ChunkScheduleTest, EveryChunkIsSentOnceHoweverAnswersCome) {
  for (const std::size_t rank : {0, 1, 2}) {
    ChunkSchedule schedule = New({5, 3, 7}, rank, 2);
    std::vector<std::vector<std::size_t>> sent(3);
    for (std::size_t round = 0; round < 7; ++round) {
      for (const ChunkId& id : TakeAll(&schedule)) sent[id.owner].push_back(id.chunk);
      for (std::size_t r = 0; r < 3; ++r) {
        const std::size_t chunks = r == 0 ? 5 : r == 1 ? 3 : 7;
        if (schedule.answered(r) < chunks && (round + r) % 2 == 0) schedule.Answered(r);
      }
    }
    while (!schedule.all_begun()) {
      for (std::size_t r = 0; r < 3; ++r) schedule.Answered(r);
      for (const ChunkId& id : TakeAll(&schedule)) sent[id.owner].push_back(id.chunk);
    }
    EXPECT_EQ(sent[0], (std::vector<std::size_t>{0, 1, 2, 3, 4})) << rank;
    EXPECT_EQ(sent[1], (std::vector<std::size_t>{0, 1, 2})) << rank;
    EXPECT_EQ(sent[2], (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6})) << rank;
  }
}

// A member that does not answer holds back what goes to the others: they would end without its
// shard, and the line would be idle then.
TEST(ChunkScheduleTest, NoShardIsAheadOfAnAnswerByMoreThanTheWindow) {
  ChunkSchedule schedule = New({8, 8, 8}, 0, 3);
  EXPECT_EQ(TakeAll(&schedule).size(), 9u);
  schedule.Answered(0);
  schedule.Answered(1);
  EXPECT_TRUE(TakeAll(&schedule).empty());
  schedule.Answered(2);
  EXPECT_EQ(TakeAll(&schedule).size(), 3u);
}

TEST(ChunkScheduleTest, MembersBeginWithDifferentOwners) {
  for (const std::size_t rank : {0, 1, 2, 3}) {
    ChunkSchedule schedule = New({4, 4, 4, 4}, rank, 4);
    EXPECT_EQ(schedule.Next()->owner, (rank + 1) % 4);
  }
}

TEST(ChunkScheduleTest, AnAllGatherSendsOwnChunksAsOthersArrive) {
  ChunkSchedule schedule({.chunks = {4, 4}, .rank = 1, .gather = true, .window = 2});
  EXPECT_EQ(TakeAll(&schedule).size(), 2u);
  schedule.Answered(0);
  const auto next = schedule.Next();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->owner, 1u);
  EXPECT_EQ(next->chunk, 2u);
  EXPECT_FALSE(schedule.all_begun());
}

TEST(ChunkScheduleTest, AListenerSendsNothing) {
  ChunkSchedule schedule({.chunks = {4, 4}, .rank = 1, .sends = false, .window = 2});
  EXPECT_TRUE(schedule.all_begun());
  EXPECT_FALSE(schedule.Next().has_value());
}

TEST(EarlyMessagesTest, AMemberHasItsOwnLimit) {
  EarlyMessages early(1000);
  EXPECT_TRUE(early.Hold(2, Buffer(700)));
  EXPECT_FALSE(early.Hold(2, Buffer(0))) << "holding a message costs bytes, too";
  EXPECT_TRUE(early.Hold(0, Buffer(700)));
  const auto all = early.TakeAll();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].from, 2u);
  EXPECT_EQ(all[1].from, 0u);
  EXPECT_TRUE(early.TakeAll().empty());
  EXPECT_TRUE(early.Hold(2, Buffer(700))) << "what was taken no longer counts";
}

}  // namespace
}  // namespace shoal::collective
