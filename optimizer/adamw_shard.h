// AdamWShard: fp32 weights and both moments of a part of a vector, moved on piece by piece.
//
// Source of sharded optimizer state: ZeRO (Rajbhandari et al., SC 2020), stage 1. Thread: any;
// updates of disjoint pieces may run at once.

#ifndef SHOAL_OPTIMIZER_ADAMW_SHARD_H_
#define SHOAL_OPTIMIZER_ADAMW_SHARD_H_

#include <cstddef>
#include <span>
#include <vector>

#include "common/memory/buffer.h"
#include "optimizer/adamw.h"

namespace shoal::optimizer {

// Values from `first` of a vector on, up to the next run's: weight decay is for them, or not.
struct DecayRun {
  std::size_t first = 0;
  bool decays = true;
};

class AdamWShard {
 public:
  AdamWShard() = default;
  // Values [first, first + values) of a vector that `runs` cover, in order. State is not yet set.
  AdamWShard(std::size_t first, std::size_t values, std::vector<DecayRun> runs);

  std::size_t first() const { return first_; }
  std::size_t values() const { return values_; }
  std::span<float> weights() { return weights_.floats(); }
  std::span<float> first_moment() { return first_moment_.floats(); }
  std::span<float> second_moment() { return second_moment_.floats(); }

  // One AdamW step of the values from `first` of the vector on, in the shard: `values` are their
  // gradients, and become their new weights. Without decay where a run says so.
  void Update(const AdamWOptions& options, std::size_t first, std::span<float> values);

 private:
  std::size_t first_ = 0, values_ = 0;
  std::vector<DecayRun> runs_;
  Buffer weights_, first_moment_, second_moment_;
};

}  // namespace shoal::optimizer

#endif  // SHOAL_OPTIMIZER_ADAMW_SHARD_H_
