// LinkMemory: what the sender of a link's gradients remembers from one message to the next
// (compression/api/stateful_codec.h).
//
// Messages of a step build on each other. When the step is applied, the state after the last
// message is kept. When this pipeline does not count in it, or it is aborted, the state before the
// step is kept. A generation goes on with what the last one kept, if the same peers hold the
// boundary (KeptMemories), else without any: then nothing but the error of the last messages is
// missing. Thread: control; states are never changed once they are here, so that tasks may read
// them anywhere.

#ifndef SHOAL_PIPELINE_BOUNDARY_LINK_MEMORY_H_
#define SHOAL_PIPELINE_BOUNDARY_LINK_MEMORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/status.h"
#include "compression/api/stateful_codec.h"
#include "compression/api/value_home.h"

namespace shoal::pipeline {

class LinkMemory {
 public:
  using State = std::shared_ptr<const compression::LowRankState>;

  // What the next message builds on; never null.
  const State& newest() const { return newest_; }
  // What that message left.
  void Stage(State next) { newest_ = std::move(next); }
  void DropStaged() { newest_ = kept_; }
  void Commit() { kept_ = newest_; }
  // What counts; and before the first step, what counted in another generation.
  const State& kept() const { return kept_; }
  void GoOnFrom(State state) { kept_ = newest_ = std::move(state); }

  // A few of the activations that arrived for a micro-batch, which lie in `home`, samples of
  // `sample_values` each. Thread: any.
  static Result<std::vector<float>> Sample(const compression::ValueHome& home,
                                           std::span<const float> values,
                                           std::size_t sample_values);
  // Keeps these of a micro-batch of the running step until its gradients leave.
  void PutActivations(std::uint32_t micro_batch, std::vector<float> sampled) {
    activations_[micro_batch] = std::move(sampled);
  }
  // What was kept; empty if nothing arrived.
  std::vector<float> TakeActivations(std::uint32_t micro_batch);

 private:
  State kept_ = std::make_shared<const compression::LowRankState>();
  State newest_ = kept_;
  std::map<std::uint32_t, std::vector<float>> activations_;  // by micro-batch
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_BOUNDARY_LINK_MEMORY_H_
