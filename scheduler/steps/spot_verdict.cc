#include "scheduler/steps/spot_verdict.h"

#include <algorithm>
#include <cmath>

namespace shoal::scheduler {
namespace {

using control::v1::SpotChecked;

bool Agrees(const SpotClaim& claim, const SpotChecked& report, bool last) {
  if (!last) {
    const double coding = std::min(report.coding_error(), 1.0);
    return report.difference() <= kSpotDifferenceMax + kSpotCodingShare * coding;
  }
  const double most = std::max(std::abs(claim.loss), std::abs(report.loss_sum()));
  const double allowed = kSpotLossMax * most + 0.01 * static_cast<double>(report.labels());
  return std::abs(claim.loss - report.loss_sum()) <= allowed;  // false: not a number
}

// In losses, on the last stage.
double DifferenceOf(const SpotClaim& claim, const SpotChecked& report, bool last) {
  if (!last) return report.difference();
  const double loss = std::max(std::abs(report.loss_sum()), 1e-9);
  return std::abs(claim.loss - report.loss_sum()) / loss;
}

}  // namespace

SpotVerdict JudgeSpotCheck(const SpotClaim& claim,
                           const std::vector<std::optional<SpotChecked>>& reports, bool first,
                           bool last) {
  std::size_t compared = 0, other_input = 0, other_output = 0, differ = 0;
  SpotVerdict verdict;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (!reports[i] || !reports[i]->error().empty()) continue;
    const SpotChecked& report = *reports[i];
    ++compared;
    const bool input = !first && report.input_digest() != claim.input_digest;
    const bool output = !last && report.output_digest() != claim.output_digest;
    other_input += input ? 1 : 0;
    other_output += output && !input ? 1 : 0;
    if (!input && !output) {
      if (Agrees(claim, report, last)) continue;
      ++differ;
      verdict.difference = std::max(verdict.difference, DifferenceOf(claim, report, last));
    }
    verdict.checker = i;
  }
  if (compared == 0) return verdict;
  if (other_input + other_output + differ == 0) {
    verdict.outcome = SpotOutcome::kEqual;
  } else if (other_input == compared) {
    verdict.outcome = SpotOutcome::kInputUnclear;
  } else if (other_output == compared) {
    verdict.outcome = SpotOutcome::kOutputUnclear;
  } else if (differ == compared && compared > 1) {
    verdict.outcome = SpotOutcome::kDiffers;
  } else {
    verdict.outcome = SpotOutcome::kOneDiffers;
  }
  return verdict;
}

}  // namespace shoal::scheduler
