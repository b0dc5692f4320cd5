// Decodes damaged sections of turned values. Input: a byte for the shape, a byte that says how much
// of a valid section is kept, then bytes. These replace the rest of the section, or are spread over
// it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "compression/codecs/dithered/klt_codec.h"

namespace {

using shoal::compression::DitheredCodec;
using shoal::compression::DitherGoal;
using shoal::compression::KltCodec;
using shoal::compression::RandomKey;
using shoal::compression::SampleShape;

constexpr RandomKey kKey{1, 2, 3, 4, 0};
constexpr std::size_t kSamples = 3;
// The first has no reflectors, the others one and several.
constexpr SampleShape kShapes[] = {{4, 6}, {90, 20}, {150, 33}};

KltCodec NewCodec() { return {std::make_shared<const DitheredCodec>(DitherGoal::kStep, 0.3), 12}; }

// Of values with a few directions, noise and a loud token.
std::vector<std::byte> Valid(SampleShape shape) {
  std::vector<std::vector<float>> samples(kSamples, std::vector<float>(shape.values()));
  std::uint32_t state = 1;
  const auto noise = [&] {
    state = state * 1664525U + 1013904223U;
    return static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
  };
  for (auto& sample : samples) {
    for (std::size_t t = 0; t < shape.tokens; ++t) {
      const float along[] = {9 * noise(), 5 * noise(), 3 * noise()};
      const float factor = t == 2 ? 300.0F : 1.0F;
      for (std::size_t h = 0; h < shape.hidden; ++h) {
        const auto wave = static_cast<float>(h % 7) - 3;
        const float turned[] = {wave, h % 2 == 0 ? 2.0F : -2.0F, static_cast<float>(h % 3) - 1};
        float value = 0.1F * noise();
        for (int k = 0; k < 3; ++k) value += along[k] * turned[k];
        sample[t * shape.hidden + h] = factor * value;
      }
    }
  }
  const KltCodec codec = NewCodec();
  std::vector<std::byte> out(codec.EncodedBytesMax(shape, kSamples));
  const std::vector<std::span<const float>> views(samples.begin(), samples.end());
  const auto bytes = codec.Encode(views, shape, kKey, out, {});
  if (!bytes.ok()) abort();
  out.resize(*bytes);
  // The shapes are what their comment says.
  const bool turned = out[16] != std::byte{0} || out[17] != std::byte{0};
  if (turned != (shape.tokens > 4)) abort();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t which = data[0] % std::size(kShapes);
  static const auto kValid = [] {
    std::vector<std::vector<std::byte>> valid;
    for (const SampleShape shape : kShapes) valid.push_back(Valid(shape));
    return valid;
  }();
  std::vector<std::byte> section = kValid[which];
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
  if (!NewCodec().Decode(section, shape, kKey, targets).ok()) return 0;
  for (const auto& sample : targets) {
    if (!std::all_of(sample.begin(), sample.end(), [](float v) { return std::isfinite(v); })) {
      abort();
    }
  }
  return 0;
}
