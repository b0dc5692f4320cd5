#include "optimizer/nesterov.h"

#include <cstddef>

#include "common/status.h"

namespace shoal::optimizer {

void NesterovUpdate(float rate, float momentum, std::span<const float> gradient,
                    std::span<float> value, std::span<float> u) {
  SHOAL_CHECK(gradient.size() == value.size() && u.size() == value.size());
  const float* __restrict__ gradients = gradient.data();
  float* __restrict__ values = value.data();
  float* __restrict__ momenta = u.data();
  const std::size_t count = value.size();
  for (std::size_t i = 0; i < count; ++i) {
    const float g = gradients[i];
    momenta[i] = momentum * momenta[i] + g;
    values[i] -= rate * (g + momentum * momenta[i]);
  }
}

}  // namespace shoal::optimizer
