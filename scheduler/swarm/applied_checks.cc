#include "scheduler/swarm/applied_checks.h"

#include <algorithm>
#include <set>

#include "common/log.h"
#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {

AppliedChecks::AppliedChecks(const RunConfig& config, const SwarmPlan& plan,
                             const RunHistory& history, Lifecycle* lifecycle,
                             CheckpointUploads* uploads, MemberFaults* faults)
    : config_(config),
      plan_(plan),
      history_(history),
      lifecycle_(*lifecycle),
      uploads_(*uploads),
      faults_(*faults) {}

void AppliedChecks::BeginGeneration() {
  consistency_.Reset();
  repairing_.clear();
}

void AppliedChecks::Lose(const std::set<Position>& lost) {
  for (const auto& [pipeline, stage] : lost) consistency_.Lose(pipeline, stage);
}

Status AppliedChecks::OnApplied(const Member& member, const control::v1::Applied& applied) {
  if (lifecycle_.state() != RunState::kTraining || applied.step() >= history_.step()) {
    return Status::Ok();
  }
  const auto pipeline = static_cast<std::uint32_t>(member.pipeline);
  const auto stage = static_cast<std::uint32_t>(member.stage);
  for (const control::v1::BoundaryChecksum& end : applied.boundaries()) {
    const std::uint32_t own = end.receiver() ? end.boundary() + 1 : end.boundary();
    if (own != stage || end.boundary() + 1 >= config_.stages) {
      return InvalidArgument("malformed message: boundary of another stage");
    }
    if (!consistency_.AddChecksum(applied.step(), pipeline, end)) {
      SHOAL_LOG(kWarning, "scheduler", "m.mismatch", {"step", applied.step()},
                {"pipeline", pipeline}, {"boundary", end.boundary()});
    }
  }
  if (applied.weight_checksum() == 0 || plan_.IsShadow(member.peer)) return Status::Ok();
  const auto verdict = consistency_.AddWeights(applied.step(), stage, pipeline,
                                               applied.weight_checksum(), plan_.InStep(stage));
  if (verdict && !verdict->equal) OnWeightsDiffer(applied.step(), stage, *verdict);
  return Status::Ok();
}

void AppliedChecks::OnWeightsDiffer(std::uint64_t step, std::uint32_t stage,
                                    const WeightVerdict& verdict) {
  // A checkpoint must not hold weights that differ from the group's.
  std::set<PeerId> peers;
  for (const std::uint32_t p : verdict.differing) peers.insert(plan_.positions()[p][stage]);
  const bool dropped = uploads_.Distrust(peers);
  if (dropped) lifecycle_.PostponeEnding();
  const bool known = verdict.majority &&
                     std::all_of(verdict.differing.begin(), verdict.differing.end(), [&](auto p) {
                       return repairing_.contains(plan_.positions()[p][stage]);
                     });
  if (known && history_.step() < config_.steps) return;  // until a checkpoint is whole
  const std::string names = plan_.NamesOf(stage, verdict.differing);
  SHOAL_LOG(kWarning, "scheduler", "weights.differ", {"step", step}, {"stage", stage},
            {"majority", verdict.majority}, {"peers", names});
  const std::string what = "the weights of " + names + " differ after step " + std::to_string(step);
  if (!verdict.majority) {
    last_difference_ = what + ", and no majority says which are right: all go back to step " +
                       std::to_string(history_.checkpoint().step) + ", where they were equal";
    return lifecycle_.Interrupt(last_difference_, {false});
  }
  last_difference_ = what + " from those that most peers of the stage hold: it takes theirs";
  const std::uint32_t repairs = CountRepairs(stage, verdict);
  const std::string quarantined = AddFaults(stage, verdict, what);
  last_difference_ += quarantined;
  if (quarantined.empty() && repairs > kWeightRepairsMax) {
    return lifecycle_.Hold(
        what + " from those that most peers of the stage hold, for the " + std::to_string(repairs) +
            "th time: its memory or processor computes something else. Let that peer leave, then "
            "continue with: shoal swarm resume",
        {false});
  }
  if (history_.step() < config_.steps) {
    lifecycle_.EndSoon(last_difference_, {false});
  } else if (dropped) {  // too late for a further checkpoint
    lifecycle_.Interrupt(last_difference_, {false});
  }
}

std::string AppliedChecks::AddFaults(std::uint32_t stage, const WeightVerdict& verdict,
                                     const std::string& cause) {
  std::string all;
  for (const std::uint32_t pipeline : verdict.differing) {
    const Member* const member = plan_.At(pipeline, stage);
    if (member == nullptr) continue;
    const std::string quarantined = faults_.AddFault(*member, FaultKind::kWeights, cause);
    if (!quarantined.empty()) repairs_.erase(member->peer);  // what it did is answered
    all += quarantined;
  }
  return all;
}

std::uint32_t AppliedChecks::CountRepairs(std::uint32_t stage, const WeightVerdict& verdict) {
  std::uint32_t most = 0;
  for (const std::uint32_t pipeline : verdict.differing) {
    const PeerId& peer = plan_.positions()[pipeline][stage];
    if (repairing_.insert(peer).second) most = std::max(most, ++repairs_[peer]);
  }
  return most;
}

}  // namespace shoal::scheduler
