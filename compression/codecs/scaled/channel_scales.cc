#include "compression/codecs/scaled/channel_scales.h"

#include <algorithm>
#include <cmath>

#include "compression/simd/dither_kernels.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kTokensLooked = 256;
constexpr std::size_t kTokensMin = 16;

}  // namespace

ChannelExponents FitChannelExponents(std::span<const std::span<const float>> samples,
                                     SampleShape shape) {
  const std::size_t tokens = samples.size() * shape.tokens;
  const std::size_t stride = std::max<std::size_t>(tokens / kTokensLooked, 1);
  std::vector<float> squares(shape.hidden);
  std::size_t looked = 0;
  for (std::size_t t = 0; t < tokens; t += stride) {
    const float* x = samples[t / shape.tokens].data() + t % shape.tokens * shape.hidden;
    const double rms = std::sqrt(SumOfSquares(x, shape.hidden) / shape.hidden);
    if (!(rms >= 0x1p-100) || !(rms <= 0x1p118)) continue;
    AddScaledSquares(x, static_cast<float>(1 / rms), shape.hidden, squares.data());
    ++looked;
  }
  if (looked < kTokensMin) return {};
  ChannelExponents exponents(shape.hidden);
  bool any = false;
  for (std::size_t i = 0; i < exponents.size(); ++i) {
    const double mean = squares[i] / static_cast<double>(looked);
    // Of the root: half the octaves of the square, to the nearest.
    const int exponent =
        mean < 0x1p-40 ? -kChannelExponentMost : static_cast<int>(std::lround(std::log2(mean) / 2));
    exponents[i] =
        static_cast<std::int8_t>(std::clamp(exponent, -kChannelExponentMost, kChannelExponentMost));
    any = any || exponents[i] != 0;
  }
  return any ? exponents : ChannelExponents();
}

void WriteChannelExponents(const ChannelExponents& exponents, BitWriter* writer) {
  writer->Put(exponents.empty() ? 0 : 1, 1);
  for (const std::int8_t exponent : exponents) writer->PutSigned(exponent);
}

bool ReadChannelExponents(BitReader* reader, std::size_t hidden, ChannelExponents* exponents) {
  exponents->clear();
  if (reader->Get(1) == 0) return reader->ok();
  exponents->resize(hidden);
  for (std::int8_t& exponent : *exponents) {
    exponent = static_cast<std::int8_t>(reader->GetSigned(kChannelExponentMost));
    if (!reader->ok()) return false;
  }
  return true;
}

std::vector<float> ChannelFactors(const ChannelExponents& exponents, bool inverse) {
  std::vector<float> factors;
  factors.reserve(exponents.size());
  for (const std::int8_t exponent : exponents) {
    factors.push_back(std::ldexp(1.0F, inverse ? -exponent : exponent));
  }
  return factors;
}

}  // namespace shoal::compression
