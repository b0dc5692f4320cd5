#include "daemon/churn/step_ledger.h"

#include <algorithm>
#include <map>
#include <utility>

namespace shoal::daemon {

StepLedger::StepLedger(dataset::Sampler sampler, std::uint64_t rows)
    : sampler_(sampler), epochs_(rows) {}

Result<StepLedger> StepLedger::Make(const dataset::SamplerOptions& options) {
  SHOAL_ASSIGN_OR_RETURN(dataset::Sampler sampler, dataset::Sampler::Make(options));
  return StepLedger(sampler, options.train_rows);
}

Status StepLedger::Applied(const control::v1::StepPlan& plan) {
  const std::string step = "step " + std::to_string(plan.step());
  if (plan.step() != steps_) {
    return Internal(step + " was applied after " + std::to_string(steps_) + " steps");
  }
  std::map<std::uint32_t, std::vector<std::uint64_t>> planned;
  for (const auto& pipeline : plan.pipelines()) {
    for (const auto& batch : pipeline.micro_batches()) {
      const std::vector<std::uint64_t> samples(batch.samples().begin(), batch.samples().end());
      if (!planned.emplace(batch.global_index(), samples).second) {
        return Internal(step + " has micro-batch " + std::to_string(batch.global_index()) +
                        " twice");
      }
    }
  }
  const auto epoch = static_cast<std::uint32_t>(steps_ / sampler_.steps_per_epoch());
  const auto batches = sampler_.Step(steps_);
  for (const auto& batch : batches) {
    std::vector<std::uint64_t> samples;
    for (const SampleId sample : batch.samples) samples.push_back(sample.value);
    const auto found = planned.find(batch.global_index);
    if (found == planned.end() || found->second != samples) {
      return Internal(step + " lacks micro-batch " + std::to_string(batch.global_index));
    }
    for (const std::uint64_t sample : samples) {
      if (epochs_[sample] > epoch) {
        return Internal(step + " trains sample " + std::to_string(sample) +
                        " a second time in its epoch");
      }
      epochs_[sample] = epoch + 1;
    }
  }
  if (planned.size() != batches.size()) return Internal(step + " has more than its micro-batches");
  ++steps_;
  return Status::Ok();
}

void StepLedger::BackTo(std::uint64_t step) {
  for (; steps_ > step; --steps_) {
    const auto epoch = static_cast<std::uint32_t>((steps_ - 1) / sampler_.steps_per_epoch());
    for (const auto& batch : sampler_.Step(steps_ - 1)) {
      for (const SampleId sample : batch.samples) epochs_[sample.value] = epoch;
    }
  }
}

}  // namespace shoal::daemon
