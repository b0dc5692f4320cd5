#include "compression/codecs/scaled/scaled_codec.h"

#include <algorithm>
#include <vector>

#include "common/bytes.h"
#include "common/memory/buffer.h"
#include "compression/api/sample_layout.h"
#include "compression/codecs/scaled/channel_scales.h"
#include "compression/simd/vector_kernels.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kSideAt = kPayloadHeaderBytes + 4;  // behind the size of the exponents

// A flag, and the longest code for each channel.
std::size_t SideBytesMax(std::uint32_t hidden) {
  return (1 + std::size_t{hidden} * (2 * kChannelExponentMost + 1) + 7) / 8;
}

PayloadHeader HeaderFor(SampleShape shape, std::size_t samples) {
  PayloadHeader header;
  header.codec = CodecId::kScaled;
  header.type = ValueType::kFp32;
  header.values = samples * shape.values();
  return header;
}

void ScaleTokens(const std::vector<float>& factors, std::span<const float> x, std::span<float> y) {
  const std::size_t hidden = factors.size();
  for (std::size_t at = 0; at < x.size(); at += hidden) {
    ScaleEach(x.data() + at, factors.data(), hidden, y.data() + at);
  }
}

// Samples times their channels' factors, in a place of their own.
class ScaledSamples {
 public:
  ScaledSamples(const std::vector<float>& factors, std::span<const std::span<const float>> samples,
                SampleShape shape)
      : values_(samples.size() * shape.values() * sizeof(float)) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      spans_.push_back(values_.floats().subspan(i * shape.values(), shape.values()));
      ScaleTokens(factors, samples[i], spans_.back());
    }
  }
  const std::vector<std::span<float>>& spans() const { return spans_; }
  std::vector<std::span<const float>> sources() const { return {spans_.begin(), spans_.end()}; }

 private:
  Buffer values_;
  std::vector<std::span<float>> spans_;
};

}  // namespace

std::size_t ScaledHeadBytesMax(std::uint32_t hidden) { return kSideAt + SideBytesMax(hidden); }

std::size_t WriteScaledHead(const ChannelExponents& exponents, SampleShape shape,
                            std::size_t samples, std::span<std::byte> out) {
  SHOAL_CHECK(out.size() >= ScaledHeadBytesMax(shape.hidden));
  BitWriter side;
  WriteChannelExponents(exponents, &side);
  WritePayloadHeader(HeaderFor(shape, samples), out.data());
  StoreLittle(out.data() + kPayloadHeaderBytes, static_cast<std::uint32_t>(side.bytes().size()));
  std::copy(side.bytes().begin(), side.bytes().end(), out.data() + kSideAt);
  return kSideAt + side.bytes().size();
}

Result<ScaledHead> ReadScaledHead(std::span<const std::byte> payload, SampleShape shape,
                                  std::size_t samples, std::string_view spec) {
  SHOAL_RETURN_IF_ERROR(CheckHeader(payload, HeaderFor(shape, samples), spec).status());
  const auto wrong = [&](const char* what) {
    return InvalidArgument("codec " + std::string(spec) + ": " + what +
                           "; drop the message and ask for it again");
  };
  if (payload.size() < kSideAt) return wrong("the size of the channel scales is cut off");
  const std::size_t side_bytes = LoadLittle<std::uint32_t>(payload.data() + kPayloadHeaderBytes);
  if (side_bytes > payload.size() - kSideAt) return wrong("the channel scales are cut off");
  BitReader side(payload.subspan(kSideAt, side_bytes));
  ScaledHead head;
  if (!ReadChannelExponents(&side, shape.hidden, &head.exponents) ||
      side.bytes_used() != side_bytes || !side.RestIsZero()) {
    return wrong("the channel scales are broken");
  }
  head.bytes = kSideAt + side_bytes;
  return head;
}

std::size_t ScaledCodec::EncodedBytesMax(SampleShape shape, std::size_t samples) const {
  return ScaledHeadBytesMax(shape.hidden) + inner_->EncodedBytesMax(shape, samples);
}

std::shared_ptr<const PlainCodec> ScaledCodec::Wider() const {
  auto wider = inner_->Wider();
  return wider == nullptr ? nullptr : std::make_shared<const ScaledCodec>(std::move(wider));
}

Result<std::size_t> ScaledCodec::EncodeChanges(std::span<const std::span<const float>> changes,
                                               std::span<const std::span<const float>> values,
                                               SampleShape shape, const RandomKey& key,
                                               std::span<std::byte> out,
                                               std::span<const std::span<float>> decoded) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, changes, false, spec_));
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, changes.size()));
  if (!follows_values()) values = {};
  const ChannelExponents exponents = FitChannelExponents(values.empty() ? changes : values, shape);
  const std::size_t before = WriteScaledHead(exponents, shape, changes.size(), out);
  const std::span<std::byte> body = out.subspan(before);
  if (exponents.empty()) {
    SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                           inner_->EncodeChanges(changes, values, shape, key, body, decoded));
    return before + bytes;
  }
  const std::vector<float> down = ChannelFactors(exponents, true);
  const ScaledSamples scaled(down, changes, shape), scaled_values(down, values, shape);
  const std::vector<std::span<float>> results =
      decoded.empty() ? std::vector<std::span<float>>() : scaled.spans();
  SHOAL_ASSIGN_OR_RETURN(
      const std::size_t bytes,
      inner_->EncodeChanges(scaled.sources(), scaled_values.sources(), shape, key, body, results));
  const std::vector<float> up = ChannelFactors(exponents, false);
  for (std::size_t i = 0; i < results.size(); ++i) ScaleTokens(up, results[i], decoded[i]);
  return before + bytes;
}

Status ScaledCodec::Decode(std::span<const std::byte> payload, SampleShape shape,
                           const RandomKey& key, std::span<const std::span<float>> samples) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, true, spec_));
  SHOAL_ASSIGN_OR_RETURN(const ScaledHead head,
                         ReadScaledHead(payload, shape, samples.size(), spec_));
  SHOAL_RETURN_IF_ERROR(inner_->Decode(payload.subspan(head.bytes), shape, key, samples));
  if (head.exponents.empty()) return Status::Ok();
  const std::vector<float> up = ChannelFactors(head.exponents, false);
  for (const std::span<float> sample : samples) {
    for (std::size_t at = 0; at < sample.size(); at += shape.hidden) {
      MultiplyEach(up.data(), shape.hidden, sample.data() + at);
    }
  }
  return Status::Ok();
}

}  // namespace shoal::compression
