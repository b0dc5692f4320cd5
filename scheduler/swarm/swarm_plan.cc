#include "scheduler/swarm/swarm_plan.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "replica/methods/replica_method.h"
#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {
namespace {

replica::MethodTraits TraitsOf(const RunConfig& config) {
  const auto method = replica::ParseReplicaMethod(config.replica_method);
  return config.pipelines > 1 && method.ok() ? method->traits : replica::MethodTraits();
}

}  // namespace

SwarmPlan::SwarmPlan(const RunConfig& config, Members* members)
    : config_(config),
      members_(*members),
      pipelines_differ_(TraitsOf(config).pipelines_differ),
      may_shrink_(pipelines_differ_ || TraitsOf(config).follows_steps) {}

std::optional<PlacementPlan> SwarmPlan::Propose(std::uint32_t pipelines) {
  if (members_.candidates() < std::size_t{config_.stages} * pipelines) return std::nullopt;
  // Pipelines with gaps last: of fewer those that are whole stay as they are.
  PlacementPlan previous, with_gaps;
  for (std::uint32_t p = 0; p < this->pipelines(); ++p) {
    (HasGap(p) ? with_gaps : previous).push_back(positions_[p]);
  }
  previous.insert(previous.end(), with_gaps.begin(), with_gaps.end());
  auto plan =
      Place(members_.Candidates(), {}, Run(pipelines), previous.empty() ? nullptr : &previous);
  too_little_memory_ = !plan;
  return plan;
}

bool SwarmPlan::MayGrowTo(std::uint32_t pipelines, TimePoint now) {
  return pipelines <= config_.pipelines && now >= grow_not_before_ &&
         members_.candidates() >= std::size_t{config_.stages} * pipelines &&
         Propose(pipelines).has_value();
}

std::uint32_t SwarmPlan::MostPipelines(TimePoint now) const {
  return now < grow_not_before_ && trained_ > 0 ? trained_ : config_.pipelines;
}

void SwarmPlan::Trains() {
  if (pipelines() > trained_) grow_wait_ = Duration::zero();
  trained_ = pipelines();
  trains_ = true;
}

void SwarmPlan::Ended(TimePoint now) {
  const bool grew = trained_ > 0 && pipelines() > trained_;
  if (!pipelines_differ_ || trains_ || !grew) return;
  grow_wait_ = std::clamp(2 * grow_wait_, kGrowAgainAfter, kGrowAgainAfterMost);
  grow_not_before_ = now + grow_wait_;
}

void SwarmPlan::Adopt(PlacementPlan positions, std::set<PeerId> shadows) {
  positions_ = std::move(positions);
  shadows_ = std::move(shadows);
  gaps_.clear();
  for (std::uint32_t p = 0; p < pipelines(); ++p) {
    for (std::uint32_t s = 0; s < config_.stages; ++s) {
      if (positions_[p][s] == PeerId{}) gaps_.emplace(p, s);
    }
  }
  trains_ = false;
  members_.SetPositions(positions_);
  lans_ = LansOfPlan(config_, positions_, round_trips_);
  lans_final_ = std::exchange(lans_final_next_, false);
  ready_.clear();
}

std::optional<Position> SwarmPlan::PositionOf(const PeerId& peer) const {
  if (peer == PeerId{}) return std::nullopt;
  for (std::uint32_t p = 0; p < pipelines(); ++p) {
    for (std::uint32_t s = 0; s < config_.stages; ++s) {
      if (positions_[p][s] == peer) return Position(p, s);
    }
  }
  return std::nullopt;
}

void SwarmPlan::Lose(const Position& position) {
  const auto [pipeline, stage] = position;
  shadows_.erase(std::exchange(positions_[pipeline][stage], PeerId{}));
  gaps_.insert(position);
  members_.SetPositions(positions_);
}

std::size_t SwarmPlan::placed() const {
  std::size_t placed = 0;
  for (const auto& pipeline : positions_) {
    placed += pipeline.size() - static_cast<std::size_t>(std::ranges::count(pipeline, PeerId{}));
  }
  return placed;
}

std::uint32_t SwarmPlan::whole() const {
  std::set<std::uint32_t> with_gaps;
  for (const auto& [pipeline, stage] : gaps_) with_gaps.insert(pipeline);
  return pipelines() - static_cast<std::uint32_t>(with_gaps.size());
}

bool SwarmPlan::HasGap(std::uint32_t pipeline) const {
  return std::ranges::any_of(gaps_, [&](const auto& gap) { return gap.first == pipeline; });
}

std::size_t SwarmPlan::InStep(std::uint32_t stage) const {
  return static_cast<std::size_t>(std::ranges::count_if(positions_, [&](const auto& pipeline) {
    return pipeline[stage] != PeerId{} && !IsShadow(pipeline[stage]);
  }));
}

std::vector<std::uint32_t> SwarmPlan::Counting() const {
  return Regrouped{positions_, shadows_}.Counting();
}

Member* SwarmPlan::At(std::uint32_t pipeline, std::uint32_t stage) {
  return members_.Find(positions_[pipeline][stage]);
}

const Member* SwarmPlan::At(std::uint32_t pipeline, std::uint32_t stage) const {
  return members_.Find(positions_[pipeline][stage]);
}

std::vector<const Member*> SwarmPlan::Hosts() const {
  std::vector<const Member*> hosts;
  for (const auto& pipeline : positions_) {
    for (const PeerId& peer : pipeline) {
      if (const Member* const member = members_.Find(peer)) hosts.push_back(member);
    }
  }
  return hosts;
}

std::string SwarmPlan::NamesOf(std::uint32_t stage,
                               const std::vector<std::uint32_t>& pipelines) const {
  std::string names;
  for (const std::uint32_t pipeline : pipelines) {
    const Member* const member = At(pipeline, stage);
    if (member == nullptr) continue;
    names += (names.empty() ? "" : ", ") + member->LabelWithPosition();
  }
  return names;
}

bool SwarmPlan::Linked(const Member& a, const Member& b) const {
  if (a.peer == b.peer) return false;
  if (a.stage == b.stage) return true;
  const bool neighbours = a.pipeline == b.pipeline && std::abs(a.stage - b.stage) == 1;
  if (neighbours && !HasGap(static_cast<std::uint32_t>(a.pipeline))) return true;
  const std::vector<std::uint32_t>& sharing = config_.sharing;
  const auto shares = [&](const Member& member) {
    return std::ranges::find(sharing, static_cast<std::uint32_t>(member.stage)) != sharing.end();
  };
  return shares(a) && shares(b);
}

// A check of outputs links the neighbours of a stage to those who hold it in other pipelines.
bool SwarmPlan::MayLink(const Member& a, const Member& b) const {
  return Linked(a, b) || (config_.spot_checks > 0 && std::abs(a.stage - b.stage) == 1);
}

bool SwarmPlan::SpareCouldReplace(const Member& member) const {
  std::vector<PlacementPeer> others = members_.Candidates();
  std::erase_if(others, [&](const PlacementPeer& peer) { return peer.peer == member.peer; });
  const std::uint32_t pipelines = std::max(whole(), 1u);
  return others.size() >= std::size_t{config_.stages} * pipelines &&
         Place(others, {}, Run(pipelines), &positions_).has_value();
}

void SwarmPlan::GiveUpPosition(const Member& member) {
  positions_[static_cast<std::size_t>(member.pipeline)][static_cast<std::size_t>(member.stage)] =
      PeerId{};
  members_.MoveToBack(member.peer);
}

void SwarmPlan::AddReady(const Member& member, const control::v1::PlanReady& ready) {
  for (const control::v1::RoundTrip& trip : ready.round_trips()) {
    PeerId to;
    std::copy(trip.peer().begin(), trip.peer().end(), to.key.begin());
    const Member* const other = members_.Find(to);
    if (other != nullptr && other->placed()) round_trips_.Add(member.peer, to, trip.ms());
  }
  ready_.insert(member.peer);
}

bool SwarmPlan::LansMoved() const {
  return !lans_final_ && lans_ != LansOfPlan(config_, positions_, round_trips_);
}

}  // namespace shoal::scheduler
