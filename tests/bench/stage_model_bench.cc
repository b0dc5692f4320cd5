// Time of one micro-batch through a whole GPT-2 of the demo's shape, and of its optimizer step.

#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "model/stage_model.h"

namespace shoal::model {
namespace {

constexpr std::uint32_t kRows = 4;
constexpr std::uint32_t kTokens = 128;

class Stage {
 public:
  explicit Stage(const char* compute) {
    storage::ModelConfig config;
    config.layers = 4;
    config.hidden = 128;
    config.heads = 4;
    config.inner = 512;
    config.positions = kTokens;
    config.vocabulary = 1024;
    StageOptions options;
    options.range = {0, 4};
    options.device = "cpu";
    options.compute = compute;
    options.threads = 1;
    auto made = NewTorchGpt2Stage(config, options);
    SHOAL_CHECK(made.ok());
    model_ = std::move(made).value();
    for (std::int32_t i = 0; i < std::int32_t{kRows * kTokens}; ++i) ids_.push_back(i % 1024);
    batch_ = {{0, 0}, kRows, kTokens, std::vector<SampleId>(kRows), ids_, ids_, {}};
  }
  StageModel& model() { return *model_; }
  const MicroBatch& batch() const { return batch_; }

 private:
  std::unique_ptr<StageModel> model_;
  std::vector<std::int32_t> ids_;
  MicroBatch batch_;
};

void TrainMicroBatch(benchmark::State& state, const char* compute) {
  Stage stage(compute);
  StepLoss loss;
  for (auto _ : state) {
    SHOAL_CHECK(stage.model().Forward(stage.batch(), {}, &loss).ok());
    SHOAL_CHECK(stage.model().BackwardInput({0, 0}, {}, {}).ok());
    SHOAL_CHECK(stage.model().BackwardWeights({0, 0}).ok());
  }
  state.SetItemsProcessed(state.iterations() * kRows * kTokens);  // tokens
}
BENCHMARK_CAPTURE(TrainMicroBatch, fp32, "fp32")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(TrainMicroBatch, bf16, "bf16")->Unit(benchmark::kMillisecond);

void OptimizerStep(benchmark::State& state) {
  Stage stage("fp32");
  std::uint64_t step = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(stage.model().SquaredGradientNorm(1));
    SHOAL_CHECK(stage.model().Apply(step++, 1, 1, 1e-3).ok());
  }
  const auto values = static_cast<std::int64_t>(stage.model().gradient_size());
  state.SetItemsProcessed(state.iterations() * values);
}
BENCHMARK(OptimizerStep)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shoal::model
