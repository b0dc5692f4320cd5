// Decodes damaged dithered sections. Input: a byte for the shape, a byte that says how much of a
// valid section is kept, then bytes. These replace the rest of the section, or are added to it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "compression/codecs/dithered/dithered_codec.h"

namespace {

using shoal::compression::DitheredCodec;
using shoal::compression::DitherGoal;
using shoal::compression::RandomKey;
using shoal::compression::SampleShape;

constexpr RandomKey kKey{1, 2, 3, 4, 1};

// A section of values that have several classes and escapes.
std::vector<std::byte> Valid(SampleShape shape) {
  std::vector<float> values(shape.values());
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    state = state * 1664525U + 1013904223U;
    const auto noise = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
    values[i] = noise * (i / shape.hidden % 3 == 0 ? 9.0F : 1.0F) * (i % 97 == 5 ? 100.0F : 1.0F) *
                (i % shape.hidden % 4 == 1 ? 3.0F : 1.0F);
  }
  const auto codec = std::make_shared<DitheredCodec>(DitherGoal::kStep, 0.5);
  std::vector<std::byte> out(codec->EncodedBytesMax(shape, 1));
  const std::span<const float> view = values;
  const auto bytes = codec->Encode({&view, 1}, shape, kKey, out, {});
  if (!bytes.ok()) abort();
  out.resize(*bytes);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  // The last two have tokens enough for offsets of channels, the last is large enough for lanes.
  static constexpr SampleShape kShapes[] = {{1, 1}, {3, 20}, {90, 13}, {70, 240}};
  const SampleShape shape = kShapes[data[0] % std::size(kShapes)];
  static const std::vector<std::byte> kValid[] = {Valid(kShapes[0]), Valid(kShapes[1]),
                                                  Valid(kShapes[2]), Valid(kShapes[3])};
  const auto& valid = kValid[data[0] % std::size(kShapes)];
  const auto rest = std::as_bytes(std::span(data + 2, size - 2));

  std::vector<std::byte> section = valid;
  if (data[0] & 0x80) {
    const std::size_t keep = std::min<std::size_t>(16 + data[1], valid.size());
    section.assign(valid.begin(), valid.begin() + static_cast<std::ptrdiff_t>(keep));
    section.insert(section.end(), rest.begin(), rest.end());
  } else {
    // Bytes spread over the section behind the header.
    for (std::size_t i = 0; i < rest.size(); ++i) {
      const std::size_t at = 16 + (std::size_t{data[1]} + i * i * 7) % (section.size() - 16);
      section[at] ^= rest[i];
    }
  }
  std::vector<float> values(shape.values());
  const std::span<float> target = values;
  const auto codec = std::make_shared<DitheredCodec>(DitherGoal::kStep, 1.0);
  if (!codec->Decode(section, shape, kKey, {&target, 1}).ok()) return 0;
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) abort();
  return 0;
}
