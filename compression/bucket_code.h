// BucketCode: the b-bit code with one bf16 scale per bucket that `direct` and `aqsgd` share.
//
// A bucket is `bucket` adjacent values of one token. Levels are symmetric and mid-rise,
// scale * (2k + 1 - 2^b) / 2^b for k = 0 .. 2^b - 1; the scale is the bucket's absmax rounded up
// to bf16, so that no value leaves the range; rounding is to the nearest level. A bucket whose
// absmax is below 2^-100 has scale 0 and decodes to zeros.
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_BUCKET_CODE_H_
#define SHOAL_COMPRESSION_BUCKET_CODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"
#include "compression/codec.h"

namespace shoal::compression {

class BucketCode {
 public:
  BucketCode(int bits, std::uint32_t bucket) : bits_(bits), bucket_(bucket) {}

  int bits() const { return bits_; }
  std::uint32_t bucket() const { return bucket_; }
  // Bytes of scales and codes for n values; n is a multiple of the bucket.
  std::size_t ScaleBytes(std::size_t n) const { return n / bucket_ * 2; }
  std::size_t CodeBytes(std::size_t n) const { return (n + 7) / 8 * bits_; }
  std::size_t Bytes(std::size_t n) const { return ScaleBytes(n) + CodeBytes(n); }

  // Work is done in blocks that stay in the L1 cache: whole buckets and whole groups of 8.
  std::size_t BlockValues(std::size_t n) const;

  // Writes values [first, first + count) of a sample of n: their scales and codes go to their
  // places in `body` (Bytes(n)). `first` is a multiple of BlockValues, `codes` scratch of count
  // rounded up to 8, left holding the codes. Error if a value is not finite or exceeds `most`.
  Status EncodeBlock(const float* x, std::size_t first, std::size_t count, std::size_t n,
                     float most, std::string_view spec, std::uint8_t* codes, std::byte* body) const;
  // The levels of codes that EncodeBlock left in `codes`, or that are taken from `body`, which
  // has passed CheckBody.
  void LevelsOfBlock(const std::byte* body, std::size_t first, std::size_t count,
                     const std::uint8_t* codes, float* x) const;
  void DecodeBlock(const std::byte* body, std::size_t first, std::size_t count, std::size_t n,
                   std::uint8_t* codes, float* x) const;

  // Scales are 0 or within [2^-100, 2^121], and the padding bits of the last group are zero.
  Status CheckBody(const std::byte* body, std::size_t n, std::string_view spec) const;

 private:
  int bits_;
  std::uint32_t bucket_;
};

// Error, listing the buckets that are allowed, unless the bucket divides the shape's hidden size.
Status CheckBucketFits(const BucketCode& code, SampleShape shape, std::string_view spec);
// The divisors of `hidden`, ascending: "1, 2, 4".
std::string BucketsAllowed(std::uint32_t hidden);
// 128 or the next smaller divisor of `hidden`.
std::uint32_t DefaultBucket(std::uint32_t hidden);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_BUCKET_CODE_H_
