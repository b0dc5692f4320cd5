// What must fit the run's history: losses and norms.

#include <algorithm>
#include <cstdio>

#include "common/log.h"
#include "scheduler/swarm/swarm_state_impl.h"

namespace shoal::scheduler {
namespace {

std::string FormatDouble(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace

bool SwarmStateImpl::ChecksWeights() const {
  // Between synchronisations of local steps replicas differ by design.
  if (config_.pipelines < 2 || !decision_.sync) return false;
  return decision_.checkpoint || (history_.step() + 1) % config_.weight_check_every == 0 ||
         local_steps_ > 0;
}

// A value that cannot be, or does not fit: the step is not applied, a spare takes the position.
void SwarmStateImpl::RefuseValue(Member* member, const std::string& cause) {
  SHOAL_LOG(kWarning, "scheduler", "value.refused", {"step", history_.step()}, {"cause", cause});
  plausibility_.Refused(cause);
  faults_.Replace(*member, cause);
}

bool SwarmStateImpl::LossFits(Member* member, const control::v1::StepReady& ready) {
  if (static_cast<std::uint32_t>(member->stage) + 1 != config_.stages) return true;
  const auto labels = static_cast<double>(ready.labels());
  const double sum = ready.loss_sum();
  if (sum >= -labels * kLossBelowZero && sum <= labels * kLossMax) return true;
  RefuseValue(member, member->LabelWithPosition() + " reports a loss of " + FormatDouble(sum) +
                          " over " + std::to_string(ready.labels()) + " labels at step " +
                          std::to_string(history_.step()) + ", which is not between 0 and " +
                          FormatDouble(kLossMax) +
                          " a label: its values are wrong, or training diverges and "
                          "learning_rate is too high");
  return false;
}

void SwarmStateImpl::CheckLosses() {
  std::vector<double> losses(config_.pipelines, -1);  // below 0: without labels
  for (std::uint32_t p = 0; p < config_.pipelines; ++p) {
    if (account_.local_labels(p) > 0) losses[p] = account_.local_loss(p);
  }
  for (std::uint32_t p = 0; p < config_.pipelines; ++p) {
    std::vector<double> others;
    for (std::uint32_t q = 0; q < config_.pipelines; ++q) {
      if (q != p && losses[q] >= 0) others.push_back(losses[q]);
    }
    if (losses[p] < 0 || plausibility_.LossFits(losses[p], std::move(others))) continue;
    Member* const member = plan_.At(p, config_.stages - 1);
    RefuseValue(member, member->LabelWithPosition() + " reports a loss of " +
                            FormatDouble(losses[p]) + " a label at step " +
                            std::to_string(history_.step()) +
                            ", far above the run's: its values are wrong, or training diverges and "
                            "learning_rate is too high");
    return;
  }
}

bool SwarmStateImpl::NormFits(Member* member, double squared_norm) {
  const auto stage = static_cast<std::uint32_t>(member->stage);
  const auto excess = plausibility_.NormExcess(stage, decision_.sync, squared_norm);
  if (!excess) return true;
  RefuseValue(member, member->LabelWithPosition() + " reports a gradient norm of " +
                          FormatDouble(*excess) + " times the usual one of its stage at step " +
                          std::to_string(history_.step()) +
                          ": a value of its stage group is wrong, or training diverges and "
                          "learning_rate is too high");
  return false;
}

void SwarmStateImpl::OnDisagreement(std::uint32_t stage) {
  const std::vector<std::uint32_t> odd = account_.disagreeing(stage);
  const std::string cause = "the peers of stage " + std::to_string(stage) +
                            " have different gradients after their exchange at step " +
                            std::to_string(history_.step()) + ": " + plan_.NamesOf(stage, odd) +
                            (odd.size() > 1 ? " differ" : " differs from the others");
  if (odd.size() == 1) return RefuseValue(plan_.At(odd.front(), stage), cause);
  plausibility_.Refused(cause);
  lifecycle_.Interrupt(cause);
}

}  // namespace shoal::scheduler
