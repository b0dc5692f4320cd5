#include "collective/one_bit_coder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/bytes.h"
#include "compression/half.h"

namespace shoal::collective {
namespace {

constexpr std::size_t kScaleBytes = sizeof(float);
constexpr std::size_t kLanes = 8;
// Below it a scale would be subnormal; then the bucket decodes to zeros.
constexpr double kScaleMin = 0x1p-126;

std::size_t CeilDiv(std::size_t a, std::size_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// ||x||_2 / sqrt(n) in fp64, summed in lanes so that compilers use SIMD. Not finite if a value is
// not.
double RootMeanSquare(std::span<const float> values) {
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t k = 0; k < kLanes; ++k) {
      const double value = values[i + k];
      lanes[k] += value * value;
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < values.size(); ++i) sum += static_cast<double>(values[i]) * values[i];
  return std::sqrt(sum / static_cast<double>(values.size()));
}

constexpr std::size_t kBlock = 256;  // values whose signs are bytes for a moment

// Eight bytes of 0 or 1, the first the lowest, to one of eight bits: the product's highest byte has
// byte i shifted by 56 - 7 i, and no two terms of the product meet.
std::byte BitsOf(std::uint64_t bytes) {
  return static_cast<std::byte>(bytes * 0x0102040810204080u >> 56);
}

// Bit j of byte i: 1 if value 8 i + j is not negative; -0 is +. Bits behind the last value are 0.
void PackBits(std::span<const float> values, std::byte* out) {
  alignas(64) std::array<std::uint8_t, kBlock> plus{};
  for (std::size_t first = 0; first < values.size(); first += kBlock) {
    const std::size_t count = std::min(kBlock, values.size() - first);
    const float* const from = values.data() + first;
    if (count < kBlock) plus.fill(0);
    for (std::size_t i = 0; i < count; ++i) plus[i] = from[i] < 0 ? 0 : 1;
    for (std::size_t i = 0; i < count; i += 8) {
      std::uint64_t bytes;
      std::memcpy(&bytes, plus.data() + i, sizeof(bytes));
      out[(first + i) / 8] = BitsOf(bytes);
    }
  }
}

constexpr std::array<std::uint32_t, 8> kBits{1, 2, 4, 8, 16, 32, 64, 128};

// values[i] = scale with the sign of bit first + i.
void UnpackBits(const std::byte* signs, std::size_t first, std::uint32_t scale,
                std::span<float> values) {
  const auto bit = [&](std::size_t i) {
    const std::size_t at = first + i;
    const std::uint32_t plus = std::to_integer<std::uint32_t>(signs[at / 8]) >> (at % 8) & 1;
    values[i] = std::bit_cast<float>(scale | (plus != 0 ? 0 : 0x80000000));
  };
  float* const to = values.data();
  std::size_t i = 0;
  for (; i < values.size() && (first + i) % 8 != 0; ++i) bit(i);
  for (; i + 8 <= values.size(); i += 8) {
    const auto byte = std::to_integer<std::uint32_t>(signs[(first + i) / 8]);
    for (std::size_t j = 0; j < 8; ++j) {
      to[i + j] = std::bit_cast<float>(scale | ((byte & kBits[j]) == 0 ? 0x80000000 : 0));
    }
  }
  for (; i < values.size(); ++i) bit(i);
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
      double scale = RootMeanSquare(Bucket(values, b));
      if (!std::isfinite(scale)) {
        return InvalidArgument(
            "a value that is not finite cannot be sent as one bit; lower the "
            "learning rate, or look at the step's loss");
      }
      if (scale < kScaleMin) scale = 0;
      // The largest rms is below the largest float times (1 + 2^-50), which rounds to it.
      StoreLittle(out.data() + b * kScaleBytes,
                  std::bit_cast<std::uint32_t>(static_cast<float>(scale)));
    }
    PackBits(values, out.data() + scales * kScaleBytes);
    return bytes;
  }

  Status Decode(std::span<const std::byte> payload, const compression::RandomKey&,
                std::span<float> values) const override {
    const std::size_t scales = Scales(values.size());
    if (payload.size() != BytesMax(values.size())) {
      return InvalidArgument("a one-bit payload of " + std::to_string(payload.size()) +
                             " bytes instead of " + std::to_string(BytesMax(values.size())));
    }
    if (const std::size_t rest = values.size() % 8;
        rest != 0 && std::to_integer<unsigned>(payload.back()) >> rest != 0) {
      return InvalidArgument("a one-bit payload with bits behind its last value");
    }
    const std::byte* const signs = payload.data() + scales * kScaleBytes;
    for (std::size_t b = 0; b < scales; ++b) {
      const auto scale = LoadLittle<std::uint32_t>(payload.data() + b * kScaleBytes);
      // Not negative, finite, and not subnormal.
      const bool normal = scale >= 0x00800000 && scale < compression::kFloatInfinity;
      if (scale != 0 && !normal) return InvalidArgument("a one-bit payload with a wrong scale");
      const std::span<float> bucket = Bucket(values, b);
      const std::size_t first = static_cast<std::size_t>(bucket.data() - values.data());
      if (scale == 0) {  // +0, whatever the signs say
        std::fill(bucket.begin(), bucket.end(), 0.0F);
      } else {
        UnpackBits(signs, first, scale, bucket);
      }
    }
    return Status::Ok();
  }

 private:
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

std::shared_ptr<const ChunkCoder> NewOneBitCoder(std::uint32_t bucket) {
  return std::make_shared<OneBitCoder>(bucket);
}

}  // namespace shoal::collective
