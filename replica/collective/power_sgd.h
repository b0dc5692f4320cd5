// PowerSGD: a tensor's gradients as two thin factors that a stage group averages in place of the
// tensor, with error feedback. Source: Vogels et al., "PowerSGD: Practical Low-Rank Gradient
// Compression for Distributed Optimization", NeurIPS 2019, algorithms 1 and 2.
//
// A step of one tensor, on every member, w_i being the members' weights (sum 1):
//   1. Begin:    G_i = gradient_i + residual_i, P_i = G_i Q          -> the group averages P
//   2. Continue: P made orthonormal, Q_i = G_i^T P, residual_i = G_i - P Q_i^T  -> averages Q
//   3. Finish:   the mean gradient is P Q^T, and Q is where the next step begins
//
// All of it is linear in the weights. So a group that adds up instead of averaging (gradients that
// are sums over labels already) gets the sum of the gradients.
// As P Q^T is linear in Q, the mean of what was decoded is the mean of all G_i less the mean of the
// residuals. So a residual is what its own member did not send, whoever the others are. That holds
// when the group changes between steps, which a residual against the averaged product would not.
//
// All members must average the same bytes (collective/ does: owners adopt what they send); then
// all of them get the same bits. State enters and leaves as an object: adopt what came out when the
// step is applied, drop it when it is aborted. Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_POWER_SGD_H_
#define SHOAL_REPLICA_COLLECTIVE_POWER_SGD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compression/codecs/low_rank/low_rank.h"
#include "replica/methods/power_sgd_options.h"

namespace shoal::collective {

// Whether a step's tensor goes as factors: a matrix, (first dimension) x (the rest), whose factors
// have less than half its values, in a step behind the warm-up. `step` counts from 0. Everything
// else is exchanged exactly, without residual. `dimensions` as the tensor has them, 1 and 0
// included.
bool UsesFactors(const replica::PowerSgdOptions& options, std::span<const std::size_t> dimensions,
                 std::uint64_t step);
// The matrix that a tensor of two or more dimensions is taken as.
compression::MatrixShape MatrixOf(std::span<const std::size_t> dimensions);

// Names a tensor's random numbers, the same on every member.
struct FactorKey {
  std::uint64_t seed = 0;        // of the run
  std::uint32_t tensor = 0;      // number of the tensor in the stage
  std::uint32_t generation = 0;  // of the group
};

// A tensor's memory between steps: Q equal on all members, the residual each member's own. Keyed by
// (generation, tensor). When the group changes, every member calls AtGeneration. Q starts anew from
// the key, so nobody must be sent one. Members keep their residuals; a leaving member's residual is
// lost, and a newcomer has none.
struct PowerSgdState {
  compression::MatrixShape shape;
  std::uint32_t rank = 0;  // min(rank, rows, columns)
  std::uint32_t generation = 0;
  std::vector<float> q;         // columns x rank
  std::vector<float> residual;  // row-major; empty: zeros

  bool operator==(const PowerSgdState&) const = default;
};

PowerSgdState NewPowerSgdState(compression::MatrixShape shape, std::uint32_t rank,
                               const FactorKey& key);
// The state for the group of key.generation: unchanged if that is its own.
PowerSgdState AtGeneration(PowerSgdState state, const FactorKey& key);

// One tensor's way through a step.
class PowerSgdStep {
 public:
  // `gradient` row-major, finite and at most 2^96 in magnitude after the residual was added (else
  // an error). `step` numbers the replacements of directions that Q has lost. `spare`: memory for
  // the next residual, if it has its size; what is in it is lost.
  static Result<PowerSgdStep> Begin(std::span<const float> gradient, const PowerSgdState& state,
                                    const FactorKey& key, std::uint64_t step,
                                    std::vector<float> spare = {});
  // Of a member that has no gradient in this step but follows the group: its P and Q are zeros, its
  // residual stays as it is.
  static PowerSgdStep Listen(const PowerSgdState& state);

  // The member's P, rows x rank, to be averaged.
  std::span<const float> p() const { return p_; }
  // Takes the mean P (rows x rank, finite: else an error) and returns the member's Q, columns x
  // rank, to be averaged.
  Result<std::vector<float>> Continue(std::span<const float> mean_p);
  // Takes the mean Q and writes the mean gradient, row-major; returns the state for the next step.
  Result<PowerSgdState> Finish(std::span<const float> mean_q, std::span<float> mean_gradient);

 private:
  PowerSgdStep() = default;

  PowerSgdState next_;  // residual: G until Continue
  bool listens_ = false;
  std::vector<float> p_;
};

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_POWER_SGD_H_
