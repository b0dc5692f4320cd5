#include "model/quantized/nf4.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/status.h"

namespace shoal::model {
namespace {

// A value above threshold i has a code above i.
constexpr std::array<float, 15> Thresholds() {
  std::array<float, 15> thresholds{};
  for (std::size_t i = 0; i < thresholds.size(); ++i) {
    thresholds[i] = (kNf4Values[i] + kNf4Values[i + 1]) / 2;
  }
  return thresholds;
}

// The two values of each byte of codes.
constexpr std::array<std::array<float, 2>, 256> PairsOfBytes() {
  std::array<std::array<float, 2>, 256> pairs{};
  for (std::size_t byte = 0; byte < pairs.size(); ++byte) {
    pairs[byte] = {kNf4Values[byte >> 4], kNf4Values[byte & 15]};
  }
  return pairs;
}

constexpr std::array<float, 15> kThresholds = Thresholds();
alignas(64) constexpr std::array<std::array<float, 2>, 256> kPairs = PairsOfBytes();

constexpr std::array<float, 7> kPowers = {1e-6F, 1e-5F, 1e-4F, 1e-3F, 1e-2F, 1e-1F, 1.0F};

// Below it bitsandbytes divides by this instead, so that the quotient stays finite.
constexpr float kAbsmaxMin = 1e-38F;

float LoadFloat(const std::byte* from, std::size_t index) {
  float value;
  std::memcpy(&value, from + index * sizeof(value), sizeof(value));
  return value;
}

// Of finite values: on bits, because compilers vectorise a maximum of integers.
float AbsmaxOf(std::span<const float> values) {
  std::int32_t most = 0;
  for (const float value : values) {
    const std::int32_t bits = std::bit_cast<std::int32_t>(value) & 0x7fffffff;
    most = bits > most ? bits : most;
  }
  return std::bit_cast<float>(most);
}

void PackBlock(const float (&scaled)[kNf4Block], std::byte* codes, std::size_t bytes) {
  std::int32_t code[kNf4Block] = {};
  for (const float threshold : kThresholds) {
    for (std::size_t i = 0; i < kNf4Block; ++i) code[i] += scaled[i] > threshold ? 1 : 0;
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    codes[i] = static_cast<std::byte>(code[2 * i] << 4 | code[2 * i + 1]);
  }
}

float AbsmaxOfBlock(const Nf4View& view, std::size_t block) {
  if (!view.nested) return LoadFloat(view.absmax.data(), block);
  const auto code = std::to_integer<std::size_t>(view.absmax[block]);
  const float scale = LoadFloat(view.nested_absmax.data(), block / kNf4NestedBlock);
  return LoadFloat(view.nested_map.data(), code) * scale + view.offset;
}

void DecodePairs(const std::byte* codes, std::size_t count, float absmax, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto& pair = kPairs[std::to_integer<std::size_t>(codes[i])];
    out[2 * i] = pair[0] * absmax;
    out[2 * i + 1] = pair[1] * absmax;
  }
}

}  // namespace

// The means of neighbours of 2^e + 1 numbers from 0.1 to 1, times 10^(e - 6), for e from 0 to 6.
// fp32 in the order and with the fused operations of torch.linspace, for its bits.
const std::array<float, 256>& DynamicMap() {
  static const std::array<float, 256> map = [] {
    std::array<float, 256> values{};
    std::size_t at = 0;
    for (std::size_t e = 0; e < kPowers.size(); ++e) {
      const std::size_t gaps = std::size_t{1} << e;
      const float step = (1.0F - 0.1F) / static_cast<float>(gaps);
      const auto number = [&](std::size_t i) {
        return i < (gaps + 1) / 2 ? std::fma(step, static_cast<float>(i), 0.1F)
                                  : std::fma(-step, static_cast<float>(gaps - i), 1.0F);
      };
      for (std::size_t i = 0; i < gaps; ++i) {
        const float value = kPowers[e] * ((number(i) + number(i + 1)) / 2);
        values[at++] = value;
        values[at++] = -value;
      }
    }
    values[at++] = 0;
    values[at++] = 1;
    SHOAL_CHECK(at == values.size());
    std::sort(values.begin(), values.end());
    return values;
  }();
  return map;
}

void QuantizeNf4(std::span<const float> values, std::span<std::byte> codes,
                 std::span<float> absmax) {
  SHOAL_CHECK(codes.size() == (values.size() + 1) / 2);
  SHOAL_CHECK(absmax.size() == (values.size() + kNf4Block - 1) / kNf4Block);
  for (std::size_t block = 0; block < absmax.size(); ++block) {
    const std::size_t first = block * kNf4Block;
    const std::size_t count = std::min(kNf4Block, values.size() - first);
    const float most = AbsmaxOf(values.subspan(first, count));
    const float divisor = std::max(most, kAbsmaxMin);
    float scaled[kNf4Block] = {};
    if (count == kNf4Block) {
      const float factor = 1 / divisor;
      for (std::size_t i = 0; i < kNf4Block; ++i) scaled[i] = values[first + i] * factor;
      absmax[block] = most;
    } else {  // bitsandbytes divides here, and lifts the absmax
      for (std::size_t i = 0; i < count; ++i) scaled[i] = values[first + i] / divisor;
      absmax[block] = divisor;
    }
    PackBlock(scaled, codes.data() + first / 2, (count + 1) / 2);
  }
}

NestedAbsmax NestAbsmax(std::span<const float> absmax) {
  SHOAL_CHECK(!absmax.empty());
  NestedAbsmax nested;
  double sum = 0;
  for (const float value : absmax) sum += value;
  nested.offset = static_cast<float>(sum / static_cast<double>(absmax.size()));
  nested.codes.resize(absmax.size());
  const std::array<float, 256>& map = DynamicMap();
  std::array<float, 255> thresholds{};
  for (std::size_t i = 0; i < thresholds.size(); ++i) thresholds[i] = (map[i] + map[i + 1]) / 2;
  for (std::size_t first = 0; first < absmax.size(); first += kNf4NestedBlock) {
    const std::size_t count = std::min(kNf4NestedBlock, absmax.size() - first);
    float most = 0;
    for (std::size_t i = first; i < first + count; ++i) {
      most = std::max(most, std::fabs(absmax[i] - nested.offset));
    }
    const float factor = 1 / std::max(most, kAbsmaxMin);
    for (std::size_t i = first; i < first + count; ++i) {
      const float scaled = (absmax[i] - nested.offset) * factor;
      const auto above = std::lower_bound(thresholds.begin(), thresholds.end(), scaled);
      nested.codes[i] = static_cast<std::byte>(above - thresholds.begin());
    }
    nested.absmax.push_back(most);
  }
  return nested;
}

void DecodeNf4(const Nf4View& view, std::size_t first, std::span<float> out) {
  SHOAL_CHECK(first <= view.values && out.size() <= view.values - first);
  const std::size_t end = first + out.size();
  float* to = out.data();
  for (std::size_t at = first; at < end;) {
    const std::size_t block = at / kNf4Block;
    const std::size_t stop = std::min(end, (block + 1) * kNf4Block);
    const float absmax = AbsmaxOfBlock(view, block);
    const std::byte* codes = view.codes.data() + at / 2;
    if (stop - at == kNf4Block) {
      DecodePairs(codes, kNf4Block / 2, absmax, to);
    } else {
      if (at % 2 == 1) {
        *to++ = kNf4Values[std::to_integer<std::size_t>(*codes++ & std::byte{15})] * absmax;
        ++at;
      }
      DecodePairs(codes, (stop - at) / 2, absmax, to);
      if ((stop - at) % 2 == 1) {
        to[stop - at - 1] =
            kNf4Values[std::to_integer<std::size_t>(codes[(stop - at) / 2] >> 4)] * absmax;
      }
    }
    to += stop - at;
    at = stop;
  }
}

}  // namespace shoal::model
