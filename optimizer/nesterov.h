// Gradient descent with heavy-ball momentum and Nesterov's look ahead, on flat spans: the outer
// step of local steps (DiLoCo: Douillard et al., 2023). Source: Nesterov 1983, in the form of
// Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML 2013.
//
// State kept per value: momentum. Each operation is one correctly rounded fp32 operation, in the
// order given, so that replicas stay equal to the bit. Pure; thread: any.

#ifndef SHOAL_OPTIMIZER_NESTEROV_H_
#define SHOAL_OPTIMIZER_NESTEROV_H_

#include <span>

namespace shoal::optimizer {

// All spans have the same length.
//   u = momentum * u + g;  value = value - rate * (g + momentum * u)
void NesterovUpdate(float rate, float momentum, std::span<const float> gradient,
                    std::span<float> value, std::span<float> u);

}  // namespace shoal::optimizer

#endif  // SHOAL_OPTIMIZER_NESTEROV_H_
