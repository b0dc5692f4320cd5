// Peers that leave a SimSwarm in the midst of a step, and what the others get to do.

#include <algorithm>
#include <numeric>
#include <utility>

#include "tests/support/sim_swarm.h"

namespace shoal::test_support {

using pipeline::StepPlan;

std::uint32_t SimSwarm::AmendmentOf(std::uint64_t step) const {
  const auto found = left_in_.find(step);
  return found == left_in_.end() ? 0 : static_cast<std::uint32_t>(found->second.size());
}

// Step by step: who has what, and what it gets when others leave.
std::vector<std::uint32_t> SimSwarm::MicroBatchesOf(std::uint64_t step,
                                                    std::uint32_t pipeline) const {
  std::vector<std::uint32_t> all(options_.pipelines);
  std::iota(all.begin(), all.end(), 0u);
  const bool some = !shadows_.empty() || !gaps_.empty();
  std::vector<std::uint32_t> counting = some && !counted_.empty() ? counted_ : all;
  if (!left_from_.empty()) counting = counted_before_;
  for (const auto& [from, left] : left_from_) {
    if (from <= step) counting = left;
  }
  std::map<std::uint32_t, std::vector<std::uint32_t>> has;
  for (std::uint32_t j = 0; j < options_.micro_batches; ++j) {
    has[counting[j % counting.size()]].push_back(j);
  }
  const auto found = left_in_.find(step);
  if (found == left_in_.end()) return has[pipeline];
  for (const std::vector<std::uint32_t>& left : found->second) {
    std::vector<std::uint32_t> moved;
    for (auto& [of, micro_batches] : has) {
      if (std::ranges::count(left, of) > 0) continue;
      moved.insert(moved.end(), micro_batches.begin(), micro_batches.end());
      micro_batches.clear();
    }
    std::ranges::sort(moved);
    for (std::size_t k = 0; k < moved.size(); ++k) has[left[k % left.size()]].push_back(moved[k]);
  }
  return has[pipeline];
}

void SimSwarm::Count(std::vector<std::uint32_t> pipelines) {
  counted_ = std::move(pipelines);
  if (!left_from_.empty()) left_from_[planned_] = counted_;
}

SimSwarm::Reported SimSwarm::Leave(std::uint32_t pipeline) {
  Places lost;
  for (std::uint32_t stage = 0; stage < options_.stages; ++stage) lost.emplace(stage, pipeline);
  for (const auto& gap : gaps_) lost.erase(gap);
  return Leave(lost);
}

// In order per peer: a later plan has a later event at an equal delay.
void SimSwarm::PostPlan(Peer* peer, StepPlan plan) {
  peer->control_->PostAfter("plan", Duration(5'000'000),
                            [this, peer, plan = std::move(plan), generation = generation_] {
                              if (!peer->runner_ || generation != generation_) return;
                              peer->runner_->OnStepPlan(plan);
                            });
}

// They are none of those that count.
void SimSwarm::FollowersLeave(const Places& lost) {
  lost_.insert(lost.begin(), lost.end());
  for (const auto& peer : peers_) {
    if (IsLost(*peer)) peer->runner_.reset();
  }
  const std::uint64_t step = losses_.size();
  StepPlan plan;
  plan.step = step;
  for (const auto& [stage, pipeline] : lost) plan.lost.push_back({pipeline, stage});
  for (const auto& peer : peers_) PostPlan(peer.get(), plan);
  for (auto& [of, account] : accounts_) {
    for (auto* const reported : {&account.ready, &account.synced, &account.applied}) {
      std::erase_if(*reported, [this](const Peer* peer) { return IsLost(*peer); });
    }
  }
  if (step > 0) FinishIfApplied(step - 1);
  ReduceIfReady(step);
  ApplyIfSynced(step);
}

SimSwarm::Reported SimSwarm::Leave(const Places& lost) {
  const bool follow =
      std::ranges::all_of(lost, [this](const auto& place) { return !IsWhole(place.second); });
  if (follow) {
    const StepAccount& account = accounts_[losses_.size()];
    const Reported reported{account.ready.size(), account.synced.size()};
    FollowersLeave(lost);
    return reported;
  }
  lost_.insert(lost.begin(), lost.end());
  if (counted_.empty() || (shadows_.empty() && gaps_.empty() && left_from_.empty())) {
    counted_.resize(options_.pipelines);
    std::iota(counted_.begin(), counted_.end(), 0);
  }
  if (left_from_.empty()) counted_before_ = counted_;
  for (const auto& [stage, pipeline] : lost) std::erase(counted_, pipeline);
  const std::uint64_t step = losses_.size();
  for (std::uint64_t of = step; of < planned_; ++of) left_in_[of].push_back(counted_);
  left_from_[planned_] = counted_;
  for (auto& [of, account] : accounts_) {
    std::erase_if(account.applied, [this](const Peer* peer) { return IsLost(*peer); });
  }
  const Reported reported{accounts_[step].ready.size(), accounts_[step].synced.size()};
  accounts_[step] = {};
  for (const auto& peer : peers_) {
    if (IsLost(*peer)) peer->runner_.reset();
  }
  for (std::uint64_t of = step; of < planned_; ++of) {
    for (const auto& peer : peers_) {
      if (peer->runner_) PostPlan(peer.get(), PlanOf(of, peer->stage_, peer->pipeline_));
    }
  }
  if (step > 0) FinishIfApplied(step - 1);
  return reported;
}

bool SimSwarm::IsLost(const Peer& peer) const {
  return lost_.contains({peer.stage_, peer.pipeline_});
}

}  // namespace shoal::test_support
