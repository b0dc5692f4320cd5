// What base training and the rows of the quality bench share: the model, its texts, its losses.

#ifndef SHOAL_TESTS_QUALITY_EXPERIMENT_MODEL_H_
#define SHOAL_TESTS_QUALITY_EXPERIMENT_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/families/model_spec.h"
#include "model/stage_model.h"
#include "tests/quality/experiment.h"
#include "tests/quality/text_windows.h"
#include "tests/support/sim_swarm.h"

namespace shoal::quality {

inline constexpr std::uint32_t kBatch = 16;  // rows of a step
inline constexpr std::uint64_t kHeldOutRows = 128;
inline constexpr std::uint64_t kShakespeareBytes = 1115394;

// The model's description and how text becomes its token ids.
struct BuiltModel {
  model::ModelSpec spec;
  std::unique_ptr<dataset::Tokenizer> tokenizer;  // null: bytes
  std::string device;
};
Result<BuiltModel> BuildModel(const ModelShape& spec);

// tinyshakespeare is cut in three: for the second phase of the base, for rows, held out.
struct Shakespeare {
  Text base, fine_tuning, held_out;
};
Result<Shakespeare> ReadShakespeare(const std::string& path, const BuiltModel& model);
// The whole of a file of at least `bytes_min`.
Result<Text> ReadText(const std::string& path, std::uint64_t bytes_min, const BuiltModel& model);

// Part names -> files of a folder with this ending.
std::map<std::string, std::string> PartFiles(const model::StageModel& stage,
                                             const std::string& folder, const std::string& ending);
// On the model's device, with the weights of `folder`.
Result<std::unique_ptr<model::StageModel>> NewStage(const BuiltModel& model,
                                                    model::StageOptions options,
                                                    const std::string& folder);

using Stages = std::vector<model::StageModel*>;
// Takes what a stage that is not the last gives for a micro-batch.
using TakeOutput = std::function<void(std::size_t stage, std::span<const float> output)>;

// Sends rows [first, first + count) through all stages, nothing compressed; adds to `*total`.
Status EvaluateRows(const Stages& stages, const dataset::PreparedData& data, std::uint64_t first,
                    std::uint64_t count, const TakeOutput& take, model::StepLoss* total);
// Mean loss of the validation rows of `data` through all stages, nothing compressed.
Result<double> HeldOutLoss(const Stages& stages, const dataset::PreparedData& data);

// As a run of that rate, warm-up, length and decay.
std::function<double(std::uint64_t)> LearningRateRule(double rate, std::uint64_t warmup,
                                                      std::uint64_t steps,
                                                      const std::string& decay);
// Why a swarm did not reach a step.
Status WhyFailed(test_support::SimSwarm* swarm);

}  // namespace shoal::quality

#endif  // SHOAL_TESTS_QUALITY_EXPERIMENT_MODEL_H_
