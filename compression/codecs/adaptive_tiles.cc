#include "compression/codecs/adaptive_tiles.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/half.h"
#include "compression/api/message_noise.h"
#include "compression/codecs/bucket_code.h"
#include "compression/codecs/tiles_codec.h"
#include "compression/codecs/topk_codec.h"
#include "compression/simd/kernels.h"
#include "compression/simd/tile_kernels.h"

namespace shoal::compression {
namespace {

constexpr std::uint8_t kAdaptiveVariant = 4;
constexpr std::uint32_t kRoundingStream = 0;
constexpr int kStepsUp = 3;

double SquaredStep(int width) { return std::pow(std::ldexp(1, width) - 1, -2); }

int WidthAt(const std::byte* widths, std::size_t tile, int least) {
  return least + (std::to_integer<int>(widths[tile / 4]) >> tile % 4 * 2 & 3);
}

}  // namespace

std::vector<std::uint8_t> TileWidths(std::span<const float> ranges, int bits) {
  const int least = LeastTileWidth(bits);
  std::vector<std::uint8_t> widths(ranges.size(), static_cast<std::uint8_t>(least));
  std::vector<std::uint32_t> taken(ranges.size() * static_cast<std::size_t>(bits - least));
  if (taken.empty()) return widths;
  const float most = *std::max_element(ranges.begin(), ranges.end());
  std::vector<float> gains;
  gains.reserve(ranges.size() * kStepsUp);
  for (const float range : ranges) {
    const double part = most > 0 ? double{range} / most : 0;
    for (int width = least; width < least + kStepsUp; ++width) {
      const double gain = SquaredStep(width) - SquaredStep(width + 1);
      gains.push_back(static_cast<float>(part * part * gain));
    }
  }
  SelectLargest(gains, taken);
  for (const std::uint32_t step : taken) ++widths[step / kStepsUp];
  return widths;
}

AdaptiveTilesCodec::Layout AdaptiveTilesCodec::LayoutOf(std::size_t values) const {
  Layout layout;
  layout.tiles = values / tile_;
  layout.widths = kPayloadHeaderBytes + layout.tiles * rule_.scale_bytes();
  layout.codes = layout.widths + (layout.tiles + 3) / 4;
  layout.end = layout.codes + values / 8 * static_cast<std::size_t>(rule_.bits());
  return layout;
}

AdaptiveTilesCodec::AdaptiveTilesCodec(const LevelRule& rule, std::uint32_t tile)
    : rule_(rule), tile_(tile), spec_("tiles:" + TileOptions(rule, tile) + ",adaptive=on") {}

LevelRule AdaptiveTilesCodec::RuleOf(int width) const {
  return LevelRule(width, rule_.levels(), rule_.scale(), rule_.rounding())
      .WithLeastScale(rule_.least_scale());
}

std::size_t AdaptiveTilesCodec::EncodedBytesMax(SampleShape shape, std::size_t samples) const {
  return LayoutOf(samples * shape.values()).end;
}

void AdaptiveTilesCodec::ChooseScales(std::span<const float> rotated, std::byte* scales,
                                      std::span<float> ranges) const {
  std::vector<float> low(ranges.size());
  std::vector<float> high(ranges.size());
  BucketRanges(rotated.data(), ranges.size(), tile_, low.data(), high.data());
  for (std::size_t t = 0; t < ranges.size(); ++t, scales += rule_.scale_bytes()) {
    if (rule_.levels() == Levels::kAffine) {
      rule_.ChooseBounds(low[t], high[t], scales);
      ranges[t] = high[t] - low[t];
    } else {
      const float most = std::max(std::fabs(low[t]), std::fabs(high[t]));
      rule_.Choose(rotated.data() + t * tile_, tile_, 1, std::bit_cast<std::uint32_t>(most),
                   scales);
      ranges[t] = 2 * most;
    }
  }
}

void AdaptiveTilesCodec::ReadTile(const std::byte* scale, int width, const std::byte* packed,
                                  float* values) const {
  std::uint8_t codes[kTileMax];
  float step, offset;
  RuleOf(width).DecoderConstants(scale, &step, &offset);
  UnpackCodes(packed, tile_ / 8, width, codes);
  DequantiseBuckets(codes, 1, tile_, &step, &offset, values);
  RotateTiles(values, tile_, tile_, TileBackFactor(tile_), values);
}

Result<std::size_t> AdaptiveTilesCodec::Encode(std::span<const std::span<const float>> samples,
                                               SampleShape shape, const RandomKey& key,
                                               std::span<std::byte> out,
                                               std::span<const std::span<float>> decoded) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, false, spec_));
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(tile_, shape, spec_));
  SHOAL_CHECK(decoded.empty() || decoded.size() == samples.size());
  const std::size_t n = shape.values();
  const Layout layout = LayoutOf(samples.size() * n);
  SHOAL_CHECK(out.size() >= layout.end);
  std::vector<float> rotated(samples.size() * n);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const float* x = samples[i].data();
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(AbsMaxBits(x, n), kMagnitudeMax, spec_));
    RotateTiles(x, n, tile_, TileFactor(tile_), rotated.data() + i * n);
  }
  WritePayloadHeader(HeaderFor(rotated.size()), out.data());
  std::byte* scale = out.data() + kPayloadHeaderBytes;
  std::vector<float> ranges(layout.tiles);
  ChooseScales(rotated, scale, ranges);
  const std::vector<std::uint8_t> widths = TileWidths(ranges, rule_.bits());
  const int least = LeastTileWidth(rule_.bits());
  std::fill(out.data() + layout.widths, out.data() + layout.codes, std::byte{0});
  std::byte* packed = out.data() + layout.codes;
  std::vector<float> noise(rule_.rounding() == Rounding::kStochastic ? tile_ : 0);
  for (std::size_t t = 0; t < layout.tiles; ++t, scale += rule_.scale_bytes()) {
    const int width = widths[t];
    out[layout.widths + t / 4] |= static_cast<std::byte>((width - least) << t % 4 * 2);
    if (!noise.empty()) FillUniform(key, kRoundingStream, t * tile_, noise);
    const LevelRule rule = RuleOf(width);
    float inverse, bias;
    rule.EncoderConstants(scale, &inverse, &bias);
    std::uint8_t codes[kTileMax];
    QuantiseBuckets(rotated.data() + t * tile_, 1, tile_, rule.top(), &inverse, &bias,
                    noise.empty() ? nullptr : noise.data(), codes);
    PackCodes(codes, tile_ / 8, width, packed);
    if (!decoded.empty()) {
      const std::size_t first = t * tile_;
      ReadTile(scale, width, packed, decoded[first / n].data() + first % n);
    }
    packed += tile_ / 8 * static_cast<std::size_t>(width);
  }
  SHOAL_CHECK(packed == out.data() + layout.end);
  return layout.end;
}

PayloadHeader AdaptiveTilesCodec::HeaderFor(std::size_t values) const {
  PayloadHeader header;
  header.codec = CodecId::kTiles;
  header.bits = static_cast<std::uint8_t>(rule_.bits());
  header.type = ValueType::kBf16;
  header.variant = static_cast<std::uint8_t>(rule_.levels()) | kAdaptiveVariant;
  header.bucket = tile_;
  header.values = values;
  return header;
}

Status AdaptiveTilesCodec::CheckSection(std::span<const std::byte> payload,
                                        std::size_t values) const {
  const Layout layout = LayoutOf(values);
  const auto exponent = CheckPayload(payload, HeaderFor(values), layout.end, spec_);
  if (!exponent.ok()) return exponent.status();
  SHOAL_RETURN_IF_ERROR(
      BucketCode(rule_, tile_).CheckScales(payload.data() + kPayloadHeaderBytes, values, spec_));
  const std::byte* widths = payload.data() + layout.widths;
  const int least = LeastTileWidth(rule_.bits());
  std::size_t sum = 0;
  for (std::size_t t = 0; t < layout.tiles; ++t) {
    sum += static_cast<std::size_t>(WidthAt(widths, t, least));
  }
  for (std::size_t t = layout.tiles; t % 4 != 0; ++t) {
    if (WidthAt(widths, t, 0) == 0) continue;
    return InvalidArgument("codec " + spec_ +
                           ": padding bits behind the widths are not 0; drop the message and ask "
                           "for it again");
  }
  if (sum == layout.tiles * static_cast<std::size_t>(rule_.bits())) return Status::Ok();
  return InvalidArgument("codec " + spec_ + ": the widths of " + std::to_string(layout.tiles) +
                         " tiles add up to " + std::to_string(sum) + ", expected " +
                         std::to_string(rule_.bits()) +
                         " each on average; drop the message and ask for it again");
}

Status AdaptiveTilesCodec::Decode(std::span<const std::byte> payload, SampleShape shape,
                                  const RandomKey&,
                                  std::span<const std::span<float>> samples) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, true, spec_));
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(tile_, shape, spec_));
  const std::size_t n = shape.values();
  SHOAL_RETURN_IF_ERROR(CheckSection(payload, samples.size() * n));
  const Layout layout = LayoutOf(samples.size() * n);
  const std::byte* scale = payload.data() + kPayloadHeaderBytes;
  const std::byte* widths = payload.data() + layout.widths;
  const int least = LeastTileWidth(rule_.bits());
  const std::byte* packed = payload.data() + layout.codes;
  for (std::size_t t = 0; t < layout.tiles; ++t, scale += rule_.scale_bytes()) {
    const int width = WidthAt(widths, t, least);
    const std::size_t first = t * tile_;
    const std::span<float> to = samples[first / n];
    if (!to.empty()) ReadTile(scale, width, packed, to.data() + first % n);
    packed += tile_ / 8 * static_cast<std::size_t>(width);
  }
  return Status::Ok();
}

}  // namespace shoal::compression
