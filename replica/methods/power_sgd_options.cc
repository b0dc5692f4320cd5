#include "replica/methods/power_sgd_options.h"

#include <algorithm>

#include "compression/api/codec_spec.h"
#include "compression/codecs/low_rank/low_rank.h"

namespace shoal::replica {
namespace {

constexpr char kName[] = "powersgd";
constexpr std::uint32_t kStartMin = 2;
constexpr std::uint32_t kStartMax = 1000000;

}  // namespace

std::string PowerSgdOptions::Spec() const {
  return std::string(kName) + ":rank=" + std::to_string(rank) + ",start=" + std::to_string(start) +
         ",stages=" + compression::Nested(stages);
}

Result<PowerSgdOptions> ParsePowerSgd(std::string_view text) {
  SHOAL_ASSIGN_OR_RETURN(const compression::CodecSpec spec,
                         compression::ParseCodecSpec(text, ',', compression::kReplicaMethodSpec));
  if (spec.name != kName) {
    return SpecError(spec, "unknown method '" + std::string(spec.name) + "'; known is powersgd");
  }
  SHOAL_RETURN_IF_ERROR(CheckNoEntropyCoder(spec));
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, kPowerSgdKeys));
  PowerSgdOptions options;
  SHOAL_ASSIGN_OR_RETURN(options.rank,
                         NumberOption(spec, "rank", 1, compression::kRankMax, options.rank));
  SHOAL_ASSIGN_OR_RETURN(options.start,
                         NumberOption(spec, "start", kStartMin, kStartMax, options.start));
  if (const auto stages = spec.Option("stages"); !stages.empty()) options.stages = stages;
  std::replace(options.stages.begin(), options.stages.end(), '/', ',');
  // Which of them the run has is known later.
  const bool named =
      options.stages == "all" || options.stages == "none" || options.stages == "auto";
  if (!named && options.stages.find_first_not_of("0123456789-,") != std::string::npos) {
    return SpecError(spec, "stages are all, none, auto, or as 0, 0-1 or 0/2-3");
  }
  return options;
}

}  // namespace shoal::replica
