#include "tests/unit/model/stage_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "model/families/open_adapter.h"
#include "model/families/open_model.h"
#include "model/load_adapter.h"
#include "tests/unit/model/test_device.h"

namespace shoal::model {
namespace {

void Expect(const Status& status) { ASSERT_TRUE(status.ok()) << status.ToString(); }

}  // namespace

MicroBatch AsMicroBatch(MicroBatchId id, const TestBatch& batch) {
  MicroBatch micro_batch;
  micro_batch.id = id;
  micro_batch.rows = batch.rows;
  micro_batch.tokens = batch.tokens;
  micro_batch.samples = batch.samples;
  micro_batch.token_ids = batch.token_ids;
  micro_batch.labels = batch.labels;
  micro_batch.segments = batch.segments;
  micro_batch.type_borders = batch.type_borders;
  return micro_batch;
}

TestBatch RandomBatch(std::uint32_t rows, std::uint32_t tokens, std::uint32_t vocabulary,
                      double masked, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::int32_t> id(0, static_cast<std::int32_t>(vocabulary) - 1);
  std::uniform_real_distribution<double> uniform;
  TestBatch batch{rows, tokens, {}, {}, {}};
  for (std::uint32_t row = 0; row < rows; ++row) {
    batch.samples.push_back({seed * 1000 + row});
    std::int32_t next = id(random);
    for (std::uint32_t token = 0; token < tokens; ++token) {
      batch.token_ids.push_back(next);
      next = id(random);
      batch.labels.push_back(uniform(random) < masked ? -100 : next);
    }
  }
  return batch;
}

std::string MiniModel() {
  return std::string(std::getenv("SHOAL_TEST_DATA")) + "/gpt2_mini_random";
}

std::string SharedModel(const std::string& name) {
  return std::string(std::getenv("SHOAL_SHARED_DATA")) + "/hf-tiny/" + name;
}

std::vector<float> LogitsOf(StageModel* stage, const TestBatch& batch, std::size_t size) {
  std::vector<float> logits(size);
  MicroBatch asked = AsMicroBatch({}, batch);
  asked.labels = {};
  EXPECT_TRUE(stage->Logits(asked, false, logits).ok());
  return logits;
}

StagePipeline::StagePipeline(const std::string& directory, std::uint32_t stages,
                             StageOptions options, const std::string& adapter) {
  auto opened = OpenModel(directory);
  SHOAL_CHECK(opened.ok());
  storage::TensorMap adapter_tensors;
  Result<OpenedAdapter> opened_adapter = OpenedAdapter();
  if (!adapter.empty()) {
    opened_adapter = OpenAdapter(adapter);
    SHOAL_CHECK(opened_adapter.ok());
    Expect(Adapt(opened_adapter->config, &opened->spec));
    adapter_tensors = AdapterTensors(*opened_adapter, opened->spec, adapter).value();
  }
  if (options.device == "auto") options.device = TestDevice();
  // Models this small only lose by threads, above all beside other tests.
  if (options.threads == 0) options.threads = 1;
  const std::uint32_t layers = opened->spec.layers();
  SHOAL_CHECK(stages <= layers);
  for (std::uint32_t s = 0; s < stages; ++s) {
    options.range = {layers * s / stages, layers * (s + 1) / stages};
    auto stage = NewTorchStage(opened->spec, options);
    SHOAL_CHECK(stage.ok());
    Expect((*stage)->LoadDirectory(*opened->directory));
    if (!adapter.empty()) Expect(LoadAdapter(adapter_tensors, stage->get()));
    stages_.push_back(std::move(stage).value());
  }
}

StepLoss StagePipeline::Forward(MicroBatchId id, const TestBatch& batch,
                                std::vector<std::vector<float>>* boundaries) {
  MicroBatch micro_batch = AsMicroBatch(id, batch);
  std::vector<float> input;
  StepLoss loss;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const bool last = s + 1 == stages_.size();
    std::vector<float> output(last ? 0 : batch.token_ids.size() * spec().hidden);
    micro_batch.input = input;
    Expect(stages_[s]->Forward(micro_batch, output, &loss));
    if (boundaries != nullptr && !last) boundaries->push_back(output);
    input = std::move(output);
  }
  return loss;
}

StepLoss StagePipeline::Evaluate(const TestBatch& batch) {
  MicroBatch micro_batch = AsMicroBatch({}, batch);
  std::vector<float> input;
  StepLoss loss;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const bool last = s + 1 == stages_.size();
    std::vector<float> output(last ? 0 : batch.token_ids.size() * spec().hidden);
    micro_batch.input = input;
    Expect(stages_[s]->Evaluate(micro_batch, output, &loss));
    input = std::move(output);
  }
  return loss;
}

void StagePipeline::BackwardInput(MicroBatchId id, const TestBatch& batch) {
  std::vector<float> gradient;
  for (std::size_t s = stages_.size(); s-- > 0;) {
    std::vector<float> upstream(s == 0 ? 0 : batch.token_ids.size() * spec().hidden);
    Expect(stages_[s]->BackwardInput(id, gradient, upstream));
    gradient = std::move(upstream);
  }
}

void StagePipeline::BackwardWeights(MicroBatchId id) {
  for (auto& stage : stages_) {
    for (bool more = true; more;) {
      const Result<bool> part = stage->BackwardWeights(id);
      Expect(part.status());
      more = part.ok() && *part;
    }
  }
}

StepLoss StagePipeline::RunMicroBatch(MicroBatchId id, const TestBatch& batch) {
  const StepLoss loss = Forward(id, batch);
  BackwardInput(id, batch);
  BackwardWeights(id);
  return loss;
}

void StagePipeline::SumShared() {
  const auto sums = Gradients();
  for (auto& stage : stages_) {
    for (const TensorLayout& tensor : stage->shared_tensors()) {
      Expect(stage->Write(StateVector::kGradients, tensor.offset, sums.at(tensor.name)));
    }
  }
}

double StagePipeline::Apply(std::uint64_t step, std::uint64_t labels, double learning_rate) {
  SumShared();
  const double scale = 1 / static_cast<double>(labels);
  double squared = 0;
  for (auto& stage : stages_) squared += stage->SquaredGradientNorm(scale);
  const double norm = std::sqrt(squared);
  for (auto& stage : stages_) Expect(stage->Apply(step, scale, norm, learning_rate));
  return norm;
}

std::map<std::string, std::vector<float>> StagePipeline::Gradients() {
  std::map<std::string, std::vector<float>> gradients;
  for (auto& stage : stages_) {
    const std::vector<float> flat = ExportGradients(*stage);
    for (const TensorLayout& layout : stage->layout()) {
      std::vector<float>& sum = gradients[layout.name];
      sum.resize(layout.size);
      for (std::size_t i = 0; i < layout.size; ++i) sum[i] += flat[layout.offset + i];
    }
  }
  return gradients;
}

std::vector<std::uint64_t> StagePipeline::Checksums() const {
  std::vector<std::uint64_t> sums;
  for (const auto& stage : stages_) sums.push_back(stage->WeightChecksum());
  return sums;
}

std::vector<float> ExportGradients(StageModel& stage) {
  std::vector<float> flat(stage.state_size());
  Expect(stage.Read(StateVector::kGradients, 0, flat));
  return flat;
}

double RelativeDifference(const std::vector<float>& a, const std::vector<float>& b) {
  SHOAL_CHECK(a.size() == b.size());
  double difference = 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::fabs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
  }
  return largest == 0 ? difference : difference / largest;
}

}  // namespace shoal::model
