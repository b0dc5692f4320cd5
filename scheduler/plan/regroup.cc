#include "scheduler/plan/regroup.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {
namespace {

// Those of a stage, best first.
using StagePeers = std::vector<const BoundPeer*>;

// By pipeline of the plan before: its place among them, those with most peers in step first.
std::map<std::uint32_t, std::size_t> PlacesOf(const std::vector<BoundPeer>& peers) {
  std::map<std::uint32_t, std::size_t> in_step;
  for (const BoundPeer& peer : peers) {
    if (peer.pipeline) in_step[*peer.pipeline] += peer.in_step ? 1 : 0;
  }
  std::vector<std::uint32_t> order;
  order.reserve(in_step.size());
  for (const auto& [pipeline, count] : in_step) order.push_back(pipeline);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return in_step[a] > in_step[b]; });
  std::map<std::uint32_t, std::size_t> places;
  for (std::size_t i = 0; i < order.size(); ++i) places[order[i]] = i;
  return places;
}

std::vector<StagePeers> ByStage(const std::vector<BoundPeer>& peers, std::uint32_t stages) {
  const std::map<std::uint32_t, std::size_t> places = PlacesOf(peers);
  std::vector<StagePeers> by_stage(stages);
  for (const BoundPeer& peer : peers) {
    if (peer.stage < stages) by_stage[peer.stage].push_back(&peer);
  }
  const auto key = [&](const BoundPeer* peer) {
    const std::size_t place = peer->pipeline ? places.at(*peer->pipeline) : places.size();
    return std::tuple(!peer->in_step, place, peer->joined);
  };
  for (StagePeers& of_stage : by_stage) {
    std::ranges::stable_sort(of_stage,
                             [&](const auto* a, const auto* b) { return key(a) < key(b); });
  }
  return by_stage;
}

// Whether somebody of a pipeline with gaps, the stage's member number `copy` of the plan, follows
// the others: who holds something does, or who is needed for a copy.
bool Follows(const BoundPeer& peer, std::size_t copy) {
  return peer.in_step || peer.pipeline || copy < kCopiesWanted;
}

// What a row's place among the plan's pipelines goes by: where its first peer was that was in one.
std::uint32_t FormerPipeline(const std::vector<const BoundPeer*>& row) {
  for (const BoundPeer* peer : row) {
    if (peer != nullptr && peer->pipeline) return *peer->pipeline;
  }
  return UINT32_MAX;
}

}  // namespace

std::vector<std::uint32_t> Regrouped::Counting() const {
  std::vector<std::uint32_t> counting;
  for (std::uint32_t p = 0; p < positions.size(); ++p) {
    const bool all = std::ranges::none_of(positions[p], [&](const PeerId& peer) {
      return peer == PeerId{} || shadows.contains(peer);
    });
    if (all) counting.push_back(p);
  }
  return counting;
}

bool HasGap(std::span<const PeerId> pipeline) { return std::ranges::count(pipeline, PeerId{}) > 0; }

std::uint32_t WholePipelines(std::span<const PeerId> hosts, std::uint32_t stages) {
  std::uint32_t whole = 0;
  for (std::size_t first = 0; stages > 0 && first + stages <= hosts.size(); first += stages) {
    whole += HasGap(hosts.subspan(first, stages)) ? 0 : 1;
  }
  return whole;
}

std::size_t Regrouped::Whole() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(positions, [](const auto& pipeline) { return !HasGap(pipeline); }));
}

std::optional<Regrouped> Regroup(const std::vector<BoundPeer>& peers, std::uint32_t stages,
                                 std::uint32_t pipelines_max) {
  const std::vector<StagePeers> by_stage = ByStage(peers, stages);
  std::size_t whole = pipelines_max;
  for (const StagePeers& of_stage : by_stage) {
    if (of_stage.empty() || !of_stage.front()->in_step) return std::nullopt;
    whole = std::min(whole, of_stage.size());
  }
  std::vector<std::vector<const BoundPeer*>> rows(whole);
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    const StagePeers& of_stage = by_stage[stage];
    for (std::size_t row = 0; row < std::min<std::size_t>(of_stage.size(), pipelines_max); ++row) {
      if (row >= whole && !Follows(*of_stage[row], row)) break;
      if (row == rows.size()) rows.emplace_back();
      rows[row].resize(stages);
      rows[row][stage] = of_stage[row];
    }
  }
  std::ranges::stable_sort(
      rows, [](const auto& a, const auto& b) { return FormerPipeline(a) < FormerPipeline(b); });
  Regrouped regrouped;
  for (const auto& row : rows) {
    regrouped.positions.emplace_back();
    for (const BoundPeer* peer : row) {
      regrouped.positions.back().push_back(peer != nullptr ? peer->peer : PeerId{});
      if (peer != nullptr && !peer->in_step) regrouped.shadows.insert(peer->peer);
    }
  }
  return regrouped;
}

}  // namespace shoal::scheduler
