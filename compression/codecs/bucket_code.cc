#include "compression/codecs/bucket_code.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "common/bytes.h"
#include "compression/api/sample_layout.h"
#include "compression/simd/kernels.h"
#include "compression/simd/tile_kernels.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kBlockTarget = 2048;
constexpr std::size_t kScalesAtOnce = 64;

constexpr std::uint32_t kDefaultBucket = 128;

}  // namespace

std::uint32_t DefaultBucket(std::uint32_t hidden) {
  std::uint32_t bucket = std::min(kDefaultBucket, hidden);
  while (hidden % bucket != 0) --bucket;
  return bucket;
}

std::string BucketsAllowed(std::uint32_t hidden) {
  std::string list;
  for (std::uint32_t bucket = 1; bucket <= hidden; ++bucket) {
    if (hidden % bucket != 0) continue;
    if (!list.empty()) list += ", ";
    list += std::to_string(bucket);
  }
  return list;
}

Status CheckBucketFits(std::uint32_t bucket, SampleShape shape, std::string_view spec) {
  if (shape.hidden % bucket == 0) return Status::Ok();
  return InvalidArgument("codec " + std::string(spec) + ": bucket " + std::to_string(bucket) +
                         " does not divide the hidden size " + std::to_string(shape.hidden) +
                         "; allowed are " + BucketsAllowed(shape.hidden));
}

std::size_t BucketCode::BlockValues(std::size_t n) const {
  const std::size_t unit = std::lcm(std::size_t{bucket_}, std::size_t{8});
  return std::min(std::max<std::size_t>(kBlockTarget / unit, 1) * unit, n);
}

Status BucketCode::Quantise(const float* x, std::size_t count, float most, const float* noise,
                            std::string_view spec, std::uint8_t* codes, std::byte* scales) const {
  const std::size_t buckets = count / bucket_;
  std::uint32_t magnitudes[kScalesAtOnce];
  float inverse[kScalesAtOnce];
  float bias[kScalesAtOnce];
  float low[kScalesAtOnce];
  float high[kScalesAtOnce];
  const bool affine = rule_.levels() == Levels::kAffine;
  for (std::size_t done = 0; done < buckets; done += kScalesAtOnce) {
    const std::size_t now = std::min(buckets - done, kScalesAtOnce);
    const float* from = x + done * bucket_;
    SHOAL_RETURN_IF_ERROR(
        CheckMagnitude(BucketMagnitudes(from, now, bucket_, magnitudes), most, spec));
    if (affine) BucketRanges(from, now, bucket_, low, high);
    for (std::size_t b = 0; b < now; ++b, scales += rule_.scale_bytes()) {
      if (affine) {
        rule_.ChooseBounds(low[b], high[b], scales);
      } else {
        rule_.Choose(from + b * bucket_, bucket_, 1, magnitudes[b], scales);
      }
      rule_.EncoderConstants(scales, &inverse[b], &bias[b]);
    }
    QuantiseBuckets(from, now, bucket_, rule_.top(), inverse, bias,
                    noise == nullptr ? nullptr : noise + done * bucket_, codes + done * bucket_);
  }
  return Status::Ok();
}

void BucketCode::Levels(const std::uint8_t* codes, const std::byte* scales, std::size_t count,
                        float* x) const {
  const std::size_t buckets = count / bucket_;
  float step[kScalesAtOnce];
  float offset[kScalesAtOnce];
  for (std::size_t done = 0; done < buckets; done += kScalesAtOnce) {
    const std::size_t now = std::min(buckets - done, kScalesAtOnce);
    for (std::size_t b = 0; b < now; ++b, scales += rule_.scale_bytes()) {
      rule_.DecoderConstants(scales, &step[b], &offset[b]);
    }
    DequantiseBuckets(codes + done * bucket_, now, bucket_, step, offset, x + done * bucket_);
  }
}

void BucketCode::Pack(std::uint8_t* codes, std::size_t count, std::byte* packed) const {
  const std::size_t groups = (count + 7) / 8;
  std::fill(codes + count, codes + groups * 8, std::uint8_t{0});
  PackCodes(codes, groups, bits(), packed);
}

void BucketCode::Unpack(const std::byte* packed, std::size_t count, std::uint8_t* codes) const {
  UnpackCodes(packed, (count + 7) / 8, bits(), codes);
}

Status BucketCode::CheckScales(const std::byte* scales, std::size_t n,
                               std::string_view spec) const {
  const std::size_t bytes = rule_.scale_bytes();
  for (std::size_t i = 0; i < n / bucket_; ++i) {
    if (rule_.Allowed(scales + bytes * i)) continue;
    const auto bits = LoadLittle<std::uint16_t>(scales + bytes * i);
    return InvalidArgument(
        "codec " + std::string(spec) + ": scale " + std::to_string(i) + " has the bits " +
        std::to_string(bits) + ", allowed is 0 or " + std::to_string(rule_.least_scale()) + " to " +
        std::to_string(kScaleBitsMax) + "; drop the message and ask for it again");
  }
  return Status::Ok();
}

Status BucketCode::CheckPadding(const std::byte* packed, std::size_t n,
                                std::string_view spec) const {
  if (n % 8 == 0) return Status::Ok();
  const auto bytes = static_cast<std::size_t>(bits());
  std::uint64_t group = 0;
  std::memcpy(&group, packed + CodeBytes(n) - bytes, bytes);
  if ((group >> (n % 8 * bytes)) == 0) return Status::Ok();
  return InvalidArgument("codec " + std::string(spec) +
                         ": padding bits of the last group are not 0; drop the message and ask "
                         "for it again");
}

}  // namespace shoal::compression
