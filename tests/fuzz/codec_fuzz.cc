// Codec specs, payloads and m images from foreign hands. Input: a byte that chooses the codec, one
// for the shape, one for the samples (how many, which are changes, which are wanted), one for where
// m comes from. Then come m and payload. What Encode makes of zeros is put in front of two thirds
// of the payloads, so that the bodies are reached too.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "compression/api/codec.h"

namespace {

using shoal::Buffer;
using shoal::compression::DeltaMode;
using shoal::compression::MakeCodec;
using shoal::compression::MessageCodec;
using shoal::compression::SampleShape;
using shoal::compression::SampleToDecode;
using shoal::compression::SampleToEncode;

constexpr const char* kSpecs[] = {
    "raw:dtype=fp32",
    "raw:dtype=fp16",
    "raw:dtype=bf16",
    "direct:bits=1",
    "direct:bits=2",
    "direct:bits=5,levels=midtread",
    "direct:bits=8",
    "direct:bits=4,levels=affine",
    "direct:bits=3,bucket=channel",
    "direct:bits=3,bucket=channel,levels=authors",
    "direct+zstd:bits=3",
    "direct+rans:bits=3",
    "aqsgd:bits=2",
    "aqsgd:bits=7,bucket=3",
    "aqsgd:bits=3,m=8",
    "aqsgd+rans:bits=2,m=4",
    "aqsgd:bits=2,m=2,bucket=channel",
    "aqsgd:bits=4,first_visit=direct:bits=3",
    "aqsgd:delta=dithered:step=1,first_visit=tiles:bits=4",
    "tiles:bits=4",
    "tiles+rans:bits=3,levels=midtread",
    "aqsgd:bits=2,first_visit=tiles:bits=5",
    "tiles:bits=4,adaptive=on",
    "tiles:bits=2,levels=midrise,adaptive=on",
    "topk:ratio=0.3,bits=4,bucket=4",
    "topk+rans:ratio=0.05,bits=8",
    "aqsgd:delta=topk:ratio=0.2/bits=8,first_visit=topk:ratio=0.5/bits=3",
    "dithered:step=1",
    "dithered:step=1,channels=on",
    "direct:bits=3,channels=on",
    "direct+zstd:bits=4,step=0.7",
    "aqsgd+zstd:bits=4,step=0.7,channels=on",
    "aqsgd:bits=2,channels=on,first_visit=direct:bits=6/channels=on",
    "dithered:step=1,channels=on,dither=off",
    "topk:ratio=0.3,bits=4,feedback=on",
    "tiles:bits=2,feedback=on",
    "lowrank:rank=1,else=direct:bits=3",
    "shifted:bits=4",
    "shifted+rans:bits=8,bucket=3",
    "learned:bits=3",
    "cocktail:stride=3,ratio=0.4,bits=4,bucket=4",
    "learned+rans:bits=2,bucket=3,levels=080050009000f000",
    "aqsgd:delta=lowrank:rank=2",
    "aqsgd:delta=lowrank:energy=0.9/factors=8/channels=on",
    "dithered:step=1,klt=3",  // klt_fuzz reaches what is behind its reflectors
    "aqsgd:delta=dithered:step=1/klt=2/channels=on,first_visit=dithered:error=0.1/klt=5",
    "aqsgd:delta=dithered:step=1/channels=on/of=values,first_visit=dithered:step=1"};

// A canonical spec must be accepted again and name itself.
void FuzzSpec(std::string_view text) {
  const auto codec = MakeCodec(text, 48);
  if (!codec.ok()) return;
  const auto again = MakeCodec((*codec)->spec(), 48);
  if (!again.ok() || (*again)->spec() != (*codec)->spec()) abort();
}

// What Encode makes of zeros, to borrow its head and length from.
std::vector<std::byte> Valid(const MessageCodec& codec, SampleShape shape,
                             std::span<const SampleToDecode> samples, DeltaMode mode) {
  const std::vector<float> zeros(shape.values());
  std::vector<SampleToEncode> in;
  for (const SampleToDecode& sample : samples) {
    in.push_back({zeros, sample.delta ? sample.m : std::span<const std::byte>()});
  }
  std::vector<std::byte> out(codec.EncodedBytesMax(shape, in.size()));
  std::vector<Buffer> next(in.size());
  const auto bytes = codec.Encode(in, shape, {}, mode, out, next, nullptr);
  out.resize(bytes.ok() ? *bytes : 0);
  return out;
}

// An image of the right size and head with foreign values; for some choices all of it is foreign.
Buffer MImage(const MessageCodec& codec, SampleShape shape, std::span<const std::byte> foreign,
              std::uint8_t choice) {
  const std::vector<float> zeros(shape.values());
  const SampleToEncode first{zeros, {}};
  std::vector<std::byte> out(codec.EncodedBytesMax(shape, 1));
  Buffer image;
  if (!codec.Encode({&first, 1}, shape, {}, DeltaMode::kDelta, out, {&image, 1}, nullptr).ok()) {
    abort();
  }
  const std::size_t from = choice % 8 == 0 ? 0 : choice % 8 == 1 ? 1 : 16;
  if (from < image.size()) {
    std::memcpy(image.data() + from, foreign.data(), std::min(foreign.size(), image.size() - from));
  }
  return image;
}

void CheckDecoded(const MessageCodec& codec, SampleShape shape,
                  std::span<const SampleToDecode> samples, std::span<const Buffer> next) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto& values = samples[i].values;
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
      abort();
    }
    if (!codec.keeps_m() || values.empty()) continue;
    if (!codec.CheckMImage(next[i].bytes(), shape).ok()) abort();
  }
}

// A residual from a damaged store is refused, or added and replaced by a valid one.
void EncodeOnResidual(const MessageCodec& codec, SampleShape shape,
                      std::span<const std::byte> foreign, std::uint8_t choice) {
  if (!codec.keeps_residual()) return;
  const Buffer image = MImage(codec, shape, foreign, choice);
  const std::vector<float> ones(shape.values(), 1.0F);
  const SampleToEncode sample{ones, image.bytes()};
  std::vector<std::byte> out(codec.EncodedBytesMax(shape, 1));
  Buffer next;
  const auto bytes =
      codec.Encode({&sample, 1}, shape, {}, DeltaMode::kDelta, out, {&next, 1}, nullptr);
  if (bytes.ok() && !codec.CheckMImage(next.bytes(), shape).ok()) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzSpec({reinterpret_cast<const char*>(data), size});
  if (size < 4) return 0;
  const std::string_view spec = kSpecs[data[0] % std::size(kSpecs)];
  SampleShape shape{1U + data[1] % 5U, 3U * (1U + data[1] / 8U % 9U)};
  if (spec.find("adaptive") != std::string_view::npos) shape.hidden *= 8;  // tiles of 8 or more
  const auto made = MakeCodec(spec, shape.hidden);
  if (!made.ok()) abort();
  const MessageCodec& codec = **made;
  const auto rest = std::as_bytes(std::span(data + 4, size - 4));
  EncodeOnResidual(codec, shape, rest, data[3]);
  const auto foreign_m = rest.first(codec.keeps_m() ? rest.size() / 2 : 0);

  std::vector<SampleToDecode> samples(1 + data[2] % 3);
  std::vector<std::vector<float>> values(samples.size(), std::vector<float>(shape.values()));
  std::vector<Buffer> m(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if ((data[2] >> (2 + i) & 1) == 0 || i == 0) samples[i].values = values[i];
    samples[i].delta = codec.keeps_m() && (data[2] >> (5 + i) & 1) != 0;
    if (!samples[i].delta) continue;
    m[i] = MImage(codec, shape, foreign_m, data[3]);
    samples[i].m = m[i].bytes();
  }
  Buffer payload = Buffer::CopyOf(rest.subspan(foreign_m.size()));
  if (data[0] % 3 != 0 && !payload.empty()) {
    const auto valid = Valid(codec, shape, samples, static_cast<DeltaMode>(data[3] / 8 % 2));
    if (!valid.empty()) {
      Buffer mixed = Buffer::CopyOf(valid);
      const std::size_t head = std::min<std::size_t>(codec.keeps_m() ? 32 : 16, mixed.size());
      std::memcpy(mixed.data() + head, payload.data(),
                  std::min(payload.size(), mixed.size() - head));
      payload = std::move(mixed);
    }
  }
  std::vector<Buffer> next(codec.keeps_m() ? samples.size() : 0);
  if (!codec.Decode(payload.bytes(), samples, shape, {}, next).ok()) return 0;
  CheckDecoded(codec, shape, samples, next);
  return 0;
}
