// Whether what a message left out is added to the next micro-batch's gradient, decided by how alike
// consecutive activations are.
//
// A coding error e of the gradient at micro-batch i spoils the weight gradient by e Y_i; added to
// the next micro-batch it spoils it by e (Y_i - Y_(i+1)) (Optimus-CC, section 5.1, equation 12).
// With activations of one norm and correlation rho, mean included, that is smaller by
// sqrt(2 (1 - rho)), so it helps above rho = 1/2 and hurts below. rho is estimated from blocks at
// fixed places and smoothed over micro-batches. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_API_LAZY_SWITCH_H_
#define SHOAL_COMPRESSION_API_LAZY_SWITCH_H_

#include <cstdint>
#include <span>
#include <vector>

namespace shoal::compression {

inline constexpr double kLazyOnAbove = 0.5;
inline constexpr double kLazyOffBelow = 0.4;
// Share of the newest correlation in the smoothed one, after the first few.
inline constexpr double kCorrelationShare = 0.125;

struct LazySwitch {
  std::vector<float> previous;  // sample of the last micro-batch's activations; empty: none yet
  double correlation = 0;       // smoothed, -1 to 1
  std::uint64_t seen = 0;       // correlations in it
  bool on = false;

  bool operator==(const LazySwitch&) const = default;
};

// What is looked at of a micro-batch's activations (its samples, row-major, one after the other):
// up to 256 blocks of 64 values, all of them where there are no more. Places follow from the number
// of values alone.
std::vector<float> SampleActivations(std::span<const std::span<const float>> samples);

// The switch behind a micro-batch with this sample. Without a sample, with one of another size
// than the last or with values that are not finite nothing is learnt of the correlation.
LazySwitch Observed(const LazySwitch& before, std::span<const float> sample);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_LAZY_SWITCH_H_
