#include "model/families/fresh_weights.h"

#include <Random123/philox.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/checksum.h"

namespace shoal::model {
namespace {

double Uniform(std::uint32_t random) { return (random + 0.5) * 0x1p-32; }

r123::Philox4x32::ctr_type RandomBlock(std::uint64_t seed, std::uint64_t stream,
                                       std::uint64_t block) {
  const r123::Philox4x32::key_type key = {
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  return r123::Philox4x32()(
      {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
        static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}},
      key);
}

std::uint64_t StreamOf(std::string_view name) {
  return Checksum64(std::as_bytes(std::span(name.data(), name.size())));
}

void FillUniform(std::uint64_t seed, std::string_view name, double reach, std::span<float> values) {
  const std::uint64_t stream = StreamOf(name);
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const auto random = RandomBlock(seed, stream, i / 4);
    for (std::size_t j = 0; j < 4 && i + j < values.size(); ++j) {
      values[i + j] = static_cast<float>(reach * (2 * Uniform(random[j]) - 1));
    }
  }
}

// Normal values by Box and Muller (1958), two from two uniforms.
void FillNormal(std::uint64_t seed, std::string_view name, double deviation,
                std::span<float> values) {
  const std::uint64_t stream = StreamOf(name);
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const auto random = RandomBlock(seed, stream, i / 4);
    for (std::size_t j = 0; j < 4 && i + j < values.size(); ++j) {
      const std::size_t pair = j / 2 * 2;
      const double radius = std::sqrt(-2 * std::log(Uniform(random[pair])));
      const double angle = 2 * std::numbers::pi * Uniform(random[pair + 1]);
      const double normal = radius * (j % 2 == 0 ? std::cos(angle) : std::sin(angle));
      values[i + j] = static_cast<float>(deviation * normal);
    }
  }
}

}  // namespace

void InitTensor(const TensorSpec& tensor, std::string_view name, std::uint64_t seed,
                std::span<float> values) {
  if (tensor.reach > 0) return FillUniform(seed, name, tensor.reach, values);
  if (tensor.deviation == 0) {
    std::ranges::fill(values, tensor.mean);
    return;
  }
  FillNormal(seed, name, tensor.deviation, values);
}

}  // namespace shoal::model
