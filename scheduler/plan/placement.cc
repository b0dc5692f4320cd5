#include "scheduler/plan/placement.h"

#include <algorithm>
#include <set>

namespace shoal::scheduler {
namespace {

constexpr PeerId kNobody{};

struct FreePosition {
  std::uint32_t pipeline, stage;
  std::uint64_t bytes;  // 0: unknown
};

std::uint64_t StageBytes(const PlacementRun& run, std::uint32_t stage) {
  return stage < run.stage_bytes.size() ? run.stage_bytes[stage] : 0;
}

bool Fits(const PlacementPeer& peer, std::uint64_t bytes) {
  return peer.memory_bytes == 0 || peer.memory_bytes >= bytes;
}

// Keeps who has a position already and still fits there.
void KeepPrevious(const std::vector<PlacementPeer>& peers, const PlacementRun& run,
                  const PlacementPlan& previous, PlacementPlan* plan, std::set<PeerId>* placed) {
  for (std::uint32_t p = 0; p < run.pipelines && p < previous.size(); ++p) {
    if (previous[p].size() != run.stages) continue;
    for (std::uint32_t s = 0; s < run.stages; ++s) {
      const auto found = std::find_if(peers.begin(), peers.end(), [&](const PlacementPeer& peer) {
        return peer.peer == previous[p][s];
      });
      if (found == peers.end() || !Fits(*found, StageBytes(run, s))) continue;
      if (placed->insert(found->peer).second) (*plan)[p][s] = found->peer;
    }
  }
}

std::vector<FreePosition> FreePositions(const PlacementRun& run, const PlacementPlan& plan) {
  std::vector<FreePosition> positions;
  for (std::uint32_t p = 0; p < run.pipelines; ++p) {
    for (std::uint32_t s = 0; s < run.stages; ++s) {
      if (plan[p][s] == kNobody) positions.push_back({p, s, StageBytes(run, s)});
    }
  }
  // The most demanding positions first: a peer that fits there fits every later position as well,
  // so taking the first that fits never spoils a placement that exists.
  std::stable_sort(positions.begin(), positions.end(),
                   [](const FreePosition& a, const FreePosition& b) { return a.bytes > b.bytes; });
  return positions;
}

std::optional<PlacementPlan> Fill(const std::vector<PlacementPeer>& peers, const PlacementRun& run,
                                  const PlacementPlan* previous) {
  PlacementPlan plan(run.pipelines, std::vector<PeerId>(run.stages, kNobody));
  std::set<PeerId> placed;
  if (previous != nullptr) KeepPrevious(peers, run, *previous, &plan, &placed);
  std::vector<const PlacementPeer*> queue;
  for (const PlacementPeer& peer : peers) {
    if (!placed.contains(peer.peer)) queue.push_back(&peer);
  }
  std::stable_sort(queue.begin(), queue.end(), [](const PlacementPeer* a, const PlacementPeer* b) {
    return a->joined < b->joined;
  });
  for (const FreePosition& position : FreePositions(run, plan)) {
    const auto taken = std::find_if(queue.begin(), queue.end(), [&](const PlacementPeer* peer) {
      return Fits(*peer, position.bytes) && !placed.contains(peer->peer);
    });
    if (taken == queue.end()) return std::nullopt;
    plan[position.pipeline][position.stage] = (*taken)->peer;
    placed.insert((*taken)->peer);
    queue.erase(taken);
  }
  return plan;
}

}  // namespace

std::optional<PlacementPlan> Place(const std::vector<PlacementPeer>& peers,
                                   const std::vector<PlacementLink>&, const PlacementRun& run,
                                   const PlacementPlan* previous) {
  SHOAL_CHECK(run.stages >= 1 && run.pipelines >= 1);
  if (previous != nullptr) {
    if (auto plan = Fill(peers, run, previous)) return plan;
  }
  // A kept peer may hold the only position that another one fits: start afresh then.
  return Fill(peers, run, nullptr);
}

}  // namespace shoal::scheduler
