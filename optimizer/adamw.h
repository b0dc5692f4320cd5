// AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019) on flat spans.
//
// State kept per value: exp_avg and exp_avg_sq. Every operation is one correctly rounded fp32
// addition, multiplication, division or root. So two copies of a tensor (the tied embedding on the
// first and the last stage) stay bitwise equal, at any alignment and with any number of threads.
// Pure; thread: any.

#ifndef SHOAL_OPTIMIZER_ADAMW_H_
#define SHOAL_OPTIMIZER_ADAMW_H_

#include <cstdint>
#include <span>

namespace shoal::optimizer {

// The constants of one step in fp32, as the update uses them.
struct AdamWStep {
  float gradient_factor = 1;  // token mean and clipping in one
  float decay = 1;            // 1 - learning rate * weight decay; 1 where excluded
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float inverse_root_correction2 = 1;  // 1 / sqrt(1 - beta2^(step+1))
  float epsilon = 0;
  float step_size = 0;  // learning rate / (1 - beta1^(step+1))
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double learning_rate = 0;
  double gradient_factor = 1;
  std::uint64_t step = 0;  // from 0
};

AdamWStep MakeAdamWStep(const AdamWOptions& options);

// One update; all spans have the same length.
//   g = gradient * factor;  m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2
//   value = decay * value - step_size * (m / (sqrt(v) * inverse_root_correction2 + epsilon))
void AdamWUpdate(const AdamWStep& step, std::span<const float> gradient, std::span<float> value,
                 std::span<float> exp_avg, std::span<float> exp_avg_sq);

// Momentum with a frozen variance (1-bit Adam: Tang et al., ICML 2021; the gradient part of
// AQ-SGD).
//
// Which of a run's steps update the variance, as a function of the step alone: the first `start`
// steps. With `refresh` single later steps do, too, at intervals that begin with one step and
// double after every 16 (0/1 Adam: Lu et al., ICLR 2023).
struct VarianceSchedule {
  std::uint64_t start = 0;
  bool refresh = false;
};
bool UpdatesVariance(const VarianceSchedule& schedule, std::uint64_t step);
// How many steps up to and with `step` updated it: what its bias correction counts. Counting all
// steps instead would let steps grow by sqrt((1 - beta2^t) / (1 - beta2^start)) while v is frozen.
std::uint64_t VarianceUpdates(const VarianceSchedule& schedule, std::uint64_t step);

// As MakeAdamWStep, for a variance that was updated `updates` times, at least once.
AdamWStep MakeFrozenStep(const AdamWOptions& options, std::uint64_t updates);

// m = beta1 m + (1-beta1) g factor; spans of one length.
void FoldMomentum(const AdamWStep& step, std::span<const float> gradient, std::span<float> exp_avg);
// agreed = beta1 m + factor (agreed - beta1 m): scales the part that a fold of gradients added.
void ScaleFold(const AdamWStep& step, float factor, std::span<const float> exp_avg,
               std::span<float> agreed);
// The parameters' half of AdamWUpdate, with m and v unchanged. The coding error of an agreed m
// makes two bounds necessary. A value whose v is 0 (a row that no gradient has touched) only
// decays. And |m / sqrt(v)| is at most max(1, (1-beta1) / sqrt(1-beta2)), the bound of Adam itself
// (Kingma and Ba, ICLR 2015, section 2.1).
void FrozenUpdate(const AdamWStep& step, std::span<const float> exp_avg,
                  std::span<const float> exp_avg_sq, std::span<float> value);
// The direction of FrozenUpdate, without the learning rate: m / (sqrt(v) * inverse_root_correction2
// + epsilon). The bounds are the same, but the second one is `times` as large, for an m that counts
// 1 / times in an average.
void AdamDirection(const AdamWStep& step, std::span<const float> exp_avg,
                   std::span<const float> exp_avg_sq, std::span<float> direction, float times = 1);

// min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; 1 when clip is 0.
double ClipFactor(double clip_norm, double global_norm);

// Sum of squares in fp64, in an order that depends on the length only.
double SumOfSquares(std::span<const float> values);

}  // namespace shoal::optimizer

#endif  // SHOAL_OPTIMIZER_ADAMW_H_
