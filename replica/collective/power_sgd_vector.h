// All gradients of a stage, as one vector, by PowerSGD (power_sgd.h) in two exchanges of a group.
// The first has the tensors that stay exact and the P of the others, the second the Q.
//
// Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_POWER_SGD_VECTOR_H_
#define SHOAL_REPLICA_COLLECTIVE_POWER_SGD_VECTOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "replica/collective/power_sgd.h"

namespace shoal::collective {

// What travels of a vector: the same on every member.
class PowerSgdLayout {
 public:
  // The dimensions of the vector's tensors, in order.
  PowerSgdLayout(const replica::PowerSgdOptions& options,
                 const std::vector<std::vector<std::size_t>>& tensors);

  std::size_t values() const { return values_; }
  std::size_t first_values() const { return first_values_; }    // of the first exchange
  std::size_t second_values() const { return second_values_; }  // of the second; 0: none is needed
  // Whether a step goes as factors; else the vector is exchanged as it is.
  bool Active(std::uint64_t step) const { return step >= start_ && second_values_ > 0; }

  struct Tensor {
    compression::MatrixShape shape;  // of an exact tensor values x 1
    std::uint32_t rank = 0;          // 0: exact
    std::size_t at = 0;              // first value in the vector
    std::size_t first_at = 0;
    std::size_t second_at = 0;
    std::size_t factor = 0;  // among those with factors
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::size_t factored() const { return factored_; }  // tensors with factors

 private:
  std::uint32_t start_;
  std::vector<Tensor> tensors_;
  std::size_t values_ = 0;
  std::size_t first_values_ = 0;
  std::size_t second_values_ = 0;
  std::size_t factored_ = 0;
};

// The states of the tensors with factors, in order; empty before the first step.
using PowerSgdMemory = std::vector<PowerSgdState>;

// Names a step of a group: equal on all members.
struct PowerSgdStepKey {
  std::uint64_t seed = 0;        // of the run
  std::uint32_t generation = 0;  // of the group
  std::uint64_t step = 0;
};

// A member's way through a step. Begin, Continue and Finish are three rounds of calls, one call per
// tensor, in any order and on any thread, several at once. A round begins when the one before is
// through. What is returned by Begin or Continue as an error ends the round.
class PowerSgdRound {
 public:
  // `layout` outlives the round.
  PowerSgdRound(const PowerSgdLayout& layout, const PowerSgdStepKey& key);

  // `gradient`: layout.values() values, or none of a member that listens. `memory`: of the step
  // before, equal in all calls. `spare`: as PowerSgdStep::Begin. Errors as there.
  Status Begin(std::size_t tensor, std::span<const float> gradient, const PowerSgdMemory& memory,
               std::vector<float> spare = {});
  // To be averaged or added up, layout.first_values() values; zeros of a member that listens. Once.
  Buffer TakeFirst() { return std::move(first_); }

  // Takes what the group agreed on.
  Status Continue(std::size_t tensor, std::span<const float> first);
  Buffer TakeSecond() { return std::move(second_); }  // layout.second_values() values

  // Takes what the group agreed on in both exchanges, and writes the tensor's part of the agreed
  // gradient, layout.values() values.
  Status Finish(std::size_t tensor, std::span<const float> first, std::span<const float> second,
                std::span<float> gradient);
  // The memory for the next step, to be adopted when this one is applied. The last call.
  PowerSgdMemory TakeMemory() { return std::move(next_); }

 private:
  const PowerSgdLayout* layout_;
  PowerSgdStepKey key_;
  std::vector<std::optional<PowerSgdStep>> steps_;  // of the tensors with factors
  Buffer first_, second_;
  PowerSgdMemory next_;
};

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_POWER_SGD_VECTOR_H_
