// The commands of shoal-run. Results go to standard output, progress to standard error.

#ifndef SHOAL_MODEL_RUN_COMMANDS_H_
#define SHOAL_MODEL_RUN_COMMANDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/exit_code.h"
#include "dataset/prepare/prepare_data.h"
#include "model/stage_model.h"

namespace shoal::model {

// Options that all commands on a model have.
struct RunOptions {
  std::string model;    // directory
  std::string adapter;  // folder, or empty
  std::string device = "auto";
  std::string compute = "fp32";
  int threads = 0;
  bool json = false;
};

struct EvalOptions {
  RunOptions run;
  std::string data;
  std::string split = "validation";  // or "train"
  std::uint32_t rows = 8;            // per forward
  std::uint64_t max_rows = 0;        // 0: all
};

struct AnswersOptions {
  RunOptions run;
  std::string answers;       // file
  std::uint32_t tokens = 0;  // most of an answer; 0: as the wanted one has, and some more
  bool chat = false;         // prompts go through the model's chat template
  bool show = false;         // wrong answers
};

struct SamplingOptions {
  std::uint32_t tokens = 100;  // most to add
  double temperature = 0.8;    // 0: always the most probable token
  std::uint32_t top_k = 40;    // 0: all tokens
  std::uint64_t seed = 0;
};

struct GenerateOptions {
  RunOptions run;
  std::string prompt;
  SamplingOptions sampling;
};

struct ChatCommand {
  RunOptions run;
  std::string system;                  // message before all others; empty: none
  std::optional<std::string> message;  // answered, and no other; else they are read
  SamplingOptions sampling = {.tokens = 512};
};

struct LogitsOptions {
  RunOptions run;
  std::string text;
};

struct PrepareCommand {
  dataset::PrepareOptions options;
  std::string loss = "answers";  // or "all"; in place of options.loss
  bool json = false;
};

struct ConvertOptions {
  std::string model, output;     // directories
  std::string as = "directory";  // or "gguf"
  std::string dtype, type;       // of one and of the other; may be empty
  bool json = false;
};

// How a command ended.
struct RunResult {
  ExitCode exit = ExitCode::kOk;
  Status status;

  // Model, config or data are wrong.
  static RunResult BadInput(Status status) { return {ExitCode::kBadConfig, std::move(status)}; }
  static RunResult Failure(Status status) { return {ExitCode::kFailure, std::move(status)}; }
};

RunResult RunEval(const EvalOptions& options);
RunResult RunAnswers(const AnswersOptions& options);
RunResult RunChat(const ChatCommand& command);
RunResult RunGenerate(const GenerateOptions& options);
RunResult RunLogits(const LogitsOptions& options);
// Text to token rows; a progress bar when standard error is a terminal.
RunResult RunPrepare(PrepareCommand command);
// A model directory in another form or number format.
RunResult RunConvert(const ConvertOptions& options);

// The whole model as one stage, weights loaded.
Result<std::unique_ptr<StageModel>> OpenWholeModel(const RunOptions& options);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_RUN_COMMANDS_H_
