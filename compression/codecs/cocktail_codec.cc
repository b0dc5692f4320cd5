#include "compression/codecs/cocktail_codec.h"

#include <algorithm>
#include <string>
#include <vector>

#include "compression/api/message_noise.h"
#include "compression/api/sample_layout.h"
#include "compression/codecs/codec_entry.h"
#include "compression/codecs/codec_options.h"
#include "compression/codecs/topk_codec.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kSubsetStream = 10;

class CocktailCodec final : public PlainCodec {
 public:
  CocktailCodec(std::uint32_t stride, double ratio, int bits, std::uint32_t bucket,
                EntropyCoder coder)
      : stride_(stride), topk_(ratio, bits, bucket, coder) {
    spec_ = "cocktail" + std::string(EntropySuffix(coder)) + ":stride=" + std::to_string(stride_) +
            "," + std::string(SpecOptions(topk_.spec()));
  }

  const std::string& spec() const override { return spec_; }
  bool divisible() const override { return false; }
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override {
    return topk_.EncodedBytesMax(Part((shape.values() - 1) / stride_ + 1), samples);
  }

  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const override {
    SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, false, spec_));
    const StridedSubset subset = SubsetOf(key, stride_, shape.values());
    const std::size_t count = subset.count(shape.values());
    std::vector<float> values(samples.size() * count);
    std::vector<std::span<const float>> parts;
    std::vector<std::span<float>> got;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::span<float> part = std::span(values).subspan(i * count, count);
      for (std::size_t j = 0; j < count; ++j) {
        part[j] = samples[i][subset.first + j * subset.stride];
      }
      // What does not travel must be finite, too, or it would stay in a memory for ever.
      SHOAL_RETURN_IF_ERROR(
          CheckMagnitude(AbsMaxBits(samples[i].data(), samples[i].size()), kMagnitudeMax, spec_));
      parts.push_back(part);
      if (!decoded.empty()) got.push_back(part);
    }
    SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                           topk_.Encode(parts, Part(count), key, out, got));
    for (std::size_t i = 0; i < decoded.size(); ++i) Spread(subset, got[i], decoded[i]);
    return bytes;
  }

  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const override {
    SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, true, spec_));
    const StridedSubset subset = SubsetOf(key, stride_, shape.values());
    const std::size_t count = subset.count(shape.values());
    std::vector<float> values(samples.size() * count);
    std::vector<std::span<float>> parts;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      parts.push_back(samples[i].empty() ? std::span<float>()
                                         : std::span(values).subspan(i * count, count));
    }
    const Status status = topk_.Decode(payload, Part(count), key, parts);
    if (!status.ok()) return status.WithContext("codec " + spec_);
    for (std::size_t i = 0; i < samples.size(); ++i) Spread(subset, parts[i], samples[i]);
    return Status::Ok();
  }

 private:
  static SampleShape Part(std::size_t count) { return {static_cast<std::uint32_t>(count), 1}; }
  static void Spread(const StridedSubset& subset, std::span<const float> part,
                     std::span<float> values) {
    std::fill(values.begin(), values.end(), 0.0F);
    for (std::size_t j = 0; j < part.size(); ++j) {
      values[subset.first + j * subset.stride] = part[j];
    }
  }

  const std::size_t stride_;
  const TopKCodec topk_;
  std::string spec_;
};

}  // namespace

StridedSubset SubsetOf(const RandomKey& key, std::size_t stride, std::size_t values) {
  RandomKey shared;
  shared.seed = key.seed;
  shared.step = key.step;
  float draw = 0;
  FillUniform(shared, kSubsetStream, 0, {&draw, 1});
  const std::size_t firsts = std::min(stride, values);
  const auto first =
      static_cast<std::size_t>(static_cast<double>(draw) * static_cast<double>(firsts));
  return {first, stride};
}

namespace {

constexpr std::uint32_t kStrideMax = 10000;

Result<PlainPointer> Make(const CodecSpec& spec, std::uint32_t /*hidden*/) {
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t stride,
                         NumberOption(spec, "stride", 1, kStrideMax, std::nullopt));
  SHOAL_ASSIGN_OR_RETURN(const double ratio, FractionOption(spec, "ratio", 1e-4, 1, std::nullopt));
  SHOAL_ASSIGN_OR_RETURN(const int bits, BitsOption(spec));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bucket,
                         NumberOption(spec, "bucket", 1, kHiddenMax, kKeptBucketDefault));
  SHOAL_ASSIGN_OR_RETURN(const EntropyCoder coder, EntropyOption(spec));
  return PlainPointer(std::make_shared<const CocktailCodec>(stride, ratio, bits, bucket, coder));
}

constexpr std::string_view kKeys[] = {"stride", "ratio", "bits", "bucket", "feedback"};

}  // namespace

const CodecEntry& CocktailEntry() {
  static constexpr CodecEntry kEntry{
      .name = "cocktail",
      .usage = "cocktail:stride=1..10000,ratio=0.0001..1,bits=1..8[,bucket=N]",
      .keys = kKeys,
      .entropy_coder = true,
      .make_plain = Make,
      .no_feedback = [](const CodecSpec&) { return kGroupsHaveFeedback; },
  };
  return kEntry;
}

}  // namespace shoal::compression
