// LearnedCodecs: the codecs by which gradients and weights of a group with sharded optimizer state
// travel, with the levels learned last. Equal on all members. Thread: control.

#ifndef SHOAL_PIPELINE_LEARNED_CODECS_H_
#define SHOAL_PIPELINE_LEARNED_CODECS_H_

#include <span>
#include <string>

#include "common/status.h"
#include "compression/qsdp_options.h"

namespace shoal::pipeline {

class LearnedCodecs {
 public:
  explicit LearnedCodecs(const compression::QsdpOptions& options);

  const std::string& weights() const { return weights_; }
  const std::string& gradients() const { return gradients_; }
  // From where the values of all members lay: gradients in the first kLevelBins, then weights.
  Status Learn(std::span<const float> counts);

 private:
  const compression::QsdpOptions options_;
  std::string weights_, gradients_;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_LEARNED_CODECS_H_
