// Tokens per second of a middle stage on a CUDA device: ./x bench device_stage
//
// Layers of GPT2-XL's and Llama-3-8B's shapes in bf16 with random weights, all of them trained or
// LoRA of rank 16 on every product. A micro-batch is F, B and W, from activations to gradients
// where a peer's stage has them, on the device; the best of several rounds counts.
// tests/bench/torch_stage.py measures the same layers in PyTorch.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "compression/device/device_values.h"
#include "model/families/adapter_config.h"
#include "model/families/family.h"
#include "model/stage_model.h"
#include "storage/models/model_directory.h"
#include "tests/bench/bench_command.h"

namespace shoal::model {
namespace {

using nlohmann::json;

constexpr std::uint32_t kLayers = 4;  // the stage has those between the first and the last
constexpr int kRounds = 60;
constexpr std::uint32_t kRank = 16;

struct Shape {
  std::string name;
  json config;
  std::uint32_t rows, tokens;
};

json Gpt2(std::uint32_t hidden, std::uint32_t heads, std::uint32_t tokens) {
  return {{"model_type", "gpt2"}, {"n_layer", kLayers},    {"n_embd", hidden},
          {"n_head", heads},      {"n_positions", tokens}, {"vocab_size", 50257}};
}

json Llama(std::uint32_t hidden, std::uint32_t inner, std::uint32_t heads, std::uint32_t tokens) {
  return {{"model_type", "llama"},
          {"num_hidden_layers", kLayers},
          {"hidden_size", hidden},
          {"intermediate_size", inner},
          {"num_attention_heads", heads},
          {"num_key_value_heads", heads / 4},
          {"max_position_embeddings", tokens},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"vocab_size", 128256},
          {"tie_word_embeddings", false}};
}

std::vector<Shape> Shapes(bool tiny) {
  if (tiny) {
    return {{"tiny-gpt2", Gpt2(64, 4, 64), 2, 64}, {"tiny-llama", Llama(64, 128, 4, 64), 1, 64}};
  }
  const json xl = Gpt2(1600, 25, 1024);
  return {{"gpt2-xl", xl, 1, 1024},
          {"gpt2-xl", xl, 4, 1024},
          {"llama-3-8b", Llama(4096, 14336, 32, 2048), 1, 2048}};
}

// A model in memory: every tensor is a beginning of the same random values in bf16.
class RandomModel : public storage::ModelDirectory {
 public:
  // `spec`: outlives this. `range`: of the layers that are asked for.
  RandomModel(const ModelSpec& spec, const StageRange& range) : spec_(spec) {
    std::uint64_t longest = 0;
    for (std::uint32_t layer = range.first_layer; layer < range.last_layer; ++layer) {
      for (const auto& [name, tensor] : spec.PartTensors("layer." + std::to_string(layer))) {
        longest = std::max(longest, ValuesOf(tensor));
      }
    }
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.02F);
    std::vector<std::uint16_t> some(std::size_t{1} << 20);
    for (std::uint16_t& value : some) {
      const float drawn = normal(random);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &drawn, sizeof(bits));
      value = static_cast<std::uint16_t>(bits >> 16);
    }
    values_.reserve(longest);
    while (values_.size() < longest) {
      const auto count = std::min<std::uint64_t>(some.size(), longest - values_.size());
      values_.insert(values_.end(), some.begin(),
                     some.begin() + static_cast<std::ptrdiff_t>(count));
    }
  }

  const storage::ModelLayout& layout() const override { return layout_; }
  Result<storage::TensorMap> Part(const std::string& part) const override {
    storage::TensorMap tensors;
    for (const auto& [name, tensor] : spec_.PartTensors(part)) {
      const auto values = std::span(values_).first(ValuesOf(tensor));
      tensors[name] = {storage::DType::kBF16, tensor.shape, std::as_bytes(values)};
    }
    return tensors;
  }
  std::vector<std::string> FreshTensors() const override { return {}; }
  std::vector<std::string> TokenizerFiles() const override { return {}; }

 private:
  const ModelSpec& spec_;
  const storage::ModelLayout layout_;
  std::vector<std::uint16_t> values_;
};

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

Result<std::unique_ptr<StageModel>> NewStage(const Shape& shape, bool lora,
                                             const std::string& device) {
  SHOAL_ASSIGN_OR_RETURN(ModelSpec spec, ParseModelSpec(shape.config.dump(), shape.name));
  if (lora) {
    AdapterConfig config;
    config.rank = kRank;
    SHOAL_RETURN_IF_ERROR(Adapt(config, &spec));
  }
  StageOptions options;
  options.range = {1, kLayers - 1};
  options.device = device;
  options.compute = "bf16";
  options.values_on_device = true;
  SHOAL_ASSIGN_OR_RETURN(auto stage, NewTorchStage(spec, options));
  SHOAL_RETURN_IF_ERROR(stage->LoadDirectory(RandomModel(spec, options.range)));
  return stage;
}

Result<json> Measure(const Shape& shape, bool lora, const std::string& device) {
  SHOAL_ASSIGN_OR_RETURN(const auto stage, NewStage(shape, lora, device));
  const std::size_t tokens = std::size_t{shape.rows} * shape.tokens;
  const std::size_t hidden = stage->spec().hidden;
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> drawn(tokens * hidden);
  for (float& value : drawn) value = normal(random);
  auto home = compression::HostValues();
  if (const auto memory = stage->values_memory(); memory != nullptr) {
    SHOAL_ASSIGN_OR_RETURN(home, compression::CudaValues(memory));
  }
  Buffer input, given, output, gradient;
  for (Buffer* buffer : {&input, &given, &output, &gradient}) {
    SHOAL_ASSIGN_OR_RETURN(*buffer, home->Allocate(drawn.size()));
    SHOAL_RETURN_IF_ERROR(home->CopyFromHost(std::as_bytes(std::span(drawn)), buffer->floats()));
  }
  MicroBatch batch;
  batch.rows = shape.rows;
  batch.tokens = shape.tokens;
  batch.samples.resize(shape.rows);
  batch.input = std::as_const(input).floats();
  Milliseconds best;
  Status status;
  for (int round = 0; round < kRounds && status.ok(); ++round) {
    Milliseconds took;
    StepLoss loss;
    took.forward = Timed([&] { status = stage->Forward(batch, output.floats(), &loss); });
    if (!status.ok()) break;
    took.input =
        Timed([&] { status = stage->BackwardInput(batch.id, given.floats(), gradient.floats()); });
    took.weights = Timed([&] {
      for (bool more = status.ok(); more;) {
        const Result<bool> part = stage->BackwardWeights(batch.id);
        status = part.status();
        more = part.ok() && *part;
      }
    });
    if (round == 0 || took.all() < best.all()) best = took;
  }
  SHOAL_RETURN_IF_ERROR(status);
  return json{{"shape", shape.name},
              {"training", lora ? "lora" : "full"},
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
  std::string filter;
  bool tiny = false;
  shoal::bench_command::Command command(
      {.name = "device_stage",
       .measures =
           "Time of F, B and W of two layers of GPT2-XL and Llama-3-8B in bf16, all trained "
           "and with LoRA, from activations to gradients on the device.",
       .needs = "an NVIDIA GPU with 8 GB free.",
       .takes = "about a minute.",
       .bounds = "all shapes ran; it has no bounds"});
  command.Text("--device", "DEVICE", "cuda (the default), cuda:N or cpu", &device);
  command.Text("--filter", "TEXT", "only shapes whose \"NAME ROWS TRAINING\" contains TEXT",
               &filter);
  command.Flag("--tiny", "layers of small shapes instead, to try the bench itself", &tiny);
  command.Parse(argc, argv);
  json rows = json::array();
  for (const Shape& shape : Shapes(tiny)) {
    for (const bool lora : {false, true}) {
      const std::string named =
          shape.name + " " + std::to_string(shape.rows) + (lora ? " lora" : " full");
      if (named.find(filter) == std::string::npos) continue;
      auto row = Measure(shape, lora, device);
      if (!row.ok()) command.Fail(row.status().ToString());
      if (!command.json()) {
        std::printf("%-12s %-4s %u x %u: F %.2f ms, B %.2f ms, W %.2f ms, %.0f tokens/s\n",
                    shape.name.c_str(), lora ? "lora" : "full", shape.rows, shape.tokens,
                    (*row)["forwardMs"].get<double>(), (*row)["backwardInputMs"].get<double>(),
                    (*row)["backwardWeightsMs"].get<double>(),
                    (*row)["tokensPerSecond"].get<double>());
      }
      rows.push_back(std::move(*row));
    }
  }
  if (rows.empty()) command.WrongUsage("no shape matches --filter");
  if (command.json()) {
    std::printf("%s\n", json{{"schemaVersion", 1}, {"rows", rows}}.dump(1).c_str());
  }
  return 0;
}
