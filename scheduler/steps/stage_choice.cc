#include "scheduler/steps/stage_choice.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "common/log.h"
#include "replica/methods/replica_method.h"
#include "replica/methods/stage_selection.h"

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
  const auto method = replica::ParseReplicaMethod(replica_method);
  if (method.ok() && pipelines > 1) start_ = method->StageChoiceStart();
}

void StageChoice::Reset() {
  measured_.assign(stages_, {});
  decided_.reset();
}

void StageChoice::Add(std::uint32_t stage, Duration backward_end,
                      const control::v1::SyncDone& done) {
  if (!start_ || decided_ || done.exact_values() == 0) return;
  Measured& measured = measured_[stage];
  const double ready = std::chrono::duration<double, std::milli>(backward_end).count();
  measured.ready_ms = std::max(measured.ready_ms, ready);
  measured.summed_ms = std::max(measured.summed_ms, ready + done.exchange_ms());
  measured.compressed_part =
      static_cast<double>(done.factor_values()) / static_cast<double>(done.exact_values());
}

void StageChoice::EndStep() {
  for (Measured& measured : measured_) {
    const double ready = std::exchange(measured.ready_ms, 0);
    const double summed = std::exchange(measured.summed_ms, 0);
    if (summed <= 0) continue;  // it did not exchange exactly, or in two rounds
    measured.backward_ms.push_back(ready);
    measured.exact_ms.push_back(summed - ready);
    if (measured.exact_ms.size() <= kStepsKept) continue;
    measured.backward_ms.pop_front();
    measured.exact_ms.pop_front();
  }
}

bool StageChoice::Enough() const {
  return std::all_of(measured_.begin(), measured_.end(), [](const Measured& measured) {
    return measured.exact_ms.size() >= kStepsMin;
  });
}

void StageChoice::Decide() {
  std::vector<replica::StageExchange> exchanges;
  for (const Measured& measured : measured_) {
    // Buckets that went out during the backward are no part of it. With fewer bytes more of them
    // are out by then, so what is left shrinks by that part at least.
    const double exact = Median(measured.exact_ms) * 1e-3;
    exchanges.push_back(
        {Median(measured.backward_ms) * 1e-3, exact, exact * measured.compressed_part});
  }
  const std::vector<bool> compressed = replica::AutoStages(exchanges);
  decided_.emplace();
  for (std::uint32_t stage = 0; stage < stages_; ++stage) {
    if (!compressed[stage]) decided_->push_back(stage);
    SHOAL_LOG(kInfo, "scheduler", "powersgd.stage", {"stage", stage},
              {"compressed", static_cast<bool>(compressed[stage])},
              {"backward_end_s", exchanges[stage].backward_end},
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
