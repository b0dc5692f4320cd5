#include "compression/codecs/plain_codec.h"

#include <utility>
#include <vector>

#include "compression/codecs/coding_sample.h"

namespace shoal::compression {
namespace {

class PlainMessageCodec : public MessageCodec {
 public:
  explicit PlainMessageCodec(std::shared_ptr<const PlainCodec> codec) : codec_(std::move(codec)) {}

  const std::string& spec() const override { return codec_->spec(); }
  bool keeps_m() const override { return false; }
  bool divisible() const override { return codec_->divisible(); }
  std::size_t MImageBytes(SampleShape) const override { return 0; }
  Status CheckMImage(std::span<const std::byte>, SampleShape) const override {
    return InvalidArgument("codec " + spec() + " keeps no m");
  }
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override {
    return codec_->EncodedBytesMax(shape, samples);
  }

  Result<std::size_t> Encode(std::span<const SampleToEncode> samples, SampleShape shape,
                             const RandomKey& key, DeltaMode, std::span<std::byte> out,
                             std::span<Buffer>, CodingStats* stats) const override {
    std::vector<std::span<const float>> sources;
    for (const SampleToEncode& sample : samples) {
      SHOAL_CHECK(sample.m.empty());
      sources.push_back(sample.values);
    }
    std::vector<float> values(stats == nullptr ? 0 : samples.size() * shape.values());
    std::vector<std::span<float>> decoded;
    for (std::size_t i = 0; stats != nullptr && i < samples.size(); ++i) {
      decoded.push_back(std::span(values).subspan(i * shape.values(), shape.values()));
    }
    SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                           codec_->Encode(sources, shape, key, out, decoded));
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      CountErrors(i, sources[i], decoded[i].data(), stats);
    }
    return bytes;
  }

  Status Decode(std::span<const std::byte> payload, std::span<const SampleToDecode> samples,
                SampleShape shape, const RandomKey& key, std::span<Buffer>) const override {
    std::vector<std::span<float>> decoded;
    for (const SampleToDecode& sample : samples) {
      SHOAL_CHECK(!sample.delta);
      decoded.push_back(sample.values);
    }
    return codec_->Decode(payload, shape, key, decoded);
  }

 private:
  std::shared_ptr<const PlainCodec> codec_;
};

}  // namespace

std::shared_ptr<const MessageCodec> NewPlainMessageCodec(std::shared_ptr<const PlainCodec> codec) {
  return std::make_shared<PlainMessageCodec>(std::move(codec));
}

}  // namespace shoal::compression
