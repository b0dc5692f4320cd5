// Payloads and m images from foreign hands, decoded by the CPU codec and by a device codec whose
// lanes run on the host. Both refuse, or both give the same bits. Input: a byte each for the codec,
// the shape and the samples; then m and payload, which are xored into what Encode makes of a few
// values.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "compression/device/device_codec.h"
#include "tests/unit/compression/device/host_queue.h"

namespace {

using namespace shoal::compression;  // NOLINT: a fuzzer of this folder
using shoal::Buffer;

// That of a run's defaults.
constexpr const char* kForward =
    "aqsgd:delta=dithered:step=0.55/klt=64/channels=on,"
    "first_visit=dithered:step=0.1/klt=64/channels=on";
constexpr const char* kSpecs[] = {"raw:dtype=fp32",
                                  "raw:dtype=fp16",
                                  "raw:dtype=bf16",
                                  "direct:bits=4,bucket=8",
                                  "direct:bits=3,bucket=12",
                                  "direct:bits=5,bucket=6,levels=midtread",
                                  "direct:bits=8,bucket=24,levels=affine",
                                  "direct+rans:bits=3,bucket=24",
                                  "aqsgd:bits=2,bucket=24",
                                  "aqsgd:bits=7,bucket=4",
                                  "aqsgd:bits=4,bucket=3,levels=affine,first_visit=raw:dtype=bf16",
                                  "aqsgd:bits=6,bucket=2,first_visit=direct:bits=3",
                                  "aqsgd:bits=2,bucket=24,m=8",
                                  "aqsgd:bits=3,bucket=4,m=4,first_visit=direct:bits=4",
                                  "aqsgd:bits=2,bucket=6,m=2",
                                  "aqsgd:delta=raw:dtype=fp16",
                                  "aqsgd:delta=raw:dtype=fp32,m=4",
                                  "aqsgd:delta=direct+rans:bits=3",
                                  "direct:bits=3,bucket=channel",
                                  "direct+rans:bits=5,bucket=channel,levels=affine",
                                  "direct:bits=4,bucket=channel,levels=authors",
                                  "dithered:step=0.0625",
                                  "dithered:step=1",
                                  "dithered:rate=2",
                                  "aqsgd:delta=dithered:step=0.5,first_visit=dithered:error=0.1",
                                  "dithered:step=0.4,klt=64,channels=on",
                                  "aqsgd:delta=dithered:step=0.36/channels=on/of=values",
                                  "dithered:step=1,klt=4",
                                  "dithered:step=1,channels=on,dither=off",
                                  kForward,
                                  "direct:bits=3,bucket=4,channels=on",
                                  "aqsgd+rans:bits=3,bucket=4,channels=on",
                                  "tiles:bits=3",
                                  "tiles:bits=5,tile=2,levels=midtread",
                                  "tiles+rans:bits=4,tile=4",
                                  "tiles:bits=4,adaptive=on",
                                  "topk:ratio=0.3,bits=3",
                                  "topk:ratio=0.05,bits=8,bucket=2",
                                  "topk+rans:ratio=0.5,bits=2",
                                  "aqsgd:bits=2,first_visit=tiles:bits=3",
                                  "aqsgd:delta=topk:ratio=0.2/bits=5"};
constexpr SampleShape kShapes[] = {{1, 24}, {3, 24}, {2, 48}, {5, 12}, {60, 24}};

struct Input {
  std::vector<SampleToDecode> samples;
  std::vector<DeviceSampleToDecode> device;
  std::vector<std::vector<float>> values, device_values;
  std::vector<Buffer> m;
};

// Bytes behind the first `head` are changed by foreign ones.
void Overlay(std::span<const std::byte> foreign, std::size_t head, std::span<std::byte> to) {
  for (std::size_t i = 0; i < foreign.size() && head + i < to.size(); ++i) {
    to[head + i] ^= foreign[i];
  }
}

// A message of a few values, loud and quiet ones, and, for codecs with m, its images.
std::vector<std::byte> OfSomeValues(const MessageCodec& codec, SampleShape shape,
                                    std::span<const SampleToDecode> given, std::span<Buffer> next) {
  std::vector<float> values(shape.values());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * 5 % 7) - 3;
    if (i % 17 == 3) values[i] *= 30;
  }
  std::vector<SampleToEncode> samples;
  for (const SampleToDecode& sample : given) samples.push_back({values, sample.m});
  std::vector<std::byte> out(codec.EncodedBytesMax(shape, samples.size()));
  const auto bytes = codec.Encode(samples, shape, {}, DeltaMode::kDelta, out, next, nullptr);
  out.resize(bytes.ok() ? *bytes : 0);
  return out;
}

void MakeSamples(const MessageCodec& codec, SampleShape shape, std::uint8_t choice,
                 std::span<const std::byte> foreign_m, Input* input) {
  const std::size_t count = 1 + choice % 3;
  input->samples.resize(count);
  input->device.resize(count);
  input->m.resize(count);
  input->values.assign(count, std::vector<float>(shape.values()));
  input->device_values = input->values;
  for (std::size_t i = 0; i < count; ++i) {
    if ((choice >> (2 + i) & 1) == 0) {
      input->samples[i].values = input->values[i];
      input->device[i].values = input->device_values[i].data();
    }
    if (!codec.keeps_m() || (choice >> (5 + i) & 1) == 0) continue;
    const SampleToDecode first;
    OfSomeValues(codec, shape, {&first, 1}, {&input->m[i], 1});
    Overlay(foreign_m, choice % 5 == 0 ? 1 : 16, input->m[i].bytes());
    input->samples[i].delta = input->device[i].delta = true;
    input->samples[i].m = input->m[i].bytes();
    input->device[i].m = input->m[i].data();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const char* spec = kSpecs[data[0] % std::size(kSpecs)];
  const SampleShape shape = kShapes[data[1] % std::size(kShapes)];
  const auto made = MakeCodec(spec, shape.hidden);
  auto device = NewDeviceCodec(spec, shape.hidden, std::make_unique<HostQueue>());
  if (made.ok() != device.ok()) abort();
  if (!made.ok()) return 0;  // the bucket does not divide this hidden size
  const MessageCodec& codec = **made;
  const auto rest = std::as_bytes(std::span(data + 3, size - 3));
  const auto foreign_m = rest.first(codec.keeps_m() ? rest.size() / 2 : 0);
  Input input;
  MakeSamples(codec, shape, data[2], foreign_m, &input);
  const std::size_t count = input.samples.size();
  std::vector<Buffer> next(count);
  std::vector<std::byte> payload = OfSomeValues(codec, shape, input.samples, next);
  const std::size_t head = codec.keeps_m() ? 32 : codec.spec().starts_with("topk") ? 24 : 16;
  Overlay(rest.subspan(foreign_m.size()), data[1] / 4 % 4 == 0 ? 0 : head, payload);

  next.clear();
  next.resize(count);
  std::vector<Buffer> images;
  std::vector<std::byte*> places;
  for (std::size_t i = 0; i < count; ++i) {
    places.push_back(images.emplace_back(codec.MImageBytes(shape)).data());
  }
  const bool ok =
      codec.Decode(payload, input.samples, shape, {}, std::span(next).first(count)).ok();
  const bool device_ok = (*device)->Decode(payload, input.device, shape, {}, places, nullptr).ok();
  if (ok != device_ok) abort();
  if (!ok) return 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (input.samples[i].values.empty()) continue;
    const std::size_t bytes = input.values[i].size() * sizeof(float);
    if (std::memcmp(input.values[i].data(), input.device_values[i].data(), bytes) != 0) abort();
    if (!std::ranges::equal(next[i].bytes(), images[i].bytes())) abort();
  }
  return 0;
}
