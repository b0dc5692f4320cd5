#include "compression/api/message_noise.h"

#include <Random123/philox.h>

#include <algorithm>

namespace shoal::compression {
namespace {

r123::Philox4x32::ctr_type Block(std::array<std::uint32_t, 2> key, std::uint32_t a, std::uint32_t b,
                                 std::uint32_t c, std::uint32_t d) {
  return r123::Philox4x32()({{a, b, c, d}}, {{key[0], key[1]}});
}

}  // namespace

std::array<std::uint32_t, 2> MessageKeyWords(const RandomKey& key) {
  const auto words =
      Block({static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)},
            static_cast<std::uint32_t>(key.step), static_cast<std::uint32_t>(key.step >> 32),
            key.micro_batch, key.boundary * 2 + key.direction);
  return {words[0], words[1]};
}

void FillUniform(const RandomKey& key, std::uint32_t stream, std::uint64_t first,
                 std::span<float> out) {
  const auto words = MessageKeyWords(key);
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t index = first + done;
    const auto random = Block(words, static_cast<std::uint32_t>(index / 4),
                              static_cast<std::uint32_t>(index / 4 >> 32), stream, 0);
    for (std::size_t j = index % 4; j < 4 && done < out.size(); ++j, ++done) {
      out[done] = static_cast<float>(random[j] >> 8) * 0x1p-24F;
    }
  }
}

}  // namespace shoal::compression
