#include "replica/collective/one_bit_coder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "common/bytes.h"
#include "common/half.h"
#include "compression/simd/vector_kernels.h"

namespace shoal::collective {
namespace {

constexpr std::size_t kScaleBytes = sizeof(float);
// Below it a scale would be subnormal; then the bucket decodes to zeros.
constexpr double kScaleMin = 0x1p-126;

std::size_t CeilDiv(std::size_t a, std::size_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// The scale of a bucket of n values from the sum of their squares.
Result<float> ScaleOf(double squares, std::size_t n) {
  const double scale = std::sqrt(squares / static_cast<double>(n));
  if (!std::isfinite(scale)) {
    return InvalidArgument(
        "a value that is not finite cannot be sent as one bit; lower the learning rate, or look at "
        "the step's loss");
  }
  // The largest rms is below the largest float times (1 + 2^-50), which rounds to it.
  return scale < kScaleMin ? 0 : static_cast<float>(scale);
}

// Value `first` + i has its sign at bit first + i: of a bucket that begins within a byte.
void SetSignedFrom(const std::byte* signs, std::size_t first, float magnitude,
                   std::span<float> values) {
  std::size_t i = 0;
  for (; i < values.size() && (first + i) % 8 != 0; ++i) {
    const std::size_t at = first + i;
    const bool plus = (std::to_integer<unsigned>(signs[at / 8]) >> at % 8 & 1) != 0;
    values[i] = plus ? magnitude : -magnitude;
  }
  compression::SetSigned(signs + (first + i) / 8, values.size() - i, magnitude, values.data() + i);
}

class OneBitCoder final : public ChunkCoder {
 public:
  explicit OneBitCoder(std::uint32_t bucket)
      : bucket_(bucket),
        spec_(bucket == 0 ? "onebit" : "onebit:bucket=" + std::to_string(bucket)) {}

  const std::string& spec() const override { return spec_; }

  std::size_t BytesMax(std::size_t values) const override {
    return Scales(values) * kScaleBytes + CeilDiv(values, 8);
  }

  Result<std::size_t> Encode(std::span<const float> values, const compression::RandomKey&,
                             std::span<std::byte> out) const override {
    const std::size_t scales = Scales(values.size());
    const std::size_t bytes = BytesMax(values.size());
    SHOAL_CHECK(!values.empty() && out.size() >= bytes);
    for (std::size_t b = 0; b < scales; ++b) {
      const std::span<const float> bucket = Bucket(values, b);
      SHOAL_ASSIGN_OR_RETURN(
          const float scale,
          ScaleOf(compression::OrderedSquares(bucket.data(), bucket.size()), bucket.size()));
      StoreLittle(out.data() + b * kScaleBytes, std::bit_cast<std::uint32_t>(scale));
    }
    compression::PackSignBits(values.data(), values.size(), out.data() + scales * kScaleBytes);
    return bytes;
  }

  Status Decode(std::span<const std::byte> payload, const compression::RandomKey&,
                std::span<float> values) const override {
    SHOAL_RETURN_IF_ERROR(CheckPayload(payload, values.size()));
    const std::byte* const signs = payload.data() + Scales(values.size()) * kScaleBytes;
    for (std::size_t b = 0; b < Scales(values.size()); ++b) {
      const std::span<float> bucket = Bucket(values, b);
      const float scale = ScaleAt(payload, b);
      if (scale == 0) {  // +0, whatever the signs say
        std::ranges::fill(bucket, 0.0F);
      } else {
        SetSignedFrom(signs, static_cast<std::size_t>(bucket.data() - values.data()), scale,
                      bucket);
      }
    }
    return Status::Ok();
  }

  // One pass for the sums and squares of a bucket, and one, of what a cache holds, for the rest.
  Result<std::size_t> EncodeKeeping(std::span<const float> values, std::span<const float> before,
                                    const compression::RandomKey& key, std::span<std::byte> out,
                                    std::span<float> next,
                                    std::span<float> decoded) const override {
    if (bucket_ % 8 != 0 || before.empty()) {
      return ChunkCoder::EncodeKeeping(values, before, key, out, next, decoded);
    }
    const std::size_t scales = Scales(values.size());
    SHOAL_CHECK(!values.empty() && out.size() >= BytesMax(values.size()));
    SHOAL_CHECK(before.size() == values.size() && next.size() == values.size());
    std::byte* signs = out.data() + scales * kScaleBytes;
    for (std::size_t b = 0; b < scales; ++b) {
      const std::span<const float> bucket = Bucket(values, b);
      const std::size_t first = static_cast<std::size_t>(bucket.data() - values.data());
      float* const rest = next.data() + first;
      const double squares =
          compression::AddVectorsSquared(bucket.data(), before.data() + first, bucket.size(), rest);
      SHOAL_ASSIGN_OR_RETURN(const float scale, ScaleOf(squares, bucket.size()));
      StoreLittle(out.data() + b * kScaleBytes, std::bit_cast<std::uint32_t>(scale));
      float* const said = decoded.empty() ? nullptr : decoded.data() + first;
      compression::TakeSigned(rest, bucket.size(), scale, signs + first / 8, said);
      if (scale == 0 && said != nullptr) std::fill(said, said + bucket.size(), 0.0F);
    }
    return BytesMax(values.size());
  }

  Status DecodeOnto(std::span<const std::byte> payload, const compression::RandomKey& key,
                    float factor, bool first, std::span<float> sum) const override {
    if (bucket_ % 8 != 0 || first) {
      return ChunkCoder::DecodeOnto(payload, key, factor, first, sum);
    }
    SHOAL_RETURN_IF_ERROR(CheckPayload(payload, sum.size()));
    const std::byte* const signs = payload.data() + Scales(sum.size()) * kScaleBytes;
    for (std::size_t b = 0; b < Scales(sum.size()); ++b) {
      const std::span<float> bucket = Bucket(sum, b);
      const float scale = ScaleAt(payload, b);
      if (scale == 0) {  // +0, which makes one of -0
        for (float& value : bucket) value += 0.0F * factor;
        continue;
      }
      const std::size_t at = static_cast<std::size_t>(bucket.data() - sum.data());
      compression::AddSigned(signs + at / 8, bucket.size(), scale * factor, bucket.data());
    }
    return Status::Ok();
  }

 private:
  static float ScaleAt(std::span<const std::byte> payload, std::size_t b) {
    return std::bit_cast<float>(LoadLittle<std::uint32_t>(payload.data() + b * kScaleBytes));
  }
  // Foreign bytes of so many values: their number, the bits behind the last one, the scales.
  Status CheckPayload(std::span<const std::byte> payload, std::size_t values) const {
    if (payload.size() != BytesMax(values)) {
      return InvalidArgument("a one-bit payload of " + std::to_string(payload.size()) +
                             " bytes instead of " + std::to_string(BytesMax(values)));
    }
    if (const std::size_t rest = values % 8;
        rest != 0 && std::to_integer<unsigned>(payload.back()) >> rest != 0) {
      return InvalidArgument("a one-bit payload with bits behind its last value");
    }
    for (std::size_t b = 0; b < Scales(values); ++b) {
      const auto scale = LoadLittle<std::uint32_t>(payload.data() + b * kScaleBytes);
      // Not negative, finite, and not subnormal.
      const bool normal = scale >= 0x00800000 && scale < kFloatInfinity;
      if (scale != 0 && !normal) return InvalidArgument("a one-bit payload with a wrong scale");
    }
    return Status::Ok();
  }
  std::size_t Scales(std::size_t values) const {
    return bucket_ == 0 ? 1 : CeilDiv(values, bucket_);
  }
  template <typename T>
  std::span<T> Bucket(std::span<T> values, std::size_t b) const {
    if (bucket_ == 0) return values;
    const std::size_t first = b * bucket_;
    return values.subspan(first, std::min<std::size_t>(bucket_, values.size() - first));
  }

  const std::uint32_t bucket_;
  const std::string spec_;
};

}  // namespace

Result<std::shared_ptr<const ChunkCoder>> MakeOneBitCoder(const compression::CodecSpec& spec) {
  SHOAL_RETURN_IF_ERROR(CheckNoEntropyCoder(spec));
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"bucket"}));
  std::uint32_t bucket = 0;
  if (!spec.Option("bucket").empty()) {
    SHOAL_ASSIGN_OR_RETURN(bucket, NumberOption(spec, "bucket", 1, UINT32_MAX, {}));
  }
  return std::shared_ptr<const ChunkCoder>(std::make_shared<OneBitCoder>(bucket));
}

}  // namespace shoal::collective
