#include "compression/codecs/scaled/channel_scales.h"

#include <algorithm>
#include <cmath>

#include "compression/codecs/coding_sample.h"
#include "compression/simd/dither_kernels.h"
#include "compression/simd/vector_kernels.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kTokensMin = 16;

}  // namespace

ChannelFit::ChannelFit(std::size_t tokens, std::uint32_t hidden)
    : stride_(TokenStride(tokens)), squares_(hidden) {}

float ChannelFit::FactorOf(double energy, std::size_t hidden) {
  const double rms = std::sqrt(energy / static_cast<double>(hidden));
  return rms >= 0x1p-100 && rms <= 0x1p118 ? static_cast<float>(1 / rms) : 0;
}

void ChannelFit::Add(const float* token) {
  const std::size_t hidden = squares_.size();
  const float factor = FactorOf(SumOfSquares(token, hidden), hidden);
  if (factor == 0) return;
  AddScaledSquares(token, factor, hidden, squares_.data());
  ++looked_;
}

ChannelExponents ChannelFit::ExponentsOf(std::span<const float> squares, std::size_t looked) {
  if (looked < kTokensMin) return {};
  ChannelExponents exponents(squares.size());
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

ChannelExponents FitChannelExponents(std::span<const std::span<const float>> samples,
                                     SampleShape shape) {
  const std::size_t tokens = samples.size() * shape.tokens;
  ChannelFit fit(tokens, shape.hidden);
  for (std::size_t t = fit.stride() / 2; t < tokens; t += fit.stride()) {
    fit.Add(samples[t / shape.tokens].data() + t % shape.tokens * shape.hidden);
  }
  return fit.Exponents();
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

ChannelScaler::ChannelScaler(const ChannelExponents& exponents, std::size_t longest)
    : hidden_(exponents.size()) {
  if (exponents.empty()) return;
  const std::vector<float> down = ChannelFactors(exponents, true);
  const std::vector<float> up = ChannelFactors(exponents, false);
  for (std::size_t i = 0; i < hidden_ + longest; ++i) {
    down_.push_back(down[i % hidden_]);
    up_.push_back(up[i % hidden_]);
  }
}

void ChannelScaler::Down(std::size_t first, std::size_t count, float* x) const {
  if (hidden_ != 0) MultiplyEach(down_.data() + first % hidden_, count, x);
}

void ChannelScaler::Up(std::size_t first, std::size_t count, float* x) const {
  if (hidden_ != 0) MultiplyEach(up_.data() + first % hidden_, count, x);
}

}  // namespace shoal::compression
