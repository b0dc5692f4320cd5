// StageChoice: which stages of a run compress their exchange between replicas, where the replica
// method leaves that to the swarm (powersgd:stages=auto; replica/methods/stage_selection.h).
//
// All stages exchange exactly until the method starts and a few steps of the generation have been
// measured; what is decided then holds until the generation ends. A stage's backward ends when the
// last of its members reports it (StepReady), counted from the step's beginning. Compression can
// save what an exchange needs beyond that end. Pure. Thread: control.

#ifndef SHOAL_SCHEDULER_STEPS_STAGE_CHOICE_H_
#define SHOAL_SCHEDULER_STEPS_STAGE_CHOICE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "proto/control.pb.h"

namespace shoal::scheduler {

class StageChoice {
 public:
  // Of a valid method; one that leaves nothing to the swarm asks no stage to be exact.
  StageChoice(const std::string& replica_method, std::uint32_t stages, std::uint32_t pipelines);

  // A generation begins: what was measured or decided is forgotten.
  void Reset();
  // A member's report of the step in progress, and how long after its beginning the member had its
  // gradients; EndStep after the last one.
  void Add(std::uint32_t stage, Duration backward_end, const control::v1::SyncDone& done);
  void EndStep();
  // The stages that exchange exactly in `step`, in order; decides if it is time to.
  std::vector<std::uint32_t> ExactStages(std::uint64_t step);

 private:
  struct Measured {
    // Of the step in progress, since it began: the last member's gradients, the last one's sum.
    double ready_ms = 0, summed_ms = 0;
    std::deque<double> backward_ms,
        exact_ms;                // of the last steps: until ready, from then to summed
    double compressed_part = 1;  // of the values that travel
  };
  bool Enough() const;
  void Decide();

  const std::uint32_t stages_;
  std::optional<std::uint64_t> start_;  // first step that may compress; none: nothing to decide
  std::vector<Measured> measured_;      // by stage
  std::optional<std::vector<std::uint32_t>> decided_;  // the stages that stay exact
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STEPS_STAGE_CHOICE_H_
