#include "compression/codecs/range_codec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/bytes.h"
#include "compression/simd/kernels.h"
#include "compression/simd/tile_kernels.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kBoundsBytes = 8;
constexpr std::size_t kTableBytes = 8;
constexpr float kLowMin = 0x1p-100F;
constexpr float kWidthMin = 0x1p-92F;
constexpr float kWidthMax = 0x1p120F;

// Whether foreign bounds are some that BoundsOf can have made.
bool Allowed(const BucketBounds& bounds) {
  const float low = std::fabs(bounds.low);
  const bool low_fits =
      std::bit_cast<std::uint32_t>(bounds.low) == 0 || (low >= kLowMin && low <= kMagnitudeMax);
  const bool width_fits = std::bit_cast<std::uint32_t>(bounds.width) == 0 ||
                          (bounds.width >= kWidthMin && bounds.width <= kWidthMax);
  return low_fits && width_fits;
}

}  // namespace

BucketBounds BoundsOf(float low, float high, int top) {
  BucketBounds bounds{low, 0};
  if (std::fabs(low) < kLowMin) bounds.low = low < 0 ? -kLowMin : 0.0F;
  if (high <= bounds.low) return bounds;
  const double from = bounds.low;
  const auto width = static_cast<float>(double{high} - from);
  bounds.width = std::max(width, kWidthMin);
  const auto steps = static_cast<float>(top);
  while (from + double{bounds.width} < double{high} ||
         from + double{bounds.width / steps} * top < double{high}) {
    bounds.width = std::nextafter(bounds.width, std::numeric_limits<float>::infinity());
  }
  return bounds;
}

RangeCodec::RangeCodec(RangeFormat format)
    : format_(std::move(format)),
      code_(LevelRule(format_.bits, compression::Levels::kAffine, ScaleRule::kAbsMax,
                      Rounding::kNearest),
            format_.bucket) {}

std::size_t RangeCodec::HeadBytes() const {
  return kPayloadHeaderBytes + (format_.table ? kTableBytes : 0);
}

std::size_t RangeCodec::BoundsBytes(std::size_t n) const {
  return n / format_.bucket * kBoundsBytes;
}

std::size_t RangeCodec::EncodedBytesMax(SampleShape shape, std::size_t samples) const {
  const std::size_t n = shape.values();
  const std::size_t codes = format_.coder == EntropyCoder::kNone
                                ? samples * code_.CodeBytes(n)
                                : SymbolBytesMax(format_.coder, samples * n, format_.bits);
  return HeadBytes() + samples * BoundsBytes(n) + codes;
}

PayloadHeader RangeCodec::HeaderFor(SampleShape shape, std::size_t samples) const {
  PayloadHeader header;
  header.codec = format_.id;
  header.bits = static_cast<std::uint8_t>(format_.bits);
  header.type = ValueType::kFp32;
  if (format_.coder != EntropyCoder::kNone) header.variant = kEntropyVariant;
  header.bucket = format_.bucket;
  header.values = samples * shape.values();
  return header;
}

Status RangeCodec::ChooseBounds(const float* x, std::span<BucketBounds> bounds,
                                std::byte* out) const {
  const std::size_t count = bounds.size() * format_.bucket;
  SHOAL_RETURN_IF_ERROR(CheckMagnitude(AbsMaxBits(x, count), kMagnitudeMax, spec()));
  std::vector<float> low(bounds.size()), high(bounds.size());
  BucketRanges(x, bounds.size(), format_.bucket, low.data(), high.data());
  for (std::size_t b = 0; b < bounds.size(); ++b, out += kBoundsBytes) {
    bounds[b] = BoundsOf(low[b], high[b], top());
    StoreLittle(out, std::bit_cast<std::uint32_t>(bounds[b].low));
    StoreLittle(out + kBoundsBytes / 2, std::bit_cast<std::uint32_t>(bounds[b].width));
  }
  return Status::Ok();
}

Status RangeCodec::ReadBounds(const std::byte* from, std::span<BucketBounds> bounds) const {
  for (std::size_t b = 0; b < bounds.size(); ++b, from += kBoundsBytes) {
    bounds[b].low = std::bit_cast<float>(LoadLittle<std::uint32_t>(from));
    bounds[b].width = std::bit_cast<float>(LoadLittle<std::uint32_t>(from + kBoundsBytes / 2));
    if (Allowed(bounds[b])) continue;
    return InvalidArgument("codec " + spec() + ": bucket " + std::to_string(b) +
                           " has bounds beyond 2^118 or too near to 0; drop the message and ask "
                           "for it again");
  }
  return Status::Ok();
}

Result<std::size_t> RangeCodec::Encode(std::span<const std::span<const float>> samples,
                                       SampleShape shape, const RandomKey& key,
                                       std::span<std::byte> out,
                                       std::span<const std::span<float>> decoded) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, false, spec()));
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(format_.bucket, shape, spec()));
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  SHOAL_CHECK(decoded.empty() || decoded.size() == samples.size());
  const std::size_t n = shape.values(), block = code_.BlockValues(n);
  const bool packed = format_.coder == EntropyCoder::kNone;
  std::byte* const all_bounds = out.data() + HeadBytes();
  std::byte* const all_codes = all_bounds + samples.size() * BoundsBytes(n);
  std::vector<std::uint8_t> codes((packed ? block : samples.size() * n) + 7);
  std::vector<BucketBounds> bounds(block / format_.bucket);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t first = 0; first < n; first += block) {
      const std::size_t count = std::min(block, n - first);
      const auto now = std::span(bounds).first(count / format_.bucket);
      const float* const x = samples[i].data() + first;
      std::uint8_t* const to = codes.data() + (packed ? 0 : i * n + first);
      SHOAL_RETURN_IF_ERROR(
          ChooseBounds(x, now, all_bounds + i * BoundsBytes(n) + BoundsBytes(first)));
      const BucketRun run{(i * n + first) / format_.bucket, now};
      Quantise(x, run, key, to);
      if (packed) {
        code_.Pack(to, count, all_codes + i * code_.CodeBytes(n) + code_.CodeBytes(first));
      }
      if (!decoded.empty()) Levels(to, run, key, decoded[i].data() + first);
    }
  }
  WritePayloadHeader(HeaderFor(shape, samples.size()), out.data());
  if (format_.table) StoreLittle(out.data() + kPayloadHeaderBytes, *format_.table);
  const auto head = static_cast<std::size_t>(all_codes - out.data());
  if (packed) return head + samples.size() * code_.CodeBytes(n);
  return head + WriteSymbols(format_.coder, std::span(codes).first(samples.size() * n),
                             format_.bits, out.subspan(head));
}

Status RangeCodec::CheckHead(std::span<const std::byte> payload, SampleShape shape,
                             std::size_t samples) const {
  const Result<int> exponent = CheckHeader(payload, HeaderFor(shape, samples), spec());
  if (!exponent.ok()) return exponent.status();
  const std::size_t head = HeadBytes() + samples * BoundsBytes(shape.values());
  if (payload.size() < head) {
    return InvalidArgument("codec " + spec() + ": payload of " + std::to_string(payload.size()) +
                           " bytes, expected at least " + std::to_string(head) +
                           "; drop the message and ask for it again");
  }
  if (format_.table &&
      LoadLittle<std::uint64_t>(payload.data() + kPayloadHeaderBytes) != *format_.table) {
    return InvalidArgument("codec " + spec() +
                           ": payload was made with another table of levels; both ends must learn "
                           "levels at the same steps from the same histograms");
  }
  return Status::Ok();
}

Status RangeCodec::OpenCodes(std::span<const std::byte> rest, std::size_t n, std::size_t samples,
                             std::vector<std::uint8_t>* codes) const {
  if (format_.coder != EntropyCoder::kNone) {
    codes->resize(samples * n);
    return ReadSymbols(rest, format_.bits, *codes, spec());
  }
  if (rest.size() != samples * code_.CodeBytes(n)) {
    return InvalidArgument("codec " + spec() + ": codes of " + std::to_string(rest.size()) +
                           " bytes, expected " + std::to_string(samples * code_.CodeBytes(n)) +
                           "; drop the message and ask for it again");
  }
  for (std::size_t i = 0; i < samples; ++i) {
    SHOAL_RETURN_IF_ERROR(code_.CheckPadding(rest.data() + i * code_.CodeBytes(n), n, spec()));
  }
  codes->resize(code_.BlockValues(n) + 7);
  return Status::Ok();
}

Status RangeCodec::Decode(std::span<const std::byte> payload, SampleShape shape,
                          const RandomKey& key, std::span<const std::span<float>> samples) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, true, spec()));
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(format_.bucket, shape, spec()));
  SHOAL_RETURN_IF_ERROR(CheckHead(payload, shape, samples.size()));
  const std::size_t n = shape.values(), block = code_.BlockValues(n);
  const bool packed = format_.coder == EntropyCoder::kNone;
  std::vector<BucketBounds> bounds(samples.size() * n / format_.bucket);
  SHOAL_RETURN_IF_ERROR(ReadBounds(payload.data() + HeadBytes(), bounds));
  const auto rest = payload.subspan(HeadBytes() + samples.size() * BoundsBytes(n));
  std::vector<std::uint8_t> codes;
  SHOAL_RETURN_IF_ERROR(OpenCodes(rest, n, samples.size(), &codes));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t first = 0; first < samples[i].size(); first += block) {
      const std::size_t count = std::min(block, n - first);
      std::uint8_t* const from = codes.data() + (packed ? 0 : i * n + first);
      if (packed) {
        code_.Unpack(rest.data() + i * code_.CodeBytes(n) + code_.CodeBytes(first), count, from);
      }
      const std::size_t number = (i * n + first) / format_.bucket;
      Levels(from, {number, std::span(bounds).subspan(number, count / format_.bucket)}, key,
             samples[i].data() + first);
    }
  }
  return Status::Ok();
}

}  // namespace shoal::compression
