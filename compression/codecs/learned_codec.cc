#include "compression/codecs/learned_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "compression/codecs/codec_entry.h"
#include "compression/codecs/codec_options.h"
#include "compression/codecs/range_codec.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kCells = 1024;  // of the range, each of which knows its first code
constexpr float kUnits = 65535;

RangeFormat FormatOf(const LevelTable& levels, std::uint32_t bucket, EntropyCoder coder) {
  RangeFormat format;
  format.id = CodecId::kLearned;
  format.bits = std::countr_zero(levels.size());
  format.bucket = bucket;
  format.coder = coder;
  format.table = LevelChecksum(levels);
  format.spec = "learned" + std::string(EntropySuffix(coder)) +
                ":bits=" + std::to_string(format.bits) + ",bucket=" + std::to_string(bucket) +
                ",levels=" + LevelText(levels);
  return format;
}

class LearnedCodec final : public RangeCodec {
 public:
  LearnedCodec(const LevelTable& levels, std::uint32_t bucket, EntropyCoder coder)
      : RangeCodec(FormatOf(levels, bucket, coder)) {
    for (const std::uint16_t level : levels) points_.push_back(static_cast<float>(level) / kUnits);
    for (std::size_t k = 0; k + 1 < points_.size(); ++k) {
      borders_.push_back((points_[k] + points_[k + 1]) * 0.5F);
    }
    borders_.push_back(2.0F);  // behind every value
    for (std::size_t c = 0; c < kCells; ++c) {
      const float begin = static_cast<float>(c) / kCells;
      first_[c] = static_cast<std::uint8_t>(
          std::upper_bound(borders_.begin(), borders_.end(), begin) - borders_.begin());
    }
  }

 protected:
  void Quantise(const float* x, const BucketRun& run, const RandomKey&,
                std::uint8_t* codes) const override {
    for (const BucketBounds& bounds : run.bounds) {
      const float factor = bounds.width == 0 ? 0.0F : 1.0F / bounds.width;
      for (std::size_t i = 0; i < bucket(); ++i) {
        const float point = std::clamp((x[i] - bounds.low) * factor, 0.0F, 1.0F);
        const auto cell = static_cast<std::size_t>(point * kCells);
        std::uint8_t code = first_[std::min(cell, kCells - 1)];
        while (point >= borders_[code]) ++code;
        codes[i] = code;
      }
      x += bucket();
      codes += bucket();
    }
  }

  void Levels(const std::uint8_t* codes, const BucketRun& run, const RandomKey&,
              float* x) const override {
    std::array<float, std::size_t{1} << kLearnedBitsMax> values{};
    for (const BucketBounds& bounds : run.bounds) {
      for (std::size_t k = 0; k < points_.size(); ++k) {
        values[k] = bounds.low + bounds.width * points_[k];
      }
      for (std::size_t i = 0; i < bucket(); ++i) x[i] = values[codes[i]];
      x += bucket();
      codes += bucket();
    }
  }

 private:
  std::vector<float> points_;   // of the points, in [0, 1]
  std::vector<float> borders_;  // border k is between points k and k + 1
  std::array<std::uint8_t, kCells> first_{};
};

}  // namespace

std::shared_ptr<const PlainCodec> NewLearnedCodec(LevelTable levels, std::uint32_t bucket,
                                                  EntropyCoder coder) {
  SHOAL_CHECK(std::has_single_bit(levels.size()) && levels.size() > 1 &&
              levels.size() <= std::size_t{1} << kLearnedBitsMax);
  return std::make_shared<const LearnedCodec>(levels, bucket, coder);
}

namespace {

Result<PlainPointer> Make(const CodecSpec& spec, std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bits,
                         NumberOption(spec, "bits", 1, kLearnedBitsMax, std::nullopt));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bucket, RangeBucketOption(spec, hidden));
  SHOAL_ASSIGN_OR_RETURN(const EntropyCoder coder, EntropyOption(spec));
  const auto width = static_cast<int>(bits);
  if (spec.Option("levels").empty()) return NewLearnedCodec(UniformLevels(width), bucket, coder);
  Result<LevelTable> levels = ParseLevels(spec.Option("levels"), width);
  if (!levels.ok()) return SpecError(spec, std::string(levels.status().message()));
  return NewLearnedCodec(std::move(*levels), bucket, coder);
}

constexpr std::string_view kKeys[] = {"bits", "bucket", "levels", "feedback"};

}  // namespace

const CodecEntry& LearnedEntry() {
  static constexpr CodecEntry kEntry{
      .name = "learned",
      .usage = "learned:bits=1..5[,bucket=N][,levels=HEX]",
      .keys = kKeys,
      .entropy_coder = true,
      .make_plain = Make,
      .no_feedback = [](const CodecSpec&) { return kGroupsHaveFeedback; },
  };
  return kEntry;
}

}  // namespace shoal::compression
