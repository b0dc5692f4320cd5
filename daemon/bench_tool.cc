#include "daemon/bench_tool.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <optional>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/checksum.h"
#include "common/file.h"
#include "dataset/data_header.h"
#include "pipeline/core/step_simulation.h"

namespace shoal::daemon {
namespace {

constexpr std::uint32_t kVocabulary = 256;
constexpr std::uint64_t kTokensMax = 1ull << 28;

std::string ConfigJson(const BenchFiles& files) {
  return nlohmann::ordered_json{{"model_type", "gpt2"},
                                {"n_layer", files.stages},
                                {"n_embd", files.hidden},
                                {"n_head", 1},
                                {"n_positions", files.row_tokens},
                                {"vocab_size", kVocabulary},
                                {"tie_word_embeddings", false}}
             .dump(2) +
         "\n";
}

// Token ids that count upwards: a synthetic stage only counts their labels.
std::string DataFile(const BenchFiles& files) {
  dataset::DataHeader header;
  header.row_tokens = files.row_tokens;
  header.vocabulary = kVocabulary;
  header.train = {files.rows, std::uint64_t{files.rows} * files.row_tokens};
  header.text_tokens = header.train.tokens;
  std::vector<std::byte> payload(header.payload_bytes());
  for (std::size_t i = 0; i < payload.size(); i += 2) {
    StoreLittle(payload.data() + i, static_cast<std::uint16_t>(i / 2 % kVocabulary));
  }
  header.payload_checksum = Checksum64(payload);
  const auto encoded = dataset::EncodeDataHeader(header);
  std::string text(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  text.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  return text;
}

// Nothing: go on. Otherwise the exit code.
std::optional<ExitCode> Parse(CLI::App* app, int argc, const char* const* argv) {
  try {
    std::vector<std::string> arguments(argv, argv + argc);
    std::reverse(arguments.begin(), arguments.end());
    app->parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? ExitCode::kOk : ExitCode::kUsage;
  }
  return std::nullopt;
}

struct Simulated {
  std::uint32_t stages = 1;
  double weight_ms = 0;
  std::string schedule = "1f1b";
  pipeline::SimulatedStage stage;  // backward_input_ms: the whole backward, as given
  pipeline::SimulationOptions options;
};

// Both schedules send a gradient once it is there, before the weights' half: that is what peers do.
double StepSeconds(const Simulated& request) {
  pipeline::SimulationOptions options = request.options;
  options.keep_spans = false;
  options.schedule = request.schedule == "zero-bubble" ? pipeline::ScheduleKind::kZeroBubble
                                                       : pipeline::ScheduleKind::k1f1b;
  pipeline::SimulatedStage stage = request.stage;
  stage.backward_weights_ms = std::min(request.weight_ms, stage.backward_input_ms);
  stage.backward_input_ms -= stage.backward_weights_ms;
  const std::vector<pipeline::SimulatedStage> stages(request.stages, stage);
  return pipeline::SimulateStep(stages, options).step_ms * 1e-3;
}

}  // namespace

Status WriteBenchFiles(const BenchFiles& files) {
  if (files.stages == 0 || files.hidden == 0 || files.rows == 0 ||
      files.row_tokens < dataset::kMinRowTokens || files.row_tokens > dataset::kMaxRowTokens ||
      std::uint64_t{files.rows} * files.row_tokens > kTokensMax) {
    return InvalidArgument(
        "stages, hidden, rows and row_tokens must be positive, rows of 2 to "
        "65536 tokens, 2^28 tokens in all at most");
  }
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(files.directory + "/config.json", ConfigJson(files)));
  return WriteFileAtomic(files.directory + "/data.shoal", DataFile(files));
}

ExitCode RunBenchFiles(int argc, const char* const* argv) {
  CLI::App app{"Config and data of a run with synthetic stages", "shoald bench-files"};
  BenchFiles files;
  app.add_option("--dir", files.directory, "Folder for config.json and data.shoal")->required();
  app.add_option("--stages", files.stages, "Stages")->required();
  app.add_option("--hidden", files.hidden, "Values per token")->required();
  app.add_option("--rows", files.rows, "Samples")->required();
  app.add_option("--tokens", files.row_tokens, "Tokens per sample")->required();
  if (const auto code = Parse(&app, argc, argv)) return *code;
  if (const Status status = WriteBenchFiles(files); !status.ok()) {
    std::cerr << "shoal: " << status.message() << "\n";
    return ExitCodeFor(status);
  }
  return ExitCode::kOk;
}

ExitCode RunSimulate(int argc, const char* const* argv) {
  CLI::App app{"Time of a training step by simulation, all stages alike", "shoald simulate"};
  Simulated request;
  app.add_option("--stages", request.stages, "Stages")->check(CLI::Range(1, 1024));
  app.add_option("--micro-batches", request.options.micro_batches, "Per step")
      ->check(CLI::Range(1, 65536));
  app.add_option("--schedule", request.schedule, "Order of work")
      ->check(CLI::IsMember({"1f1b", "zero-bubble"}));
  app.add_option("--forward-ms", request.stage.forward_ms, "Per micro-batch");
  app.add_option("--backward-ms", request.stage.backward_input_ms, "Of the whole backward");
  app.add_option("--weight-ms", request.weight_ms, "Of these, gradients of the weights");
  app.add_option("--weight-parts", request.stage.weight_parts, "In which these are computed")
      ->check(CLI::Range(1, 1024));
  app.add_option("--forward-bytes", request.stage.forward_bytes, "Of an activation's message");
  app.add_option("--backward-bytes", request.stage.backward_bytes, "Of a gradient's message");
  app.add_option("--link-bps", request.stage.egress_bps, "Bits per second; 0: unlimited");
  app.add_option("--latency-ms", request.stage.latency_ms, "From last bit sent to received");
  app.add_option("--in-flight", request.stage.in_flight, "Micro-batches in flight; 0: no bound");
  if (const auto code = Parse(&app, argc, argv)) return *code;
  std::cout
      << nlohmann::ordered_json{{"schemaVersion", 1}, {"stepSeconds", StepSeconds(request)}}.dump()
      << "\n";
  return ExitCode::kOk;
}

}  // namespace shoal::daemon
