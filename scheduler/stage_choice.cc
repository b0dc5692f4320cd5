#include "scheduler/stage_choice.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/log.h"
#include "compression/replica_method.h"
#include "compression/stage_selection.h"

namespace shoal::scheduler {
namespace {

constexpr std::size_t kStepsMin = 3, kStepsKept = 15;  // measured

double Median(const std::deque<double>& values) {
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace

StageChoice::StageChoice(const std::string& replica_method, std::uint32_t stages,
                         std::uint32_t pipelines)
    : stages_(stages), measured_(stages) {
  const auto method = compression::ParseReplicaMethod(replica_method);
  if (!method.ok() || method->kind != compression::ReplicaKind::kPowerSgd || pipelines < 2) return;
  const auto selection = compression::ParseStageSelection(method->power_sgd.stages, stages);
  if (selection.ok() && selection->automatic) start_ = method->power_sgd.start;
}

void StageChoice::Reset() {
  measured_.assign(stages_, {});
  decided_.reset();
}

void StageChoice::Add(std::uint32_t stage, const control::v1::SyncDone& done) {
  if (!start_ || decided_ || done.exact_values() == 0) return;
  Measured& measured = measured_[stage];
  measured.slowest_ms = std::max(measured.slowest_ms, done.exchange_ms());
  measured.compressed_part =
      static_cast<double>(done.factor_values()) / static_cast<double>(done.exact_values());
}

void StageChoice::EndStep() {
  for (Measured& measured : measured_) {
    const double ms = std::exchange(measured.slowest_ms, 0);
    if (ms > 0) measured.ms.push_back(ms);
    if (measured.ms.size() > kStepsKept) measured.ms.pop_front();
  }
}

bool StageChoice::Enough() const {
  return std::all_of(measured_.begin(), measured_.end(),
                     [](const Measured& measured) { return measured.ms.size() >= kStepsMin; });
}

void StageChoice::Decide() {
  std::vector<compression::StageExchange> exchanges;
  for (const Measured& measured : measured_) {
    // All exchanges begin at once, when the last stage's gradients are complete.
    const double exact = Median(measured.ms) * 1e-3;
    exchanges.push_back({0, exact, exact * measured.compressed_part});
  }
  const std::vector<bool> compressed = compression::AutoStages(exchanges);
  decided_.emplace();
  for (std::uint32_t stage = 0; stage < stages_; ++stage) {
    if (!compressed[stage]) decided_->push_back(stage);
    SHOAL_LOG(kInfo, "scheduler", "powersgd.stage", {"stage", stage},
              {"compressed", static_cast<bool>(compressed[stage])},
              {"exact_s", exchanges[stage].exact}, {"factors_s", exchanges[stage].compressed});
  }
}

std::vector<std::uint32_t> StageChoice::ExactStages(std::uint64_t step) {
  if (!start_) return {};
  if (!decided_ && step >= *start_ && Enough()) Decide();
  if (decided_) return *decided_;
  std::vector<std::uint32_t> all(stages_);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

}  // namespace shoal::scheduler
