// The codecs by which gradients and weights of a group with sharded optimizer state travel, with
// the levels learned last, and when these are learned. Equal on all members. Thread: control.

#ifndef SHOAL_REPLICA_LEARNED_CODECS_H_
#define SHOAL_REPLICA_LEARNED_CODECS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "replica/methods/qsdp_options.h"

namespace shoal::replica {

// Of a generation.
class LearnSteps {
 public:
  LearnSteps(const QsdpOptions& options, std::uint64_t run_steps)
      : steps_(options.LearnSteps(run_steps)) {}

  // Whether levels are learned at the end of this step. A generation that begins behind such a step
  // learns at its first one, since levels are in no checkpoint.
  bool At(std::uint64_t step) const;
  // A step of the generation was applied.
  void Applied() {
    began_ = true;
    owed_ = false;
  }
  // This one was not: the next step learns what it was to learn.
  void Skipped(std::uint64_t step) { owed_ = At(step); }

 private:
  const std::vector<std::uint64_t> steps_;
  bool began_ = false, owed_ = false;
};

class LearnedCodecs {
 public:
  explicit LearnedCodecs(const QsdpOptions& options);

  const std::string& weights() const { return weights_; }
  const std::string& gradients() const { return gradients_; }
  // From where the values of all members lay: gradients in the first kLevelBins, then weights.
  Status Learn(std::span<const float> counts);

 private:
  const QsdpOptions options_;
  std::string weights_, gradients_;
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_LEARNED_CODECS_H_
