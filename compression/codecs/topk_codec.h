// TopKCodec: sends the largest fraction of each sample's values by magnitude, quantised; the others
// decode to zero (the split-learning setting of AQ-SGD: "Fine-tuning Language Models over Slow
// Networks using Activation Quantization with Guarantees", section 4, 8 bits on the top 20 %; Aji
// and Heafield, "Sparse communication for distributed gradient descent", 2017).
//
// As the delta codec of aqsgd it has error feedback per sample: m moves by the decoded change, so
// the sample's next change contains the error. State kept: none. Bytes on the wire: a header of 24;
// per sample 1 byte, the positions (at most a bit per value), a scale per bucket of kept values,
// and b bits per kept value, or fewer with an entropy coder.

#ifndef SHOAL_COMPRESSION_CODECS_TOPK_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_TOPK_CODEC_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compression/codecs/plain_codec.h"
#include "compression/entropy/symbol_stream.h"

namespace shoal::compression {

// Values kept of n: ratio * n, rounded, at least one.
std::size_t KeptOf(double ratio, std::size_t n);

// The positions of the positions.size() largest magnitudes of x (finite values), growing; of equal
// magnitudes the earlier come first.
void SelectLargest(std::span<const float> x, std::span<std::uint32_t> positions);

// What a section holds.
struct TopKParts {
  std::vector<std::uint32_t> positions;  // of each sample its kept ones, growing
  const std::byte* scales = nullptr;     // in the payload
  std::vector<std::uint8_t> codes;
};

class TopKCodec final : public PlainCodec {
 public:
  static constexpr CodecKind kKind{"topk"};

  // ratio 1e-4 .. 1; bits 1 .. 8; bucket: kept values that share a scale.
  TopKCodec(double ratio, int bits, std::uint32_t bucket, EntropyCoder coder);

  std::size_t Kept(SampleShape shape) const { return KeptOf(ratio_, shape.values()); }
  int bits() const { return bits_; }
  std::uint32_t bucket() const { return bucket_; }
  EntropyCoder coder() const { return coder_; }
  // Of one sample's kept values.
  std::size_t ScaleBytes(std::size_t kept) const { return (kept + bucket_ - 1) / bucket_ * 2; }
  // Error if a sample has more values than positions can say.
  Status CheckShape(SampleShape shape) const;
  // Writes what is in front of the positions; returns its bytes.
  std::size_t WriteHead(SampleShape shape, std::size_t samples, std::byte* out) const;
  // Reads a foreign section, with all checks.
  Status ReadParts(std::span<const std::byte> payload, SampleShape shape, std::size_t samples,
                   TopKParts* parts) const;

  const std::string& spec() const override { return spec_; }
  const CodecKind* kind() const override { return &kKind; }
  bool divisible() const override { return false; }  // the largest of the whole sample
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override;
  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const override;

 private:
  void Levels(const std::uint8_t* codes, const std::byte* scales, std::span<float> kept) const;

  double ratio_;
  int bits_;
  std::uint32_t bucket_;
  EntropyCoder coder_;
  std::string spec_;
};

const CodecEntry& TopKEntry();

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_TOPK_CODEC_H_
