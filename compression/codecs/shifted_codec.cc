#include "compression/codecs/shifted_codec.h"

#include <string>
#include <utility>
#include <vector>

#include "compression/api/message_noise.h"
#include "compression/codecs/codec_entry.h"
#include "compression/codecs/codec_options.h"
#include "compression/codecs/range_codec.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kShiftStream = 9;

RangeFormat FormatOf(int bits, std::uint32_t bucket, EntropyCoder coder) {
  RangeFormat format;
  format.id = CodecId::kShifted;
  format.bits = bits;
  format.bucket = bucket;
  format.coder = coder;
  format.spec = "shifted" + std::string(EntropySuffix(coder)) + ":bits=" + std::to_string(bits) +
                ",bucket=" + std::to_string(bucket);
  return format;
}

class ShiftedCodec final : public RangeCodec {
 public:
  explicit ShiftedCodec(RangeFormat format) : RangeCodec(std::move(format)) {}

 protected:
  void Quantise(const float* x, const BucketRun& run, const RandomKey& key,
                std::uint8_t* codes) const override {
    std::vector<float> bias = Shifts(run, key), inverse(bias.size());
    for (std::size_t b = 0; b < bias.size(); ++b) {
      const BucketBounds& bounds = run.bounds[b];
      inverse[b] = bounds.width == 0 ? 0.0F : static_cast<float>(top()) / bounds.width;
      bias[b] = (0.5F - bias[b]) - bounds.low * inverse[b];
    }
    QuantiseBuckets(x, bias.size(), bucket(), top(), inverse.data(), bias.data(), nullptr, codes);
  }

  void Levels(const std::uint8_t* codes, const BucketRun& run, const RandomKey& key,
              float* x) const override {
    std::vector<float> offset = Shifts(run, key), step(offset.size());
    for (std::size_t b = 0; b < offset.size(); ++b) {
      step[b] = run.bounds[b].width / static_cast<float>(top());
      offset[b] = run.bounds[b].low + offset[b] * step[b];
    }
    DequantiseBuckets(codes, offset.size(), bucket(), step.data(), offset.data(), x);
  }

 private:
  // u of every bucket of the run.
  static std::vector<float> Shifts(const BucketRun& run, const RandomKey& key) {
    std::vector<float> shifts(run.bounds.size());
    FillUniform(key, kShiftStream, run.first, shifts);
    for (float& shift : shifts) shift -= 0.5F;
    return shifts;
  }
};

Result<PlainPointer> Make(const CodecSpec& spec, std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(const int bits, BitsOption(spec));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bucket, RangeBucketOption(spec, hidden));
  SHOAL_ASSIGN_OR_RETURN(const EntropyCoder coder, EntropyOption(spec));
  return PlainPointer(std::make_shared<const ShiftedCodec>(FormatOf(bits, bucket, coder)));
}

constexpr std::string_view kKeys[] = {"bits", "bucket", "feedback"};

}  // namespace

const CodecEntry& ShiftedEntry() {
  static constexpr CodecEntry kEntry{
      .name = "shifted",
      .usage = "shifted:bits=1..8[,bucket=N]",
      .keys = kKeys,
      .entropy_coder = true,
      .make_plain = Make,
      .no_feedback = [](const CodecSpec&) { return kRandomNeedsNoFeedback; },
      .unbiased = [](const CodecSpec&) { return true; },
  };
  return kEntry;
}

}  // namespace shoal::compression
