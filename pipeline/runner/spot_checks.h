// SpotChecks: a peer's part in spot checks. As a neighbour of who is checked it keeps what crossed
// their boundary, and shows it to the checkers over links of their own. As a checker it computes
// the micro-batch again, once its own are done, and before the weights change. Nothing that goes
// wrong here ends the generation: the check is not done then.
//
// At most one check per step, and memory for its evidence. Thread: control.

#ifndef SHOAL_PIPELINE_RUNNER_SPOT_CHECKS_H_
#define SHOAL_PIPELINE_RUNNER_SPOT_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "net/links/generation_links.h"
#include "pipeline/boundary/boundary.h"
#include "pipeline/boundary/evidence.h"
#include "pipeline/compute/spot_comparison.h"
#include "pipeline/core/generation.h"
#include "pipeline/core/runner_types.h"

namespace shoal::pipeline {

inline constexpr std::size_t kSpotOrdersMax = 8;  // of steps that have not begun

class SpotChecks {
 public:
  // All outlive it, and what RunnerResources says of tasks holds. `previous`, `next`: null on the
  // first and last stage.
  struct Parts {
    const RunnerConfig* config = nullptr;
    const RunnerResources* resources = nullptr;
    BoundaryConfig boundaries;
    Generation* generation = nullptr;
    const net::GenerationLinks* links = nullptr;
    Boundary* previous = nullptr;
    Boundary* next = nullptr;
    std::function<void(const SpotResult&)> on_checked;
  };
  explicit SpotChecks(Parts parts) : parts_(std::move(parts)) {}

  // Of a step that has not begun: opens the links.
  void OnOrder(SpotOrder order);
  // Before the boundaries begin with it.
  void StartStep(const StepPlan& plan);
  // Something has arrived, or was coded.
  void Pump();
  // The own micro-batches of the step are done, or there are more.
  void SetIdle(bool idle);
  // The weights change now: what was not computed again is too late.
  void OnApply();

 private:
  struct Check;
  struct Part {
    SpotOrder order;
    std::shared_ptr<Check> check;  // of a checker
    std::vector<std::unique_ptr<net::Link>> links;
    bool shown = false;  // by a witness
  };
  Boundary* Shared(const SpotOrder& order) const;
  bool Witness(const StepPlan& plan);
  void Show();
  void Await(Part* part);
  std::unique_ptr<EvidenceReceiver> AwaitFrom(const net::LinkTarget& target,
                                              const DirectionConfig& direction, Part* part);
  void Compute();
  void Finish(const std::shared_ptr<Check>& check, Status status);

  const Parts parts_;
  bool idle_ = false;
  // Last: the handlers of links use what is above.
  std::map<std::uint64_t, Part> coming_;  // by step
  std::optional<Part> part_;              // in the step at hand
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_RUNNER_SPOT_CHECKS_H_
