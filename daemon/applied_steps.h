// AppliedSteps: what is still to be told of steps that were ordered to be applied.
//
// A step's model is done before its m are in the store, and the next Apply may come in between.
// Weights are compared and saved when the model is done, before the next step can change them. The
// scheduler hears of the step once its m are kept, too, and after that of its checkpoint. Thread:
// control.

#ifndef SHOAL_DAEMON_APPLIED_STEPS_H_
#define SHOAL_DAEMON_APPLIED_STEPS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "proto/control.pb.h"

namespace shoal::daemon {

class AppliedSteps {
 public:
  explicit AppliedSteps(std::function<void(control::v1::PeerMessage)> tell);

  void OnOrder(const control::v1::Apply& apply);
  // The order of a step of which weights are to be compared or saved; null: neither.
  const control::v1::Apply* Find(std::uint64_t step) const;

  // The step is done and kept: `message` is told, with the weights' checksum where one was ordered.
  void OnApplied(std::uint64_t step, control::v1::PeerMessage message);
  void OnChecksum(std::uint64_t step, std::uint64_t checksum);
  // The checkpoint of the step is saved, or not; `report` is called behind what is told of the
  // step.
  void OnSaved(std::uint64_t step, std::function<void()> report);
  // Nothing more is told of steps: reports of checkpoints wait no longer.
  void ReportSaved();

 private:
  struct Step {
    control::v1::Apply order;
    std::optional<control::v1::PeerMessage> applied;
    std::optional<std::uint64_t> checksum;
    std::function<void()> report;
    bool told = false;
  };
  void Settle(std::uint64_t step);

  const std::function<void(control::v1::PeerMessage)> tell_;
  std::map<std::uint64_t, Step> steps_;  // with something to compare or save
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_APPLIED_STEPS_H_
