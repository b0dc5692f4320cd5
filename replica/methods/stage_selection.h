// Which stages compress their exchange between replicas: selective stage compression (Song et al.,
// "Optimus-CC: Efficient Large NLP Model Training with 3D Parallelism Aware Communication
// Compression", ASPLOS 2023, section 7). A stage whose exchange ends before that of another one
// gains nothing by compressing it. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_STAGE_SELECTION_H_
#define SHOAL_REPLICA_METHODS_STAGE_SELECTION_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace shoal::replica {

struct StageSelection {
  bool automatic = false;    // "auto": AutoStages decides
  std::vector<bool> chosen;  // one per stage; empty if automatic
};

// "all", "none", "auto" or a list of stages and ranges from 0 on, as "0-2" or "0,2,5-6". A stage
// that does not exist, one that is named twice or anything else is an error that says what is
// allowed. `stages` 1 or more.
Result<StageSelection> ParseStageSelection(std::string_view text, std::uint32_t stages);

// One stage's exchange in a step; seconds.
struct StageExchange {
  double backward_end = 0;  // when its gradients are complete
  double exact = 0;         // how long the exchange takes
  double compressed = 0;    // the same, compressed
};

// The fewest stages with which the last exchange of a step ends as early as it can: those whose
// exact exchange would end after all are done, were every stage compressed that gains by it.
std::vector<bool> AutoStages(std::span<const StageExchange> stages);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_STAGE_SELECTION_H_
