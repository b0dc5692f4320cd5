#include "model/token_sampling.h"

#include <Random123/philox.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace shoal::model {
namespace {

double UniformAt(std::uint64_t seed, std::uint64_t position) {
  const r123::Philox4x32::ctr_type random = r123::Philox4x32()(
      {{static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0}},
      {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}});
  return (random[0] + 0.5) * 0x1p-32;
}

}  // namespace

std::int32_t SampleToken(std::span<const float> logits, double temperature, std::uint32_t top_k,
                         std::uint64_t seed, std::uint64_t position) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return static_cast<std::int32_t>(largest - logits.begin());
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  if (top_k > 0 && top_k < ids.size()) {
    // Equal logits in order of id, so that the choice is reproducible.
    std::partial_sort(ids.begin(), ids.begin() + top_k, ids.end(),
                      [&](std::int32_t a, std::int32_t b) {
                        return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
                      });
    ids.resize(top_k);
  }
  std::vector<double> weights;
  double total = 0;
  for (std::int32_t id : ids) {
    total += std::exp((static_cast<double>(logit(id)) - *largest) / temperature);
    weights.push_back(total);
  }
  const double point = UniformAt(seed, position) * total;
  const auto found = std::upper_bound(weights.begin(), weights.end(), point);
  const auto index = std::min<std::ptrdiff_t>(found - weights.begin(),
                                              static_cast<std::ptrdiff_t>(ids.size()) - 1);
  return ids[static_cast<std::size_t>(index)];
}

}  // namespace shoal::model
