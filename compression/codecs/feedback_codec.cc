#include "compression/codecs/feedback_codec.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/half.h"
#include "compression/api/m_format.h"
#include "compression/api/sample_layout.h"
#include "compression/codecs/coding_sample.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {
namespace {

constexpr int kHalfBits = 16;
constexpr std::byte kResidualMark{1};  // where an m image has 0
// The largest value is brought to [2^14, 2^15).
constexpr int kLargestExponent = 14;
// With less, fp16's smallest value would become an fp32 subnormal.
constexpr int kExponentMin = -102;

Status Wrong(const std::string& what) {
  return InvalidArgument("residual image: " + what +
                         "; drop it, the sample's next gradient goes without");
}

int ExponentOf(std::uint32_t magnitude_bits) {
  if (magnitude_bits == 0) return 0;
  const int largest = static_cast<int>(magnitude_bits >> 23) - 127;
  return std::clamp(largest - kLargestExponent, kExponentMin, kExponentMax);
}

class FeedbackCodec final : public MessageCodec {
 public:
  explicit FeedbackCodec(std::shared_ptr<const PlainCodec> inner)
      : inner_(std::move(inner)), spec_(inner_->spec() + ",feedback=on") {}

  const std::string& spec() const override { return spec_; }
  bool keeps_m() const override { return false; }
  bool keeps_residual() const override { return true; }
  bool divisible() const override { return inner_->divisible(); }
  std::size_t MImageBytes(SampleShape shape) const override {
    return kMImageHeaderBytes + 2 * shape.values();
  }
  Status CheckMImage(std::span<const std::byte> image, SampleShape shape) const override {
    return CheckResidualImage(image, shape);
  }
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override {
    return inner_->EncodedBytesMax(shape, samples);
  }

  Result<std::size_t> Encode(std::span<const SampleToEncode> samples, SampleShape shape,
                             const RandomKey& key, DeltaMode mode, std::span<std::byte> out,
                             std::span<Buffer> next_residual, CodingStats* stats) const override;

  Status Decode(std::span<const std::byte> payload, std::span<const SampleToDecode> samples,
                SampleShape shape, const RandomKey& key, std::span<Buffer>) const override {
    std::vector<std::span<float>> decoded;
    for (const SampleToDecode& sample : samples) {
      SHOAL_CHECK(!sample.delta);
      decoded.push_back(sample.values);
    }
    return inner_->Decode(payload, shape, key, decoded);
  }

 private:
  std::shared_ptr<const PlainCodec> inner_;
  std::string spec_;
};

Result<std::size_t> FeedbackCodec::Encode(std::span<const SampleToEncode> samples,
                                          SampleShape shape, const RandomKey& key, DeltaMode,
                                          std::span<std::byte> out, std::span<Buffer> next_residual,
                                          CodingStats* stats) const {
  SHOAL_CHECK(next_residual.size() == samples.size());
  const std::size_t n = shape.values();
  std::vector<std::vector<float>> sums, decoded;
  std::vector<std::span<const float>> sources;
  std::vector<std::span<float>> made;
  for (const SampleToEncode& sample : samples) {
    std::vector<float>& sum = sums.emplace_back(sample.values.size());
    if (sample.m.empty()) {
      std::copy(sample.values.begin(), sample.values.end(), sum.begin());
    } else {
      SHOAL_CHECK(sum.size() == n);
      if (Status status = CheckResidualImage(sample.m, shape); !status.ok()) {
        return status.WithContext("codec " + spec_);
      }
      ReadResidualImage(sample.m, sum);
      for (std::size_t i = 0; i < n; ++i) sum[i] += sample.values[i];
    }
    sources.push_back(sum);
    made.push_back(decoded.emplace_back(sum.size()));
  }
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes, inner_->Encode(sources, shape, key, out, made));
  for (std::size_t s = 0; s < samples.size(); ++s) {
    if (stats != nullptr) CountErrors(s, sources[s], made[s].data(), stats);
    for (std::size_t i = 0; i < n; ++i) made[s][i] = sums[s][i] - made[s][i];
    next_residual[s] = MakeResidualImage(made[s], shape);
  }
  return bytes;
}

}  // namespace

Buffer MakeResidualImage(std::span<const float> residual, SampleShape shape) {
  SHOAL_CHECK(residual.size() == shape.values());
  const std::uint32_t most = AbsMaxBits(residual.data(), residual.size());
  SHOAL_CHECK(FiniteBits(most));
  const int exponent = ExponentOf(most);
  Buffer image(kMImageHeaderBytes + 2 * residual.size());
  MFormat(kHalfBits).WriteHeader(exponent, shape, image.data());
  image.data()[3] = kResidualMark;
  ToHalf(residual.data(), PowerOfTwo(-exponent), residual.size(),
         image.data() + kMImageHeaderBytes);
  return image;
}

Status CheckResidualImage(std::span<const std::byte> image, SampleShape shape) {
  const std::size_t size = kMImageHeaderBytes + 2 * shape.values();
  if (image.size() != size) {
    return Wrong(std::to_string(image.size()) + " bytes, expected " + std::to_string(size));
  }
  const std::byte* head = image.data();
  if (head[0] != std::byte{kMImageVersion} || head[2] != std::byte{kHalfBits} ||
      head[3] != kResidualMark || LoadLittle<std::uint32_t>(head + 4) != 0) {
    return Wrong("not the header of one");
  }
  if (const int exponent = MFormat::Exponent(image);
      exponent < kExponentMin || exponent > kExponentMax) {
    return Wrong("exponent " + std::to_string(exponent) + ", allowed is " +
                 std::to_string(kExponentMin) + " to " + std::to_string(kExponentMax));
  }
  const auto values = LoadLittle<std::uint64_t>(head + 8);
  if (values == shape.values()) return Status::Ok();
  return Wrong(std::to_string(values) + " values, expected " + std::to_string(shape.values()));
}

void ReadResidualImage(std::span<const std::byte> image, std::span<float> residual) {
  FromHalf(MFormat::Halves(image), PowerOfTwo(MFormat::Exponent(image)), residual.size(),
           residual.data());
}

std::shared_ptr<const MessageCodec> NewFeedbackCodec(std::shared_ptr<const PlainCodec> inner) {
  return std::make_shared<FeedbackCodec>(std::move(inner));
}

}  // namespace shoal::compression
