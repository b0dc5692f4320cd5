#include "scheduler/plan/placement.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace shoal::scheduler {
namespace {

PeerId Id(int number) {
  PeerId id;
  id.key[0] = static_cast<std::uint8_t>(number);
  return id;
}

std::vector<PlacementPeer> Peers(int count) {
  std::vector<PlacementPeer> peers;
  // Given in reverse: the order of joining counts, not the order of the list.
  for (int i = count; i >= 1; --i) peers.push_back({Id(i), static_cast<std::uint64_t>(i), 0});
  return peers;
}

TEST(PlacementTest, FillsInOrderOfJoining) {
  const auto plan = Place(Peers(5), {}, {2, 2, {}}, nullptr);
  ASSERT_TRUE(plan);
  EXPECT_EQ(*plan, (PlacementPlan{{Id(1), Id(2)}, {Id(3), Id(4)}}));
}

TEST(PlacementTest, NothingWithTooFewPeers) {
  EXPECT_FALSE(Place(Peers(3), {}, {2, 2, {}}, nullptr));
}

TEST(PlacementTest, KeepsPlacesAndFillsTheFreeOne) {
  const PlacementPlan previous = {{Id(4), Id(9)}, {Id(2), Id(3)}};
  const auto plan = Place(Peers(5), {}, {2, 2, {}}, &previous);
  ASSERT_TRUE(plan);
  EXPECT_EQ(*plan, (PlacementPlan{{Id(4), Id(1)}, {Id(2), Id(3)}}));
}

TEST(PlacementTest, IgnoresAPreviousPlanOfAnotherShape) {
  const PlacementPlan previous = {{Id(3), Id(2), Id(1)}};
  const auto plan = Place(Peers(2), {}, {2, 1, {}}, &previous);
  ASSERT_TRUE(plan);
  EXPECT_EQ(*plan, (PlacementPlan{{Id(1), Id(2)}}));
}

TEST(PlacementTest, MemoryDecides) {
  std::vector<PlacementPeer> peers = {{Id(1), 1, 10}, {Id(2), 2, 100}};
  const auto plan = Place(peers, {}, {2, 1, {50, 5}}, nullptr);
  ASSERT_TRUE(plan);
  EXPECT_EQ(*plan, (PlacementPlan{{Id(2), Id(1)}}));
  EXPECT_FALSE(Place(peers, {}, {2, 1, {50, 50}}, nullptr));
}

TEST(PlacementTest, MovesAKeptPeerThatHoldsTheOnlyFittingPlace) {
  std::vector<PlacementPeer> peers = {{Id(1), 1, 10}, {Id(2), 2, 100}};
  const PlacementPlan previous = {{Id(9), Id(2)}};
  const auto plan = Place(peers, {}, {2, 1, {50, 5}}, &previous);
  ASSERT_TRUE(plan);
  EXPECT_EQ(*plan, (PlacementPlan{{Id(2), Id(1)}}));
}

// Tries every assignment: whether there is one at all.
bool AnyFits(const std::vector<PlacementPeer>& peers, const std::vector<std::uint64_t>& bytes,
             std::size_t place, std::set<std::size_t>* used) {
  if (place == bytes.size()) return true;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (used->contains(i)) continue;
    if (peers[i].memory_bytes != 0 && peers[i].memory_bytes < bytes[place]) continue;
    used->insert(i);
    const bool fits = AnyFits(peers, bytes, place + 1, used);
    used->erase(i);
    if (fits) return true;
  }
  return false;
}

TEST(PlacementTest, FindsAPlacementWheneverOneExists) {
  std::mt19937 random(5);
  int found = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<PlacementPeer> peers;
    const int count = 2 + static_cast<int>(random() % 4);
    for (int i = 0; i < count; ++i) peers.push_back({Id(i + 1), random() % 100, random() % 6});
    const std::uint32_t stages = 1 + random() % 3;
    std::vector<std::uint64_t> bytes;
    for (std::uint32_t s = 0; s < stages; ++s) bytes.push_back(random() % 6);
    PlacementPlan previous(1);
    for (std::uint32_t s = 0; s < stages; ++s) {
      previous[0].push_back(Id(1 + static_cast<int>(random() % 6)));
    }
    std::set<std::size_t> used;
    const auto plan = Place(peers, {}, {stages, 1, bytes}, &previous);
    EXPECT_EQ(plan.has_value(), AnyFits(peers, bytes, 0, &used)) << "round " << round;
    if (!plan) continue;
    ++found;
    std::set<PeerId> distinct(plan->at(0).begin(), plan->at(0).end());
    EXPECT_EQ(distinct.size(), stages);
  }
  EXPECT_GT(found, 500);
}

}  // namespace
}  // namespace shoal::scheduler
