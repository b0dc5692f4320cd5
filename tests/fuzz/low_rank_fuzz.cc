// Decodes damaged messages of lowrank. Input: a byte that chooses codec and shape, a byte that
// chooses the kind of damage, then bytes. These replace the message behind its header, or are
// spread over a valid message.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "compression/api/codec.h"
#include "compression/api/stateful_codec.h"

namespace {

using shoal::compression::GradientMessage;
using shoal::compression::LowRankState;
using shoal::compression::MakeCodec;
using shoal::compression::MessageCodec;
using shoal::compression::SampleShape;
using shoal::compression::SampleToDecode;

constexpr const char* kSpecs[] = {"lowrank:rank=1,lazy=on", "lowrank:rank=3,factors=fp32",
                                  "lowrank:rank=2,else=direct:bits=3"};
constexpr SampleShape kShapes[] = {{6, 20}, {5, 18}, {20, 33}};

std::vector<std::byte> Valid(const MessageCodec& codec, SampleShape shape, bool factors) {
  std::vector<float> values(shape.values());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * 2654435761U % 997) / 499 - 1;
  }
  const std::span<const float> view = values;
  GradientMessage message{{&view, 1}, shape, {}, {2, 1, 2, factors ? 1U : 0U}, {}};
  std::vector<std::byte> out(codec.EncodedBytesMax(shape, 1));
  LowRankState next;
  const auto bytes = codec.stateful()->EncodeOnLink(message, {}, out, &next, nullptr);
  if (!bytes.ok()) abort();
  out.resize(*bytes);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const SampleShape shape = kShapes[data[0] / 4 % std::size(kShapes)];
  const auto codec = MakeCodec(kSpecs[data[0] % std::size(kSpecs)], shape.hidden).value();
  const auto rest = std::as_bytes(std::span(data + 2, size - 2));
  std::vector<std::byte> message = Valid(*codec, shape, (data[0] & 0x40) != 0);
  if (data[0] & 0x80) {
    // A header that may be right, and a foreign body; the low bits say how much of the header.
    message.resize(std::min<std::size_t>(message.size(), data[1] % 32));
    message.insert(message.end(), rest.begin(), rest.end());
  } else {
    for (std::size_t i = 0; i < rest.size(); ++i) {
      message[(std::size_t{data[1]} + i * i * 7) % message.size()] ^= rest[i];
    }
  }
  std::vector<float> values(shape.values());
  const SampleToDecode sample{values, false, {}};
  if (!codec->Decode(message, {&sample, 1}, shape, {}, {}).ok()) return 0;
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) abort();
  return 0;
}
