// A model cut into stages in one process, driven through StageModel's interface alone.

#ifndef SHOAL_TESTS_UNIT_MODEL_STAGE_PIPELINE_H_
#define SHOAL_TESTS_UNIT_MODEL_STAGE_PIPELINE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/stage_model.h"

namespace shoal::model {

struct TestBatch {
  std::uint32_t rows = 0;
  std::uint32_t tokens = 0;
  std::vector<SampleId> samples;
  std::vector<std::int32_t> token_ids;
  std::vector<std::int32_t> labels;
  std::vector<std::int32_t> segments = {};
  std::vector<std::uint32_t> type_borders = {};
};

// What a stage gets of it; it must outlive the result.
MicroBatch AsMicroBatch(MicroBatchId id, const TestBatch& batch);

// Random ids below `vocabulary`; labels are the next id, each masked with `masked` probability.
TestBatch RandomBatch(std::uint32_t rows, std::uint32_t tokens, std::uint32_t vocabulary,
                      double masked, std::uint64_t seed);

std::string MiniModel();                           // directory of gpt2_mini_random
std::string SharedModel(const std::string& name);  // under hf-tiny; may not exist

// A folder of this process alone.
inline std::string Scratch(const std::string& name) {
  return ::testing::TempDir() + "/stage_test." + std::to_string(getpid()) + "." + name;
}

// Logits of all positions, or of rows for a classifier: `size` values.
std::vector<float> LogitsOf(StageModel* stage, const TestBatch& batch, std::size_t size);

class StagePipeline {
 public:
  // Loads `directory`, cut evenly, with the adapter of another one if it is given; the check of
  // success is a test assertion.
  StagePipeline(const std::string& directory, std::uint32_t stages, StageOptions options,
                const std::string& adapter = "");

  std::size_t size() const { return stages_.size(); }
  StageModel& stage(std::size_t index) { return *stages_[index]; }
  const ModelSpec& spec() const { return stages_[0]->spec(); }

  // Forward through all stages. `boundaries` (may be null) gets each stage's output but the last's.
  StepLoss Forward(MicroBatchId id, const TestBatch& batch,
                   std::vector<std::vector<float>>* boundaries = nullptr);
  StepLoss Evaluate(const TestBatch& batch);
  void BackwardInput(MicroBatchId id, const TestBatch& batch);
  void BackwardWeights(MicroBatchId id);
  StepLoss RunMicroBatch(MicroBatchId id, const TestBatch& batch);

  // Sums the gradients of what stages share, as the replica exchange does.
  void SumShared();
  // SumShared, global norm, Apply on all stages; returns the norm.
  double Apply(std::uint64_t step, std::uint64_t labels, double learning_rate);
  // All gradients by name; what stages share as the sum of theirs (call before SumShared).
  std::map<std::string, std::vector<float>> Gradients();
  std::vector<std::uint64_t> Checksums() const;

 private:
  std::vector<std::unique_ptr<StageModel>> stages_;
};

std::vector<float> ExportGradients(StageModel& stage);
// Largest |a - b| divided by the largest |b|.
double RelativeDifference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace shoal::model

#endif  // SHOAL_TESTS_UNIT_MODEL_STAGE_PIPELINE_H_
