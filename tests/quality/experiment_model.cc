#include "tests/quality/experiment_model.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/file.h"
#include "model/families/family.h"
#include "scheduler/config/run_config.h"

namespace shoal::quality {
namespace {

constexpr std::uint64_t kTextBytesMax = 1ull << 30;
// Where tinyshakespeare is cut, in bytes.
constexpr std::uint64_t kFineTuneBegin = 557697, kHeldOutBegin = 1003854;

std::string ConfigJson(const ModelShape& spec, std::uint32_t vocabulary) {
  return R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": )" +
         std::to_string(spec.layers) + R"(, "n_embd": )" + std::to_string(spec.hidden) +
         R"(, "n_head": )" + std::to_string(spec.heads) +
         R"(, "n_positions": 128, "vocab_size": )" + std::to_string(vocabulary) +
         R"(, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
"initializer_range": 0.02, "tie_word_embeddings": false})";
}

Result<std::string> ReadBytes(const std::string& path, std::uint64_t bytes_min) {
  SHOAL_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kTextBytesMax));
  if (text.size() >= bytes_min) return text;
  return InvalidArgument(path + " has " + std::to_string(text.size()) + " bytes, " +
                         std::to_string(bytes_min) + " are needed; is it the right file?");
}

}  // namespace

Result<BuiltModel> BuildModel(const ModelShape& spec) {
  BuiltModel model;
  model.device = spec.device;
  std::uint32_t vocabulary = 256;
  if (!spec.tokenizer.empty()) {
    SHOAL_ASSIGN_OR_RETURN(model.tokenizer, dataset::LoadTokenizer(spec.tokenizer));
    vocabulary = model.tokenizer->vocabulary();
  }
  SHOAL_ASSIGN_OR_RETURN(model.spec,
                         model::ParseModelSpec(ConfigJson(spec, vocabulary), "the built-in model"));
  return model;
}

Result<Text> ReadText(const std::string& path, std::uint64_t bytes_min, const BuiltModel& model) {
  SHOAL_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(path, bytes_min));
  return EncodeText(bytes, model.tokenizer.get());
}

Result<Shakespeare> ReadShakespeare(const std::string& path, const BuiltModel& model) {
  SHOAL_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(path, kShakespeareBytes));
  const auto part = [&](std::uint64_t begin, std::uint64_t end) {
    return EncodeText(std::string_view(bytes).substr(begin, end - begin), model.tokenizer.get());
  };
  return Shakespeare{part(0, kFineTuneBegin), part(kFineTuneBegin, kHeldOutBegin),
                     part(kHeldOutBegin, bytes.size())};
}

std::map<std::string, std::string> PartFiles(const model::StageModel& stage,
                                             const std::string& folder, const std::string& ending) {
  std::map<std::string, std::string> files;
  for (const std::string& part : stage.parts()) {
    files[part] = folder + "/" + part + ending;
  }
  return files;
}

Result<std::unique_ptr<model::StageModel>> NewStage(const BuiltModel& model,
                                                    model::StageOptions options,
                                                    const std::string& folder) {
  options.device = model.device;
  SHOAL_ASSIGN_OR_RETURN(auto stage, model::NewTorchStage(model.spec, options));
  SHOAL_RETURN_IF_ERROR(stage->Load(PartFiles(*stage, folder, ".safetensors"), {}));
  return stage;
}

Status EvaluateRows(const Stages& stages, const dataset::PreparedData& data, std::uint64_t first,
                    std::uint64_t count, const TakeOutput& take, model::StepLoss* total) {
  model::MicroBatch micro_batch;
  micro_batch.tokens = kRowTokens;
  std::vector<std::int32_t> tokens, labels, segments;
  for (std::uint64_t i = 0; i < count; ++i) {
    micro_batch.samples.push_back({first + i});
    SHOAL_RETURN_IF_ERROR(data.AppendRow(micro_batch.samples.back(), &tokens, &labels, &segments));
  }
  micro_batch.rows = static_cast<std::uint32_t>(count);
  micro_batch.token_ids = tokens;
  micro_batch.labels = labels;
  std::vector<float> input, output;
  model::StepLoss loss;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    output.resize(s + 1 == stages.size() ? 0 : tokens.size() * stages[s]->spec().hidden);
    SHOAL_RETURN_IF_ERROR(stages[s]->Evaluate(micro_batch, output, &loss));
    if (take && !output.empty()) take(s, output);
    input.swap(output);
    micro_batch.input = input;
    micro_batch.token_ids = {};
  }
  total->sum += loss.sum;
  total->labels += loss.labels;
  return Status::Ok();
}

Result<double> HeldOutLoss(const Stages& stages, const dataset::PreparedData& data) {
  model::StepLoss total;
  const std::uint64_t first = data.info().train_rows, rows = data.info().validation_rows;
  for (std::uint64_t row = 0; row < rows; row += kBatch) {
    const std::uint64_t count = std::min<std::uint64_t>(kBatch, rows - row);
    SHOAL_RETURN_IF_ERROR(EvaluateRows(stages, data, first + row, count, {}, &total));
  }
  return total.sum / static_cast<double>(total.labels);
}

std::function<double(std::uint64_t)> LearningRateRule(double rate, std::uint64_t warmup,
                                                      std::uint64_t steps,
                                                      const std::string& decay) {
  scheduler::RunConfig config;
  config.learning_rate = rate;
  config.warmup_steps = warmup;
  config.steps = steps;
  config.decay = decay;
  return [config](std::uint64_t step) { return scheduler::LearningRate(config, step); };
}

Status WhyFailed(test_support::SimSwarm* swarm) {
  for (const auto& peer : swarm->peers()) {
    if (peer->failure_) return peer->failure_->status;
  }
  if (swarm->held()) {
    return FailedPrecondition("a gradient is not finite in three steps in a row");
  }
  return Internal("the swarm stands still");
}

}  // namespace shoal::quality
