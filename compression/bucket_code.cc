#include "compression/bucket_code.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "common/bytes.h"
#include "compression/kernels.h"
#include "compression/sample_layout.h"

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

Status CheckBucketFits(const BucketCode& code, SampleShape shape, std::string_view spec) {
  if (shape.hidden % code.bucket() == 0) return Status::Ok();
  return InvalidArgument("codec " + std::string(spec) + ": bucket " +
                         std::to_string(code.bucket()) + " does not divide the hidden size " +
                         std::to_string(shape.hidden) + "; allowed are " +
                         BucketsAllowed(shape.hidden));
}

std::size_t BucketCode::BlockValues(std::size_t n) const {
  const std::size_t unit = std::lcm(std::size_t{bucket_}, std::size_t{8});
  return std::min(std::max<std::size_t>(kBlockTarget / unit, 1) * unit, n);
}

Status BucketCode::EncodeBlock(const float* x, std::size_t first, std::size_t count, std::size_t n,
                               float most, std::string_view spec, std::uint8_t* codes,
                               std::byte* body) const {
  std::byte* scales_out = body + ScaleBytes(first);
  const std::size_t buckets = count / bucket_;
  std::uint16_t scales[kScalesAtOnce];
  for (std::size_t done = 0; done < buckets; done += kScalesAtOnce) {
    const std::size_t now = std::min(buckets - done, kScalesAtOnce);
    const float* from = x + done * bucket_;
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(BucketScales(from, now, bucket_, scales), most, spec));
    QuantiseBuckets(from, now, bucket_, bits_, scales, codes + done * bucket_);
    std::memcpy(scales_out + 2 * done, scales, 2 * now);
  }
  const std::size_t groups = (count + 7) / 8;
  std::fill(codes + count, codes + groups * 8, std::uint8_t{0});
  PackCodes(codes, groups, bits_, body + ScaleBytes(n) + first / 8 * bits_);
  return Status::Ok();
}

void BucketCode::DecodeBlock(const std::byte* body, std::size_t first, std::size_t count,
                             std::size_t n, std::uint8_t* codes, float* x) const {
  UnpackCodes(body + ScaleBytes(n) + first / 8 * bits_, (count + 7) / 8, bits_, codes);
  LevelsOfBlock(body, first, count, codes, x);
}

void BucketCode::LevelsOfBlock(const std::byte* body, std::size_t first, std::size_t count,
                               const std::uint8_t* codes, float* x) const {
  DequantiseBuckets(codes, count / bucket_, bucket_, bits_, body + ScaleBytes(first), x);
}

Status BucketCode::CheckBody(const std::byte* body, std::size_t n, std::string_view spec) const {
  const auto wrong = [&](const std::string& what) {
    return InvalidArgument("codec " + std::string(spec) + ": " + what +
                           "; drop the message and ask for it again");
  };
  for (std::size_t i = 0; i < n / bucket_; ++i) {
    const auto scale = LoadLittle<std::uint16_t>(body + 2 * i);
    if (scale != 0 && (scale < kScaleBitsMin || scale > kScaleBitsMax)) {
      return wrong("scale " + std::to_string(i) + " has the bits " + std::to_string(scale) +
                   ", allowed is 0 or " + std::to_string(kScaleBitsMin) + " to " +
                   std::to_string(kScaleBitsMax));
    }
  }
  if (n % 8 != 0) {
    std::uint64_t group = 0;
    std::memcpy(&group, body + Bytes(n) - bits_, static_cast<std::size_t>(bits_));
    if ((group >> (n % 8 * bits_)) != 0) return wrong("padding bits of the last group are not 0");
  }
  return Status::Ok();
}

}  // namespace shoal::compression
