// Decodes damaged sections of low-rank changes. Input: a byte for shape and codec, a byte that says
// how much of a valid section is kept, then bytes. These replace the rest of the section, or are
// spread over it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "compression/codecs/low_rank/low_rank_changes.h"

namespace {

using shoal::compression::LowRankChangeOptions;
using shoal::compression::LowRankChanges;
using shoal::compression::RandomKey;
using shoal::compression::SampleShape;

constexpr RandomKey kKey{1, 2, 3, 4, 0};
constexpr std::size_t kSamples = 3;
// The last one has codes enough for several tables.
constexpr SampleShape kShapes[] = {{1, 1}, {3, 20}, {40, 13}, {70, 120}};
constexpr LowRankChangeOptions kOptions[] = {{.rank = 4}, {.rank = 9, .bits = 8}};

// Of changes with loud tokens and small samples.
std::vector<std::byte> Valid(SampleShape shape, const LowRankChangeOptions& options) {
  std::vector<std::vector<float>> samples(kSamples, std::vector<float>(shape.values()));
  std::uint32_t state = 1;
  for (std::size_t s = 0; s < kSamples; ++s) {
    for (std::size_t i = 0; i < shape.values(); ++i) {
      state = state * 1664525U + 1013904223U;
      const auto noise = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
      const std::size_t token = i / shape.hidden;
      samples[s][i] = (noise + static_cast<float>(i % 7 * (token % 5))) *
                      (token == 2 ? 900.0F : 1.0F) * (s == 1 ? 1e-3F : 1.0F);
    }
  }
  const LowRankChanges codec(options);
  std::vector<std::byte> out(codec.EncodedBytesMax(shape, kSamples));
  const std::vector<std::span<const float>> views(samples.begin(), samples.end());
  const auto bytes = codec.Encode(views, shape, kKey, out, {});
  if (!bytes.ok()) abort();
  out.resize(*bytes);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t which = data[0] % std::size(kShapes);
  const std::size_t option = data[0] / std::size(kShapes) % std::size(kOptions);
  static const auto kValid = [] {
    std::vector<std::vector<std::byte>> valid;
    for (const auto& options : kOptions) {
      for (const SampleShape shape : kShapes) valid.push_back(Valid(shape, options));
    }
    return valid;
  }();
  std::vector<std::byte> section = kValid[option * std::size(kShapes) + which];
  const auto rest = std::as_bytes(std::span(data + 2, size - 2));
  if (data[0] & 0x80) {
    section.resize(std::min<std::size_t>(16 + data[1], section.size()));
    section.insert(section.end(), rest.begin(), rest.end());
  } else {
    for (std::size_t i = 0; i < rest.size(); ++i) {
      section[16 + (std::size_t{data[1]} + i * i * 7) % (section.size() - 16)] ^= rest[i];
    }
  }
  const SampleShape shape = kShapes[which];
  std::vector<std::vector<float>> values(kSamples, std::vector<float>(shape.values()));
  std::vector<std::span<float>> targets(values.begin(), values.end());
  targets[data[1] % kSamples] = {};  // one that nobody wants
  const LowRankChanges codec(kOptions[option]);
  if (!codec.Decode(section, shape, kKey, targets).ok()) return 0;
  for (const auto& sample : targets) {
    if (!std::all_of(sample.begin(), sample.end(), [](float v) { return std::isfinite(v); })) {
      abort();
    }
  }
  return 0;
}
