#include "scheduler/swarm/reported_values.h"

#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

namespace shoal::scheduler {
namespace {

std::string FormatDouble(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace

ReportedValues::ReportedValues(const RunConfig& config, const SwarmPlan& plan)
    : config_(config), plan_(plan), plausibility_(config.stages) {}

std::optional<Misfit> ReportedValues::Loss(const Member& member,
                                           const control::v1::StepReady& ready) const {
  if (static_cast<std::uint32_t>(member.stage) + 1 != config_.stages) return std::nullopt;
  if (!std::isfinite(ready.loss_sum())) return std::nullopt;  // Losses tells whose fault it is
  const auto labels = static_cast<double>(ready.labels());
  const double sum = ready.loss_sum();
  if (sum >= -labels * kLossBelowZero && sum <= labels * kLossMax) return std::nullopt;
  return Misfit{&member, member.LabelWithPosition() + " reports a loss of " + FormatDouble(sum) +
                             " over " + std::to_string(ready.labels()) + " labels at step " +
                             std::to_string(ready.step()) + ", which is not between 0 and " +
                             FormatDouble(kLossMax) +
                             " a label: its values are wrong, or training diverges and "
                             "learning_rate is too high"};
}

std::optional<Misfit> ReportedValues::Losses(const StepAccount& account) const {
  if (const auto lost = account.lost_loss()) {
    const Member* const member = plan_.At(*lost, config_.stages - 1);
    return Misfit{member, member->LabelWithPosition() +
                              " reports a loss that is not finite at step " +
                              std::to_string(account.step()) +
                              ", which another pipeline's is: its values are wrong, or training "
                              "diverges and learning_rate is too high"};
  }
  std::vector<double> losses(plan_.pipelines(), -1);  // below 0: without labels
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
    if (account.local_labels(p) > 0) losses[p] = account.local_loss(p);
  }
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
    std::vector<double> others;
    for (std::uint32_t q = 0; q < plan_.pipelines(); ++q) {
      if (q != p && losses[q] >= 0) others.push_back(losses[q]);
    }
    if (losses[p] < 0 || plausibility_.LossFits(losses[p], std::move(others))) continue;
    const Member* const member = plan_.At(p, config_.stages - 1);
    return Misfit{member, member->LabelWithPosition() + " reports a loss of " +
                              FormatDouble(losses[p]) + " a label at step " +
                              std::to_string(account.step()) +
                              ", far above the run's: its values are wrong, or training diverges "
                              "and learning_rate is too high"};
  }
  return std::nullopt;
}

std::optional<Misfit> ReportedValues::Norms(const StepAccount& account, bool sync) const {
  const auto stage = account.disagreeing_stage();
  if (!stage) return UnusualNorm(account, sync);
  const std::vector<std::uint32_t> odd = account.disagreeing(*stage);
  return Misfit{odd.size() == 1 ? plan_.At(odd.front(), *stage) : nullptr,
                "the peers of stage " + std::to_string(*stage) +
                    " have different gradients after their exchange at step " +
                    std::to_string(account.step()) + ": " + plan_.NamesOf(*stage, odd) +
                    (odd.size() > 1 ? " differ" : " differs from the others")};
}

// All members of a group have the same sum, and whose part of it is wrong they do not tell.
std::optional<Misfit> ReportedValues::UnusualNorm(const StepAccount& account, bool sync) const {
  for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
    const auto excess = plausibility_.NormExcess(stage, sync, account.squared_norm_of(stage));
    if (!excess) continue;
    const std::vector<std::uint32_t> group = account.Judged(stage);
    const bool alone = group.size() == 1;
    return Misfit{alone ? plan_.At(group.front(), stage) : nullptr,
                  plan_.NamesOf(stage, group) + (alone ? " reports" : " report") +
                      " a gradient norm of " + FormatDouble(*excess) +
                      " times the usual one of stage " + std::to_string(stage) + " at step " +
                      std::to_string(account.step()) +
                      (alone ? ": its values are wrong" : ": what one of them sent is wrong") +
                      ", or training diverges and learning_rate is too high"};
  }
  return std::nullopt;
}

void ReportedValues::AddStep(const StepAccount& account, bool sync, double loss) {
  plausibility_.AddLoss(loss);
  for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
    plausibility_.AddNorm(stage, sync, account.squared_norm_of(stage));
  }
}

}  // namespace shoal::scheduler
