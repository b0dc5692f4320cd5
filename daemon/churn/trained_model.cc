#include "daemon/churn/trained_model.h"

#include <algorithm>
#include <cstring>

#include "model/families/family.h"
#include "model/families/model_spec.h"
#include "scheduler/config/run_config_keys.h"
#include "scheduler/plan/even_cuts.h"

namespace shoal::daemon {
namespace {

// Not tied: as in all benches whose stages have no weights, no two stages share a table.
constexpr const char* kConfigJson =
    R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"vocab_size":50257,)"
    R"("n_positions":1024,"n_embd":1600,"n_layer":48,"n_head":25,)"
    R"("activation_function":"gelu_new","layer_norm_epsilon":1e-5,"tie_word_embeddings":false})";

constexpr std::uint32_t kTokens = 1024;
constexpr double kLayersTimed = 6, kForwardMs = 45, kInputMs = 67.5, kWeightsMs = 67.5;
constexpr std::size_t kHashBytes = 32;
constexpr std::uint64_t kSteps = 100'000'000;  // the trace ends first

// Factors of matrices, all else as it is.
double ExchangedValues(const model::TensorSpecs& tensors, std::uint32_t rank) {
  double values = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto all = static_cast<double>(model::ValuesOf(tensor));
    if (tensor.shape.size() != 2) {
      values += all;
      continue;
    }
    const auto rows = static_cast<double>(tensor.shape[0]);
    values += std::min(all, rank * (rows + all / rows));
  }
  return values;
}

double LayerCost(const model::ModelSpec& model) {
  return static_cast<double>(model.ParametersOf(0, 1, false, false)) + 2.0 * model.hidden * kTokens;
}

double HeadCost(const model::ModelSpec& model) {
  return static_cast<double>(model.hidden) * model.vocabulary;
}

void SetConfig(const ChurnSettings& settings, const model::ModelSpec& model,
               scheduler::RunConfig* config) {
  config->name = "churn";
  config->steps = kSteps;
  config->seed = settings.seed;
  config->stages = settings.stages;
  config->pipelines = settings.pipelines;
  config->micro_batches = settings.micro_batches * settings.pipelines;
  config->micro_batch_rows = 1;
  config->checkpoint_every = settings.checkpoint_every;
  config->evaluate_every = 0;
  config->replica_method = "powersgd:rank=" + std::to_string(settings.rank);
  config->run = RunId{0x5e0a1};
  config->model_config_json = kConfigJson;
  config->layers = model.layers();
  config->row_tokens = kTokens;
  config->train_rows = settings.train_rows;
  config->stage_first_layers =
      scheduler::EvenCuts(model.layers(), settings.stages,
                          {static_cast<double>(model.hidden), LayerCost(model), HeadCost(model)});
}

void SetStages(const model::ModelSpec& model, std::uint32_t rank, TrainedModel* trained) {
  const std::vector<std::uint32_t>& cuts = trained->config.stage_first_layers;
  const std::uint32_t stages = trained->config.stages;
  for (std::uint32_t s = 0; s < stages; ++s) {
    std::vector<std::string> parts;
    if (s == 0) parts.push_back("embedding");
    for (std::uint32_t l = cuts[s]; l < cuts[s + 1]; ++l) {
      parts.push_back("layer." + std::to_string(l));
    }
    if (s + 1 == stages) parts.push_back("head");
    StageCosts costs;
    for (const std::string& part : parts) {
      costs.exchange_bytes += 4 * ExchangedValues(model.PartTensors(part), rank);
      costs.state_bytes += 3 * static_cast<double>(trained->part_bytes.at(part));
    }
    const double head = s + 1 == stages ? HeadCost(model) / LayerCost(model) : 0;
    const double layers = (cuts[s + 1] - cuts[s] + head) / kLayersTimed;
    costs.forward_ms = layers * kForwardMs;
    costs.backward_input_ms = layers * kInputMs;
    costs.backward_weights_ms = layers * kWeightsMs;
    trained->stages.push_back(costs);
  }
}

}  // namespace

std::string ArtefactHash(const std::string& name, std::uint64_t step) {
  std::string hash(kHashBytes, '\0');
  std::memcpy(hash.data(), &step, sizeof step);
  name.copy(hash.data() + sizeof step, kHashBytes - sizeof step);
  return hash;
}

std::uint64_t StepOfHash(const std::string& hash) {
  std::uint64_t step = 0;
  if (hash.size() == kHashBytes) std::memcpy(&step, hash.data(), sizeof step);
  return step;
}

Result<TrainedModel> MakeGpt2Xl(const ChurnSettings& settings) {
  SHOAL_ASSIGN_OR_RETURN(const model::ModelSpec model,
                         model::ParseModelSpec(kConfigJson, "GPT2-XL"));
  if (settings.stages < 1 || settings.stages > model.layers() || settings.pipelines < 1) {
    return InvalidArgument("GPT2-XL has 1 to " + std::to_string(model.layers()) +
                           " stages, and a run one pipeline at least");
  }
  TrainedModel trained;
  SetConfig(settings, model, &trained.config);
  const std::uint64_t rows = trained.config.micro_batches;
  if (settings.train_rows < rows) {
    return InvalidArgument("a step takes " + std::to_string(rows) + " rows, the data has " +
                           std::to_string(settings.train_rows));
  }
  SHOAL_RETURN_IF_ERROR(scheduler::CheckRunConfig(trained.config));
  SHOAL_RETURN_IF_ERROR(scheduler::CheckReplicaMethod(trained.config));
  const auto add = [&trained](const std::string& name, std::uint64_t bytes) {
    control::v1::ArtefactRef ref;
    ref.set_name(name);
    ref.set_hash(ArtefactHash(name, 0));
    ref.set_size(bytes);
    trained.initial[name] = ref;
  };
  for (const std::string& part : model.PartNames()) {
    std::uint64_t values = 0;
    for (const auto& [name, tensor] : model.PartTensors(part)) values += model::ValuesOf(tensor);
    if (values == 0) continue;
    trained.part_bytes[part] = 4 * values;
    add(part, 4 * values);
  }
  add("data", settings.train_rows * kTokens * 4);
  SetStages(model, settings.rank, &trained);
  const double values = static_cast<double>(kTokens) * model.hidden;
  trained.change_bytes = values * kChangeBits / 8;
  trained.first_bytes = values * kFirstBits / 8;
  trained.gradient_bytes = values * kGradientBits / 8;
  return trained;
}

}  // namespace shoal::daemon
