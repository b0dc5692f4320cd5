#include "model/blocks/dropout.h"

#include <Random123/philox.h>

#include <algorithm>
#include <cstddef>

namespace shoal::model {

void FillDropoutMask(const DropoutKey& key, double probability, std::uint64_t first,
                     std::span<std::uint8_t> keep) {
  const auto threshold =
      static_cast<std::uint32_t>(std::clamp(probability * 4294967296.0, 0.0, 4294967295.0));
  const r123::Philox4x32::key_type philox_key = {
      {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)}};
  r123::Philox4x32::ctr_type counter = {{static_cast<std::uint32_t>(key.sample.value),
                                         static_cast<std::uint32_t>(key.sample.value >> 32),
                                         key.layer << 8 | static_cast<std::uint32_t>(key.site), 0}};
  r123::Philox4x32 philox;
  std::size_t lane = first % 4;
  for (std::size_t i = 0; i < keep.size(); lane = 0) {
    counter[3] = static_cast<std::uint32_t>((first + i) / 4);
    const r123::Philox4x32::ctr_type random = philox(counter, philox_key);
    for (; lane < 4 && i < keep.size(); ++lane, ++i) keep[i] = random[lane] >= threshold ? 1 : 0;
  }
}

}  // namespace shoal::model
