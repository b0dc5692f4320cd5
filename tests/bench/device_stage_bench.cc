// Tokens per second of a middle stage on a CUDA device: ./x bench device_stage
//
// Layers of GPT2-XL's and Llama-3-8B's shapes in bf16 with random weights. A micro-batch is F, B
// and W, from activations in the host's memory to gradients there, as the pipeline calls them; the
// best of several rounds counts. tests/bench/torch_stage.py measures the same layers in PyTorch.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/families/family.h"
#include "model/stage_model.h"
#include "tests/bench/bench_command.h"

namespace shoal::model {
namespace {

using nlohmann::json;

constexpr std::uint32_t kLayers = 4;  // the stage has those between the first and the last
constexpr int kRounds = 12;

struct Shape {
  std::string name;
  json config;
  std::uint32_t rows, tokens;
};

std::vector<Shape> Shapes() {
  const json xl = {{"model_type", "gpt2"}, {"n_layer", kLayers},  {"n_embd", 1600},
                   {"n_head", 25},         {"n_positions", 1024}, {"vocab_size", 50257}};
  const json llama = {{"model_type", "llama"},
                      {"num_hidden_layers", kLayers},
                      {"hidden_size", 4096},
                      {"intermediate_size", 14336},
                      {"num_attention_heads", 32},
                      {"num_key_value_heads", 8},
                      {"max_position_embeddings", 2048},
                      {"rms_norm_eps", 1e-5},
                      {"rope_theta", 500000.0},
                      {"vocab_size", 128256},
                      {"tie_word_embeddings", false}};
  return {{"gpt2-xl", xl, 1, 1024}, {"gpt2-xl", xl, 4, 1024}, {"llama-3-8b", llama, 1, 2048}};
}

struct Milliseconds {
  double forward = 0, input = 0, weights = 0;
  double all() const { return forward + input + weights; }
};

template <typename Work>
double Timed(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

Result<std::unique_ptr<StageModel>> NewStage(const Shape& shape, const std::string& device) {
  SHOAL_ASSIGN_OR_RETURN(const ModelSpec spec, ParseModelSpec(shape.config.dump(), shape.name));
  StageOptions options;
  options.range = {1, kLayers - 1};
  options.device = device;
  options.compute = "bf16";
  SHOAL_ASSIGN_OR_RETURN(auto stage, NewTorchStage(spec, options));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> some(std::size_t{1} << 20);
  for (float& value : some) value = normal(random);
  for (std::size_t first = 0; first < stage->state_size(); first += some.size()) {
    const std::size_t count = std::min(some.size(), stage->state_size() - first);
    SHOAL_RETURN_IF_ERROR(stage->Write(StateVector::kWeights, first, {some.data(), count}));
  }
  return stage;
}

Result<json> Measure(const Shape& shape, const std::string& device) {
  SHOAL_ASSIGN_OR_RETURN(const auto stage, NewStage(shape, device));
  const std::size_t tokens = std::size_t{shape.rows} * shape.tokens;
  const std::size_t hidden = stage->spec().hidden;
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> input(tokens * hidden), output(input.size()), gradient(input.size());
  for (float& value : input) value = normal(random);
  const std::vector<float> given = input;
  MicroBatch batch;
  batch.rows = shape.rows;
  batch.tokens = shape.tokens;
  batch.samples.resize(shape.rows);
  batch.input = input;
  Milliseconds best;
  Status status;
  for (int round = 0; round < kRounds && status.ok(); ++round) {
    Milliseconds took;
    StepLoss loss;
    took.forward = Timed([&] { status = stage->Forward(batch, output, &loss); });
    if (!status.ok()) break;
    took.input = Timed([&] { status = stage->BackwardInput(batch.id, given, gradient); });
    took.weights = Timed([&] {
      for (bool more = status.ok(); more;) {
        const Result<bool> part = stage->BackwardWeights(batch.id);
        status = part.status();
        more = part.ok() && *part;
      }
      // What is queued on the device counts: a value that depends on it is read.
      if (status.ok()) status = stage->Read(StateVector::kGradients, 0, {gradient.data(), 1});
    });
    if (round == 0 || took.all() < best.all()) best = took;
  }
  SHOAL_RETURN_IF_ERROR(status);
  return json{{"shape", shape.name},
              {"layers", kLayers - 2},
              {"rows", shape.rows},
              {"tokens", shape.tokens},
              {"forwardMs", best.forward},
              {"backwardInputMs", best.input},
              {"backwardWeightsMs", best.weights},
              {"tokensPerSecond", 1e3 * static_cast<double>(tokens) / best.all()},
              {"device", stage->device_name()}};
}

}  // namespace
}  // namespace shoal::model

int main(int argc, char** argv) {
  using namespace shoal::model;
  std::string device = "cuda";
  shoal::bench_command::Command command(
      {.name = "device_stage",
       .measures = "Time of F, B and W of two layers of GPT2-XL and Llama-3-8B in bf16, with the "
                   "activations' way from and to the host's memory.",
       .needs = "an NVIDIA GPU with 8 GB free.",
       .takes = "about a minute.",
       .bounds = "all shapes ran; it has no bounds"});
  command.Text("--device", "DEVICE", "cuda (the default), cuda:N or cpu", &device);
  command.Parse(argc, argv);
  json rows = json::array();
  for (const Shape& shape : Shapes()) {
    auto row = Measure(shape, device);
    if (!row.ok()) command.Fail(row.status().ToString());
    if (!command.json()) {
      std::printf("%-12s %u x %u: F %.2f ms, B %.2f ms, W %.2f ms, %.0f tokens/s\n",
                  shape.name.c_str(), shape.rows, shape.tokens, (*row)["forwardMs"].get<double>(),
                  (*row)["backwardInputMs"].get<double>(),
                  (*row)["backwardWeightsMs"].get<double>(),
                  (*row)["tokensPerSecond"].get<double>());
    }
    rows.push_back(std::move(*row));
  }
  if (command.json()) {
    std::printf("%s\n", json{{"schemaVersion", 1}, {"rows", rows}}.dump(1).c_str());
  }
  return 0;
}
