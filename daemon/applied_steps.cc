#include "daemon/applied_steps.h"

#include <utility>

namespace shoal::daemon {

AppliedSteps::AppliedSteps(std::function<void(control::v1::PeerMessage)> tell)
    : tell_(std::move(tell)) {}

void AppliedSteps::OnOrder(const control::v1::Apply& apply) {
  if (apply.check_weights() || apply.checkpoint()) steps_[apply.step()].order = apply;
}

const control::v1::Apply* AppliedSteps::Find(std::uint64_t step) const {
  const auto found = steps_.find(step);
  return found == steps_.end() ? nullptr : &found->second.order;
}

void AppliedSteps::OnApplied(std::uint64_t step, control::v1::PeerMessage message) {
  const auto found = steps_.find(step);
  if (found == steps_.end()) return tell_(std::move(message));
  found->second.applied = std::move(message);
  Settle(step);
}

void AppliedSteps::OnChecksum(std::uint64_t step, std::uint64_t checksum) {
  const auto found = steps_.find(step);
  if (found == steps_.end()) return;
  found->second.checksum = checksum;
  Settle(step);
}

void AppliedSteps::OnSaved(std::uint64_t step, std::function<void()> report) {
  const auto found = steps_.find(step);
  if (found == steps_.end()) return;
  found->second.report = std::move(report);
  Settle(step);
}

void AppliedSteps::ReportSaved() {
  for (auto& [number, step] : std::exchange(steps_, {})) {
    if (step.report != nullptr) step.report();
  }
}

void AppliedSteps::Settle(std::uint64_t step) {
  Step& settled = steps_.at(step);
  if (!settled.told && settled.applied && settled.checksum) {
    settled.told = true;
    settled.applied->mutable_applied()->set_weight_checksum(*settled.checksum);
    tell_(*std::exchange(settled.applied, std::nullopt));
  }
  if (!settled.told || (settled.order.checkpoint() && settled.report == nullptr)) return;
  const std::function<void()> report = std::move(settled.report);
  steps_.erase(step);
  if (report != nullptr) report();
}

}  // namespace shoal::daemon
