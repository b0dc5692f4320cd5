#include "scheduler/swarm/reported_values.h"

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

std::optional<Misfit> ReportedValues::Norm(const Member& member, bool sync,
                                           const control::v1::SyncDone& done) const {
  const auto stage = static_cast<std::uint32_t>(member.stage);
  const auto excess = plausibility_.NormExcess(stage, sync, done.squared_norm());
  if (!excess) return std::nullopt;
  return Misfit{&member, member.LabelWithPosition() + " reports a gradient norm of " +
                             FormatDouble(*excess) + " times the usual one of its stage at step " +
                             std::to_string(done.step()) +
                             ": a value of its stage group is wrong, or training diverges and "
                             "learning_rate is too high"};
}

std::optional<Misfit> ReportedValues::Norms(const StepAccount& account) const {
  const auto stage = account.disagreeing_stage();
  if (!stage) return std::nullopt;
  const std::vector<std::uint32_t> odd = account.disagreeing(*stage);
  return Misfit{odd.size() == 1 ? plan_.At(odd.front(), *stage) : nullptr,
                "the peers of stage " + std::to_string(*stage) +
                    " have different gradients after their exchange at step " +
                    std::to_string(account.step()) + ": " + plan_.NamesOf(*stage, odd) +
                    (odd.size() > 1 ? " differ" : " differs from the others")};
}

void ReportedValues::AddStep(const StepAccount& account, bool sync, double loss) {
  plausibility_.AddLoss(loss);
  for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
    plausibility_.AddNorm(stage, sync, account.squared_norm_of(stage));
  }
}

}  // namespace shoal::scheduler
