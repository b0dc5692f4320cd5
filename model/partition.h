// Partition: which layers each stage hosts. Pure, std only; thread: any.

#ifndef SHOAL_MODEL_PARTITION_H_
#define SHOAL_MODEL_PARTITION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "model/stage_model.h"

namespace shoal::model {

// Floating-point operations per token, forward and backward together (three times the forward).
struct PartCosts {
  double embedding = 0;
  double layer = 0;  // all layers cost the same
  double head = 0;
};

// `tokens` per row: attention costs grow with it.
PartCosts EstimatePartCosts(const storage::ModelConfig& config, std::uint32_t tokens);

// Cost of a stage, embedding and head included where it hosts them.
double StageCost(const storage::ModelConfig& config, const PartCosts& costs,
                 const StageRange& range);

// Cuts into `stages` (1 .. layers) so that the most expensive stage is as cheap as possible; among
// those cuts the one with the least sum of squared costs, then the one that cuts earliest.
Result<std::vector<StageRange>> EvenPartition(const storage::ModelConfig& config,
                                              std::uint32_t stages, std::uint32_t tokens);

// An explicit cut list: one "first-last" per stage, last exclusive, e.g. "0-2,2-4". The stages must
// cover all layers in order, without gap or overlap, at least one layer each.
Result<std::vector<StageRange>> ParsePartition(const storage::ModelConfig& config,
                                               std::string_view text);
// The text ParsePartition reads.
std::string FormatPartition(const std::vector<StageRange>& ranges);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_PARTITION_H_
