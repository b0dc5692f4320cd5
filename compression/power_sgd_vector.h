// All gradients of a stage, one vector, by PowerSGD (power_sgd.h) in two exchanges of a group:
// first the tensors that stay exact and the P of the others, then the Q.
//
// Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_POWER_SGD_VECTOR_H_
#define SHOAL_COMPRESSION_POWER_SGD_VECTOR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"
#include "compression/power_sgd.h"

namespace shoal::compression {

// What travels of a vector: the same on every member.
class PowerSgdLayout {
 public:
  // The dimensions of the vector's tensors, in order.
  PowerSgdLayout(const PowerSgdOptions& options,
                 const std::vector<std::vector<std::size_t>>& tensors);

  std::size_t values() const { return values_; }
  std::size_t first_values() const { return first_values_; }    // of the first exchange
  std::size_t second_values() const { return second_values_; }  // of the second; 0: none is needed
  // Whether a step goes as factors; else the vector is exchanged as it is.
  bool Active(std::uint64_t step) const { return step >= start_ && second_values_ > 0; }

  struct Tensor {
    MatrixShape shape;       // of an exact tensor values x 1
    std::uint32_t rank = 0;  // 0: exact
    std::size_t at = 0;      // first value in the vector
    std::size_t first_at = 0;
    std::size_t second_at = 0;
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::uint32_t start_;
  std::vector<Tensor> tensors_;
  std::size_t values_ = 0;
  std::size_t first_values_ = 0;
  std::size_t second_values_ = 0;
};

// The states of the tensors with factors, in order; empty before the first step.
using PowerSgdMemory = std::vector<PowerSgdState>;

// Names a step of a group: equal on all members.
struct PowerSgdStepKey {
  std::uint64_t seed = 0;        // of the run
  std::uint32_t generation = 0;  // of the group
  std::uint64_t step = 0;
};

class PowerSgdRound {
 public:
  // `gradient`: layout.values() values, or none of a member that listens. `layout` outlives the
  // round. Errors as PowerSgdStep.
  static Result<PowerSgdRound> Begin(const PowerSgdLayout& layout, std::span<const float> gradient,
                                     const PowerSgdMemory& memory, const PowerSgdStepKey& key);
  // To be averaged or added up, layout.first_values() values; zeros of a member that listens.
  std::span<const float> first() const { return first_; }
  // Takes what the group agreed on and makes second(), layout.second_values() values.
  Status Continue(std::span<const float> first);
  std::span<const float> second() const { return second_; }
  // Takes what the group agreed on, writes the agreed gradient and returns the memory for the next
  // step, to be adopted when this one is applied. Once, and the last call.
  Result<PowerSgdMemory> Finish(std::span<const float> second, std::span<float> gradient);

 private:
  explicit PowerSgdRound(const PowerSgdLayout& layout) : layout_(&layout) {}

  const PowerSgdLayout* layout_;
  std::vector<PowerSgdStep> steps_;  // of the tensors with factors
  std::vector<float> first_;         // the agreed one from Continue on
  std::vector<float> second_;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_POWER_SGD_VECTOR_H_
