// Options that several codecs share, read from a spec. Errors name the spec and what is allowed.
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_CODEC_OPTIONS_H_
#define SHOAL_COMPRESSION_CODECS_CODEC_OPTIONS_H_

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "common/status.h"
#include "compression/api/codec_spec.h"
#include "compression/entropy/symbol_stream.h"
#include "compression/simd/level_rule.h"

namespace shoal::compression {

inline constexpr std::uint32_t kHiddenMax = 1U << 20;
inline constexpr std::uint32_t kCodeBitsMax = 8;
// Of PlainCodec::Wider.
constexpr int WiderBits(int bits) { return std::min(2 * bits, static_cast<int>(kCodeBitsMax)); }
inline constexpr std::uint32_t kKeptBucketDefault = 128;    // kept values a scale
inline constexpr std::uint32_t kRangeBucketDefault = 1024;  // values a range

// `bits=`, 1 to kCodeBitsMax.
Result<int> BitsOption(const CodecSpec& spec);
// `bits=`, `levels=`, `scale=`, `rounding=`, or `bits=` and `step=`. `usual`: the levels of a spec
// that names none.
Result<LevelRule> RuleOption(const CodecSpec& spec, Levels usual);
// `step=`: levels so many times the rms of their bucket apart (ScaleRule::kStep).
inline constexpr double kStepMin = 0.05;
inline constexpr double kStepMax = 4;
// Coarser steps may leave more of a change than the theorem of AQ-SGD bears: half a step is .7.
inline constexpr double kStepOfChangesMax = 1.4;
bool HasStep(const CodecSpec& spec);  // of a spec that was parsed
// `bucket=`, a divisor of the hidden size; without it DefaultBucket, with step= a whole token.
Result<std::uint32_t> BucketOption(const CodecSpec& spec, std::uint32_t hidden);
// The same with kRangeBucketDefault: the largest such divisor up to it, unless the spec names one.
Result<std::uint32_t> RangeBucketOption(const CodecSpec& spec, std::uint32_t hidden);
// A number as canonical specs have it: the shortest text that reads back as it.
std::string NumberText(double value);
// `channels=`: whether values are divided by a scale per channel first (scaled/scaled_codec.h).
Result<bool> ChannelsOption(const CodecSpec& spec);
bool HasChannelScales(const CodecSpec& spec);  // of a spec that was parsed
// What follows the name: "+zstd", "+rans" or nothing.
Result<EntropyCoder> EntropyOption(const CodecSpec& spec);
// Why a codec takes no error feedback of gradients.
inline constexpr std::string_view kRandomNeedsNoFeedback =
    "random rounding is right on average without feedback, and its noise would add up with it; "
    "leave feedback out";
inline constexpr std::string_view kGroupsHaveFeedback =
    "this codec is for coder groups, whose exchange has its own feedback; leave feedback out";
// `feedback=` of codecs of bits and levels: why this spec takes none, or nothing.
std::string_view RoundingForbidsFeedback(const CodecSpec& spec);
std::string_view AffineForbidsFeedback(const CodecSpec& spec, bool affine);
// CodecEntry::no_changes of codecs of bits and levels.
std::string_view OneBitForbidsChanges(const CodecSpec& spec, bool affine);
// CodecEntry::known_cost of codecs that take bucket=channel.
std::string_view CostOfChannelScales(const CodecSpec& spec);
// Unbiased by stochastic rounding, unless levels end inside of a bucket's largest values, as those
// of `midrise` do, and shrink them.
bool StochasticIsUnbiased(const CodecSpec& spec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_CODEC_OPTIONS_H_
