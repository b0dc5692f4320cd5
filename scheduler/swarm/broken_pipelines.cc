#include "scheduler/swarm/broken_pipelines.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/log.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/plan/regroup.h"

namespace shoal::scheduler {

BrokenPipelines::BrokenPipelines(const RunConfig& config, const RunHistory& history,
                                 SwarmPlan* plan, Lifecycle* lifecycle, AppliedChecks* applied,
                                 TrainingSteps* steps, Reaction* reaction)
    : config_(config),
      history_(history),
      plan_(*plan),
      lifecycle_(*lifecycle),
      applied_(*applied),
      steps_(*steps),
      reaction_(*reaction) {}

std::set<Position> BrokenPipelines::PositionsOf(const std::set<PeerId>& peers) const {
  std::set<Position> positions;
  const auto add = [&](const PeerId& peer) {
    if (const auto position = plan_.PositionOf(peer)) positions.insert(*position);
  };
  for (const PeerId& peer : peers) add(peer);
  for (const auto& [peer, halted] : given_up_) {
    if (!halted) add(peer);
  }
  std::set<std::uint32_t> broken;
  for (const auto& [pipeline, stage] : positions) broken.insert(pipeline);
  for (const auto& [peer, halted] : given_up_) {
    const auto at = plan_.PositionOf(peer);
    if (halted && at && !broken.contains(at->first) && !plan_.HasGap(at->first)) add(peer);
  }
  return positions;
}

bool BrokenPipelines::MayGoOnWithout(const std::set<Position>& lost) const {
  std::set<std::uint32_t> pipelines;
  for (const auto& [pipeline, stage] : lost) pipelines.insert(pipeline);
  return !lost.empty() && steps_.MayGoOnWithout(pipelines);
}

bool BrokenPipelines::MayGoOnWithout(const PeerId& peer) const {
  std::set<PeerId> lost = lost_;
  lost.insert(peer);
  return plan_.PositionOf(peer).has_value() && MayGoOnWithout(PositionsOf(lost));
}

bool BrokenPipelines::CannotGoOn(const PeerId& peer, bool halted) {
  if (!plan_.PositionOf(peer)) return false;
  given_up_[peer] = halted;
  return !lost_.empty();
}

bool BrokenPipelines::Take(const PeerId& peer, const std::string& cause) {
  if (!MayGoOnWithout(peer)) return false;
  lost_.insert(peer);
  last_ = peer;
  cause_ = cause;
  since_ = reaction_.now();
  return true;
}

void BrokenPipelines::Look() {
  if (lost_.empty() || reaction_.now() - since_ < kLostTogether) return;
  const std::set<Position> lost = PositionsOf(std::exchange(lost_, {}));
  const bool may = MayGoOnWithout(lost), anew = may && EndsSoonerAnew(lost);
  if (may && !anew) return LeaveOut(lost);
  if (anew) began_anew_ = history_.step();
  const std::string cause = cause_;
  lifecycle_.EndForLost(last_, cause);
}

bool BrokenPipelines::EndsSoonerAnew(const std::set<Position>& lost) const {
  // Where faults come more often than steps end, one that began anew each time would never end. No
  // plan in place keeps a run that has made no step.
  if (began_anew_ == history_.step() || history_.step() == 0) return false;
  std::vector<BoundPeer> peers;
  std::set<std::uint32_t> broken;
  for (const auto& [pipeline, stage] : lost) broken.insert(pipeline);
  for (const Member* const host : plan_.Hosts()) {
    const Position at(host->pipeline, host->stage);
    if (!host->candidate() || plan_.IsShadow(host->peer) || lost.contains(at)) continue;
    peers.push_back({host->peer, at.second, at.first, true, host->joined});
  }
  const auto plan = Regroup(peers, config_.stages, config_.pipelines);
  const auto left = std::ranges::count_if(
      plan_.Counting(), [&](std::uint32_t pipeline) { return !broken.contains(pipeline); });
  return plan && steps_.EndsSoonerAnew(static_cast<std::size_t>(left), plan->Counting().size());
}

void BrokenPipelines::LeaveOut(const std::set<Position>& lost) {
  given_up_.clear();  // what they do is decided with that
  SHOAL_LOG(kInfo, "scheduler", "pipelines.left_out", {"step", history_.step()},
            {"peers", lost.size()}, {"cause", cause_});
  control::v1::SchedulerMessage message;
  message.mutable_abort()->set_generation(history_.generation());
  message.mutable_abort()->set_reason(cause_);
  std::set<std::uint32_t> pipelines;
  for (const Position& position : lost) pipelines.insert(position.first);
  const bool only_follow = steps_.OnlyFollow(pipelines);
  for (const Position& position : lost) {
    if (Member* const member = plan_.At(position.first, position.second)) {
      member->held.Clear();
      member->follows = false;
      if (member->connected) reaction_.Send(*member, message);
    }
    plan_.Lose(position);
  }
  applied_.Lose(lost);
  lifecycle_.DropGrowth();  // who is left may make no more pipelines
  if (only_follow) return steps_.GoOnWithoutFollowers(lost, cause_);
  lifecycle_.SetCause(cause_);
  steps_.GoOnWithout(lost, cause_);
}

}  // namespace shoal::scheduler
