#include "scheduler/swarm/broken_pipelines.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/log.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/plan/regroup.h"
#include "scheduler/swarm/plan_messages.h"

namespace shoal::scheduler {

BrokenPipelines::BrokenPipelines(const RunConfig& config, const ArtefactMap& initial,
                                 const RunHistory& history, Members* members, SwarmPlan* plan,
                                 Lifecycle* lifecycle, TrainingSteps* steps, Reaction* reaction)
    : config_(config),
      initial_(initial),
      history_(history),
      members_(*members),
      plan_(*plan),
      lifecycle_(*lifecycle),
      steps_(*steps),
      reaction_(*reaction) {}

std::set<std::uint32_t> BrokenPipelines::BrokenWith(const PeerId& peer) const {
  std::set<std::uint32_t> broken = broken_;
  broken.insert(given_up_.begin(), given_up_.end());
  const Member* const member = members_.Find(peer);
  if (member != nullptr && member->placed()) {
    broken.insert(static_cast<std::uint32_t>(member->pipeline));
  }
  return broken;
}

bool BrokenPipelines::CannotGoOn(const PeerId& peer) {
  const Member* const member = members_.Find(peer);
  if (member == nullptr || !member->placed()) return false;
  given_up_.insert(static_cast<std::uint32_t>(member->pipeline));
  return !broken_.empty();
}

bool BrokenPipelines::MayGoOnWithout(const PeerId& peer) const {
  const std::set<std::uint32_t> broken = BrokenWith(peer);
  return !broken.empty() && steps_.MayGoOnWithout(broken);
}

bool BrokenPipelines::Take(const PeerId& peer, const std::string& cause) {
  if (!MayGoOnWithout(peer)) return false;
  if (broken_.empty()) lost_.clear();
  broken_ = BrokenWith(peer);
  lost_.insert(peer);
  last_ = peer;
  cause_ = cause;
  since_ = reaction_.now();
  return true;
}

void BrokenPipelines::Look() {
  if (broken_.empty() || reaction_.now() - since_ < kLostTogether) return;
  broken_.insert(given_up_.begin(), given_up_.end());
  // A new plan keeps the state of who is left of the broken ones, who may go to the places of
  // others. But where faults come more often than steps end, a step that began anew each time
  // would never end.
  const bool again = begins_anew_ == history_.step();
  const bool regroups = AwaitsAPipeline() || OthersMakeAPipeline() || HasCopiesToKeep();
  if (steps_.MayGoOnWithout(broken_) && (again || !regroups)) return LeaveOut();
  broken_.clear();
  const std::string cause = cause_;
  lifecycle_.EndForLost(last_, cause);
}

// Whether a pipeline without a gap counts as soon as its peers have got their stages.
bool BrokenPipelines::AwaitsAPipeline() const {
  return std::ranges::any_of(plan_.shadows(), [&](const PeerId& shadow) {
    const Member* const member = members_.Find(shadow);
    return member != nullptr && member->placed() &&
           !plan_.HasGap(static_cast<std::uint32_t>(member->pipeline));
  });
}

// Whether a plan in place had more pipelines than are left.
bool BrokenPipelines::OthersMakeAPipeline() const {
  std::vector<BoundPeer> peers;
  std::size_t left = 0;
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
    bool whole = true;
    for (std::uint32_t s = 0; s < config_.stages; ++s) {
      const Member* const member = plan_.At(p, s);
      const bool here = member != nullptr && member->candidate() && !lost_.contains(member->peer);
      whole = whole && here;
      if (!here) continue;
      peers.push_back({member->peer, s, p, !plan_.IsShadow(member->peer), member->joined});
    }
    left += whole ? 1 : 0;
  }
  const auto regrouped = Regroup(peers, config_.stages, config_.pipelines);
  return regrouped && regrouped->Whole() > left;
}

// Whether somebody who is left of the broken pipelines is one of few who hold its stage, and would
// fetch it again for longer than the others were at work on the step. Where nobody knows how fast
// these can send, that is taken to be quick.
bool BrokenPipelines::HasCopiesToKeep() const {
  struct Others {
    std::size_t count = 0;
    double upload_bps = 0;
  };
  std::vector<Others> others(config_.stages);
  std::set<std::uint32_t> left;  // stages
  for (const Member* const member : plan_.Hosts()) {
    if (!member->candidate() || lost_.contains(member->peer) || plan_.IsShadow(member->peer)) {
      continue;
    }
    const auto stage = static_cast<std::uint32_t>(member->stage);
    if (broken_.contains(static_cast<std::uint32_t>(member->pipeline))) {
      left.insert(stage);
    } else {
      ++others[stage].count;
      others[stage].upload_bps += static_cast<double>(member->line.upload_bps);
    }
  }
  const double at_work_s = std::chrono::duration<double>(steps_.spent()).count();
  return std::ranges::any_of(left, [&](std::uint32_t stage) {
    const double bits =
        8 * static_cast<double>(StateBytes(config_, stage, history_.checkpoint().files, initial_));
    return others[stage].count < kCopiesWanted && bits > at_work_s * others[stage].upload_bps &&
           others[stage].upload_bps > 0;
  });
}

void BrokenPipelines::LeaveOut() {
  const std::set<std::uint32_t> broken = std::exchange(broken_, {});
  given_up_.clear();  // they are among them, and leave once
  SHOAL_LOG(kInfo, "scheduler", "pipelines.left_out", {"step", history_.step()},
            {"pipelines", broken.size()}, {"cause", cause_});
  control::v1::SchedulerMessage message;
  message.mutable_abort()->set_generation(history_.generation());
  message.mutable_abort()->set_reason(cause_);
  for (const std::uint32_t pipeline : broken) {
    for (std::uint32_t s = 0; s < config_.stages; ++s) {
      Member* const member = plan_.At(pipeline, s);
      if (member == nullptr) continue;
      member->held.Clear();
      member->follows = false;
      if (member->connected) reaction_.Send(*member, message);
    }
    plan_.LeaveOut(pipeline);
  }
  lifecycle_.SetCause(cause_);
  steps_.GoOnWithout(broken, cause_);
}

}  // namespace shoal::scheduler
