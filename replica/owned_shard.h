// OwnedShard: what a member of a stage group owns of a vector whose optimizer state is cut among
// them: fp32 weights and both moments. How an owner makes its step, and what everybody takes over
// of it.

#ifndef SHOAL_REPLICA_OWNED_SHARD_H_
#define SHOAL_REPLICA_OWNED_SHARD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/memory/buffer.h"
#include "common/mutex.h"
#include "compression/codecs/learned_levels.h"
#include "optimizer/adamw_shard.h"
#include "replica/collective/shard_layout.h"
#include "replica/replica_step.h"

namespace shoal::replica {

// How an owner makes a step, and what of it goes to all.
struct OwnerRule {
  optimizer::AdamWOptions options;
  bool skip = false;         // the owner makes none: its weights go to all as they are
  bool change = false;       // of the weights that all have, in place of the owner's
  bool counts = false;       // where the values lie that would travel if the step were not saved
  std::uint32_t bucket = 1;  // of those counts
};

class OwnedShard {
 public:
  // `shards`: by member of the part's group. `knows_base`: also keeps its shard of the weights that
  // all have, which changes start from.
  OwnedShard(std::shared_ptr<const ParameterGroup> part, std::vector<collective::ValueRange> shards,
             bool knows_base);

  const std::shared_ptr<const ParameterGroup>& part() const { return part_; }
  const std::vector<collective::ValueRange>& shards() const { return shards_; }
  optimizer::AdamWShard* state() { return &state_; }
  std::uint64_t bytes() const;

  // Fills the shard from the model, where all members have all of the state. Thread: compute.
  Status Load(model::StageModel* model);
  // Makes AdamW's step of the values from `first` of the vector on, of which each is in one call
  // per step. `sum`: gradients of the whole shard, unless the rule is to skip. `values` become what
  // goes to all. Thread: any, also several at once.
  void Step(const OwnerRule& rule, std::span<const float> sum, std::size_t first,
            std::span<float> values);
  // Takes over what all got of all owners, weights or their `change`. Thread: compute, while no
  // Step runs.
  Status Adopt(model::StageModel* model, bool change, std::span<float> values);
  // What was counted since the last call.
  compression::LevelHistogram TakeCounts();

 private:
  const std::shared_ptr<const ParameterGroup> part_;
  const std::vector<collective::ValueRange> shards_;
  const collective::ValueRange own_;
  const bool knows_base_;
  optimizer::AdamWShard state_;
  Buffer base_;  // empty, unless it is known

  Mutex mutex_;
  compression::LevelHistogram counts_ SHOAL_GUARDED_BY(mutex_) = {};
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_OWNED_SHARD_H_
