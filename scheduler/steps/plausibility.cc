#include "scheduler/steps/plausibility.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shoal::scheduler {
namespace {

// Of a normal distribution: standard deviations per median absolute deviation.
constexpr double kMadToSigma = 1.4826;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void RobustHistory::Add(double value) {
  if (!(value > 0) || !std::isfinite(value)) return;
  if (logs_.size() >= kHistoryKept) logs_.pop_front();
  logs_.push_back(std::log(value));
}

std::optional<double> RobustHistory::Excess(double value, double factor_max) const {
  if (logs_.size() < kHistoryArmed || !(value > 0)) return std::nullopt;
  const double median = Median({logs_.begin(), logs_.end()});
  std::vector<double> deviations;
  for (const double log : logs_) deviations.push_back(std::abs(log - median));
  const double above = std::log(value) - median;
  const double spread = kMadToSigma * Median(std::move(deviations));
  if (above <= std::log(factor_max) || above <= kDeviationsMax * spread) return std::nullopt;
  return std::exp(above);
}

void Plausibility::AddNorm(std::uint32_t stage, bool sync, double squared_norm) {
  norms_[2 * std::size_t{stage} + (sync ? 1 : 0)].Add(std::sqrt(squared_norm));
}

std::optional<double> Plausibility::NormExcess(std::uint32_t stage, bool sync,
                                               double squared_norm) const {
  return norms_[2 * std::size_t{stage} + (sync ? 1 : 0)].Excess(std::sqrt(squared_norm),
                                                                kNormFactorMax);
}

bool Plausibility::LossFits(double loss, std::vector<double> others) const {
  if (!losses_.Excess(loss + kLossShift, kLossFactorMax)) return true;
  return !others.empty() &&
         loss + kLossShift <= kLossFactorMax * (Median(std::move(others)) + kLossShift);
}

void Plausibility::Refused(const std::string& what) {
  ++refused_;
  last_refused_ = what;
}

std::string FlatLossText(const std::vector<double>& losses) {
  if (losses.size() < kFlatSteps) return "";
  const auto half = static_cast<std::ptrdiff_t>(kFlatSteps / 2);
  const double newer = std::accumulate(losses.end() - half, losses.end(), 0.0);
  const double older = std::accumulate(losses.end() - 2 * half, losses.end() - half, 0.0);
  if (newer < older || older <= 0) return "";
  return "the loss has not fallen for " + std::to_string(kFlatSteps) +
         " steps: either the run has learnt what it can, or learning_rate does not fit, or a peer "
         "sends gradients that undo the others'";
}

}  // namespace shoal::scheduler
