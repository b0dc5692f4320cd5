#include "replica/learned_codecs.h"

#include <algorithm>

#include "compression/codecs/learned_levels.h"

namespace shoal::replica {

bool LearnSteps::At(std::uint64_t step) const {
  return owed_ || std::any_of(steps_.begin(), steps_.end(), [&](std::uint64_t learn) {
           return step == learn || (!began_ && learn < step);
         });
}

LearnedCodecs::LearnedCodecs(const QsdpOptions& options)
    : options_(options), weights_(options.WeightCodec()), gradients_(options.GradientCodec()) {}

Status LearnedCodecs::Learn(std::span<const float> counts) {
  if (options_.learns_gradients()) {
    SHOAL_ASSIGN_OR_RETURN(
        const compression::LevelTable levels,
        compression::LearnLevels(counts.first(compression::kLevelBins), options_.gradient_bits));
    gradients_ = options_.LearnedCodec(options_.gradient_bits, levels);
  }
  if (options_.learns_weights()) {
    SHOAL_ASSIGN_OR_RETURN(
        const compression::LevelTable levels,
        compression::LearnLevels(counts.subspan(compression::kLevelBins), options_.weight_bits));
    weights_ = options_.LearnedCodec(options_.weight_bits, levels);
  }
  return Status::Ok();
}

}  // namespace shoal::replica
