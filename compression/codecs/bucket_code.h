// BucketCode: the b-bit code with scales that `direct` and `aqsgd` share.
//
// A bucket is `bucket` adjacent values of one token and has one scale (two for kAffine). Codes are
// adjacent bits, groups of 8 codes in b bytes. Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_BUCKET_CODE_H_
#define SHOAL_COMPRESSION_CODECS_BUCKET_CODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"
#include "compression/api/codec.h"
#include "compression/simd/level_rule.h"

namespace shoal::compression {

class BucketCode {
 public:
  BucketCode(const LevelRule& rule, std::uint32_t bucket) : rule_(rule), bucket_(bucket) {}

  const LevelRule& rule() const { return rule_; }
  int bits() const { return rule_.bits(); }
  std::uint32_t bucket() const { return bucket_; }
  // Bytes of scales and packed codes for n values; n is a multiple of the bucket.
  std::size_t ScaleBytes(std::size_t n) const { return n / bucket_ * rule_.scale_bytes(); }
  std::size_t CodeBytes(std::size_t n) const { return (n + 7) / 8 * bits(); }

  // Work is done in blocks that stay in the L1 cache: whole buckets and whole groups of 8.
  std::size_t BlockValues(std::size_t n) const;

  // Codes `count` values, whole buckets: their scales go to `scales`, their codes to `codes`.
  // Error if a value is not finite or exceeds `most`. `noise` belongs to rounding (LevelRule).
  Status Quantise(const float* x, std::size_t count, float most, const float* noise,
                  std::string_view spec, std::uint8_t* codes, std::byte* scales) const;
  // The levels of `count` codes with these scales, which have passed CheckScales.
  void Levels(const std::uint8_t* codes, const std::byte* scales, std::size_t count,
              float* x) const;

  // Codes <-> packed codes. The bits behind the last code of a group are 0, which Unpack leaves to
  // CheckPadding. `codes` has room for `count` rounded up to 8.
  void Pack(std::uint8_t* codes, std::size_t count, std::byte* packed) const;
  void Unpack(const std::byte* packed, std::size_t count, std::uint8_t* codes) const;

  Status CheckScales(const std::byte* scales, std::size_t n, std::string_view spec) const;
  Status CheckPadding(const std::byte* packed, std::size_t n, std::string_view spec) const;

 private:
  LevelRule rule_;
  std::uint32_t bucket_;
};

// Error, listing the buckets that are allowed, unless the bucket divides the shape's hidden size.
Status CheckBucketFits(std::uint32_t bucket, SampleShape shape, std::string_view spec);
// The divisors of `hidden`, ascending: "1, 2, 4".
std::string BucketsAllowed(std::uint32_t hidden);
// 128 or the next smaller divisor of `hidden`.
std::uint32_t DefaultBucket(std::uint32_t hidden);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_BUCKET_CODE_H_
