// Time of one micro-batch through a whole GPT-2 of the demo's shape, and of its optimizer step.
// Time of F, B and W in stages of several models; weights are zero or random, which take the same
// time.

#include <benchmark/benchmark.h>

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "model/decoder.h"
#include "model/families/family.h"
#include "model/stage_model.h"
#include "tests/bench/google_main.h"

namespace shoal::model {
namespace {

// A stage of a model: where it is cut, and how much it gets at once.
struct Shape {
  std::uint32_t layers, hidden, vocabulary;
  std::uint32_t first, last;  // layers of the stage
  std::uint32_t rows, tokens;
};

constexpr Shape kDemo{4, 128, 1024, 0, 4, 4, 128};

class Stage {
 public:
  explicit Stage(const char* compute, const Shape& shape = kDemo, bool recompute = false)
      : shape_(shape) {
    const nlohmann::json config = {
        {"model_type", "gpt2"},        {"n_layer", shape.layers},
        {"n_embd", shape.hidden},      {"n_head", shape.hidden == 128 ? 4 : shape.hidden / 64},
        {"n_positions", shape.tokens}, {"vocab_size", shape.vocabulary}};
    const ModelSpec spec = ParseModelSpec(config.dump(), "the bench's model").value();
    StageOptions options;
    options.range = {shape.first, shape.last};
    options.device = "cpu";
    options.compute = compute;
    options.recompute = recompute;
    options.threads = 1;
    auto made = NewTorchStage(spec, options);
    SHOAL_CHECK(made.ok());
    model_ = std::move(made).value();
    const std::size_t places = std::size_t{shape.rows} * shape.tokens;
    for (std::size_t i = 0; i < places; ++i) {
      ids_.push_back(static_cast<std::int32_t>(i % shape.vocabulary));
    }
    const std::size_t values = places * shape.hidden;
    if (shape.first > 0) input_.assign(values, 0.5F);
    if (shape.last < shape.layers) output_.assign(values, 0.5F);
    batch_ = {{0, 0}, shape.rows, shape.tokens, std::vector<SampleId>(shape.rows), ids_, ids_, {}};
    if (shape.first > 0) batch_.token_ids = {};
    if (shape.last < shape.layers) batch_.labels = {};
    batch_.input = input_;
  }
  StageModel& model() { return *model_; }
  const MicroBatch& batch() const { return batch_; }
  std::int64_t places() const { return std::int64_t{shape_.rows} * shape_.tokens; }

  void Forward() {
    StepLoss loss;
    SHOAL_CHECK(model_->Forward(batch_, output_, &loss).ok());
  }
  void BackwardInput() { SHOAL_CHECK(model_->BackwardInput({0, 0}, output_, input_).ok()); }
  void BackwardWeights() {
    while (*model_->BackwardWeights({0, 0})) continue;
  }

 private:
  const Shape shape_;
  std::unique_ptr<StageModel> model_;
  std::vector<std::int32_t> ids_;
  std::vector<float> input_, output_;
  MicroBatch batch_;
};

void TrainMicroBatch(benchmark::State& state, const char* compute) {
  Stage stage(compute);
  for (auto _ : state) {
    stage.Forward();
    stage.BackwardInput();
    stage.BackwardWeights();
  }
  state.SetItemsProcessed(state.iterations() * stage.places());  // tokens
}
BENCHMARK_CAPTURE(TrainMicroBatch, fp32, "fp32")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(TrainMicroBatch, bf16, "bf16")->Unit(benchmark::kMillisecond);

// Milliseconds of the three operations of a micro-batch, in CPU time of the one thread that does
// them, and W's share in the backward.
void Operations(benchmark::State& state, const char* compute, const Shape& shape, bool recompute) {
  Stage stage(compute, shape, recompute);
  double forward = 0, input = 0, weights = 0;
  const auto timed = [](auto operation) {
    const std::clock_t start = std::clock();
    operation();
    return 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  for (auto _ : state) {
    forward += timed([&] { stage.Forward(); });
    input += timed([&] { stage.BackwardInput(); });
    weights += timed([&] { stage.BackwardWeights(); });
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["F_ms"] = forward / runs;
  state.counters["B_ms"] = input / runs;
  state.counters["W_ms"] = weights / runs;
  state.counters["W_share"] = weights / (input + weights);
  const auto bytes = [](std::uint64_t count) { return static_cast<double>(count) / (1 << 20); };
  state.counters["kept_MiB"] = bytes(stage.model().MicroBatchBytes(shape.rows, shape.tokens));
  state.counters["pending_MiB"] =
      bytes(stage.model().PendingWeightsBytes(shape.rows, shape.tokens));
}
constexpr Shape kDemoFirst{4, 128, 1024, 0, 2, 4, 128}, kDemoLast{4, 128, 1024, 2, 4, 4, 128};
constexpr Shape kSmallMiddle{12, 768, 50257, 4, 6, 1, 1024};
constexpr Shape kSmallLast{12, 768, 50257, 11, 12, 1, 1024};
constexpr Shape kXlMiddle{48, 1600, 50257, 20, 21, 1, 1024};
BENCHMARK_CAPTURE(Operations, demo_first, "fp32", kDemoFirst, false);
BENCHMARK_CAPTURE(Operations, demo_last, "fp32", kDemoLast, false);
BENCHMARK_CAPTURE(Operations, small_middle, "fp32", kSmallMiddle, false)->Iterations(3);
BENCHMARK_CAPTURE(Operations, small_middle_recompute, "fp32", kSmallMiddle, true)->Iterations(3);
BENCHMARK_CAPTURE(Operations, small_last, "fp32", kSmallLast, false)->Iterations(3);
BENCHMARK_CAPTURE(Operations, xl_middle, "fp32", kXlMiddle, false)->Iterations(3);

void OptimizerStep(benchmark::State& state) {
  Stage stage("fp32");
  std::uint64_t step = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(stage.model().SquaredGradientNorm(1));
    SHOAL_CHECK(stage.model().Apply(step++, 1, 1, 1e-3).ok());
  }
  const auto values = static_cast<std::int64_t>(stage.model().state_size());
  state.SetItemsProcessed(state.iterations() * values);
}
BENCHMARK(OptimizerStep)->Unit(benchmark::kMillisecond);

// What the members of a stage group compare every so many steps (weight_check_every), as a part of
// the smallest step there is: one micro-batch.
void WeightChecksum(benchmark::State& state, const Shape& shape) {
  Stage stage("fp32", shape);
  const auto seconds = [](auto operation) {
    const std::clock_t start = std::clock();
    operation();
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  double step = 0, checksum = 0;
  for (auto _ : state) {
    step += seconds([&] {
      stage.Forward();
      stage.BackwardInput();
      stage.BackwardWeights();
      SHOAL_CHECK(stage.model().Apply(0, 1, 1, 1e-3).ok());
    });
    checksum += seconds([&] { benchmark::DoNotOptimize(stage.model().WeightChecksum()); });
  }
  state.counters["checksum_ms"] = 1e3 * checksum / static_cast<double>(state.iterations());
  state.counters["of_step"] = checksum / step;
}
BENCHMARK_CAPTURE(WeightChecksum, small_middle, kSmallMiddle)->Iterations(5);
BENCHMARK_CAPTURE(WeightChecksum, small_last, kSmallLast)->Iterations(5);

// Tokens a second of text that grows behind a prompt of so many tokens, with the decoder's keys and
// values and by whole rows.
void Generate(benchmark::State& state, const Shape& shape, bool decoder) {
  Stage stage("fp32", shape);
  constexpr std::size_t kMade = 16;
  std::vector<float> logits(shape.vocabulary);
  std::vector<std::int32_t> ids(shape.tokens / 2);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
  const auto by_decoder = NewDecoder(stage.model()).value();
  const auto next = [&] {
    if (decoder) return by_decoder->NextLogits(ids, logits);
    MicroBatch row;
    row.rows = 1;
    row.tokens = static_cast<std::uint32_t>(ids.size());
    row.samples = {SampleId{0}};
    row.token_ids = ids;
    return stage.model().Logits(row, true, logits);
  };
  SHOAL_CHECK(next().ok());  // the prompt
  for (auto _ : state) {
    for (std::size_t i = 0; i < kMade; ++i) {
      ids.push_back(7);
      SHOAL_CHECK(next().ok());
    }
    ids.resize(ids.size() - kMade);
  }
  state.counters["tokens/s"] = benchmark::Counter(static_cast<double>(state.iterations()) * kMade,
                                                  benchmark::Counter::kIsRate);
}
constexpr Shape kSmallWhole{12, 768, 50257, 0, 12, 1, 1024};
BENCHMARK_CAPTURE(Generate, demo_decoder, kDemo, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Generate, demo_whole_rows, kDemo, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Generate, small_decoder, kSmallWhole, true)->Iterations(2);
BENCHMARK_CAPTURE(Generate, small_whole_rows, kSmallWhole, false)->Iterations(1);

}  // namespace
}  // namespace shoal::model

int main(int argc, char** argv) {
  return shoal::bench_command::RunGoogleBenchmarks(
      {.name = "stage_model",
       .measures = "A micro-batch through a whole GPT-2 of the demo's shape and its optimizer "
                   "step; the forward "
                   "and both halves of the backward in stages of several models; text that grows.",
       .needs = "4 GB of memory for the largest stage.",
       .takes = "some minutes; --filter picks.",
       .bounds = "all cases ran; it has no bounds"},
      argc, argv);
}
