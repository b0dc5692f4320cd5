// Codec specs, sample payloads and m images from foreign hands. Input: a byte that chooses the
// codec, one for the shape, one for how much of the rest is m; then payload and m. A valid header
// is put in front of two thirds of the payloads, so that the bodies are reached too.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "compression/codec.h"
#include "tests/unit/compression/one_sample.h"

namespace {

using shoal::Buffer;
using shoal::compression::MakeCodec;
using shoal::compression::OneSample;
using shoal::compression::SampleShape;

constexpr const char* kSpecs[] = {"raw:dtype=fp32",
                                  "raw:dtype=fp16",
                                  "raw:dtype=bf16",
                                  "direct:bits=2",
                                  "direct:bits=5",
                                  "direct:bits=8",
                                  "aqsgd:bits=2",
                                  "aqsgd:bits=7,bucket=3",
                                  "aqsgd:bits=4,first_visit=direct:bits=3",
                                  "tiles:bits=4",
                                  "tiles+rans:bits=3,levels=midtread",
                                  "aqsgd:bits=2,first_visit=tiles:bits=5"};

// A canonical spec must be accepted again and name itself.
void FuzzSpec(std::string_view text) {
  const auto codec = MakeCodec(text, 48);
  if (!codec.ok()) return;
  const auto again = MakeCodec((*codec)->spec(), 48);
  if (!again.ok() || (*again)->spec() != (*codec)->spec()) abort();
}

// What Encode makes of zeros, to borrow its header and length from.
std::vector<std::byte> Valid(const OneSample& codec, SampleShape shape, const Buffer& m) {
  std::vector<std::byte> out(codec.EncodedBytesMax(shape));
  Buffer next;
  const auto bytes =
      codec.Encode(std::vector<float>(shape.values()), shape, m.bytes(), {}, out, &next);
  out.resize(bytes.ok() ? *bytes : 0);
  return out;
}

void CheckDecoded(std::span<const float> values) {
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzSpec({reinterpret_cast<const char*>(data), size});
  if (size < 3) return 0;
  const SampleShape shape{1U + data[1] % 5U, 3U * (1U + data[1] / 8U % 9U)};
  const OneSample codec(kSpecs[data[0] % std::size(kSpecs)], shape.hidden);
  const auto rest = std::as_bytes(std::span(data + 3, size - 3));
  const bool with_m = codec.keeps_m() && data[2] % 2 != 0;
  const std::size_t m_bytes = with_m ? rest.size() / 2 : 0;

  Buffer m = Buffer::CopyOf(rest.first(m_bytes));
  if (m_bytes != 0 && data[2] % 4 == 3) {
    // An image of the right size and header with foreign values.
    const std::size_t bytes = codec.codec().MImageBytes(shape);
    const auto head =
        std::uint64_t{2} | std::uint64_t{data[2]} % 128 << 8 | std::uint64_t{16} << 16;
    const std::uint64_t count = shape.values();
    m = Buffer(bytes);
    std::memset(m.data(), 0, bytes);
    std::memcpy(m.data(), &head, 8);
    std::memcpy(m.data() + 8, &count, 8);
    std::memcpy(m.data() + 16, rest.data(), std::min(m_bytes, bytes - 16));
  }
  Buffer payload = Buffer::CopyOf(rest.subspan(m_bytes));
  if (data[0] % 3 != 0 && !payload.empty()) {
    const auto valid = Valid(codec, shape, m);
    if (!valid.empty()) {
      Buffer mixed = Buffer::CopyOf(valid);
      std::memcpy(mixed.data() + 16, payload.data(), std::min(payload.size(), mixed.size() - 16));
      payload = std::move(mixed);
    }
  }
  std::vector<float> values(shape.values());
  Buffer next;
  if (!codec.Decode(payload.bytes(), shape, m.bytes(), {}, values, &next).ok()) return 0;
  CheckDecoded(values);
  if (codec.keeps_m() && !codec.codec().CheckMImage(next.bytes(), shape).ok()) abort();
  return 0;
}
