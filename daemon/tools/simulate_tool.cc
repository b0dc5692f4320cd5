#include "daemon/tools/simulate_tool.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <optional>
#include <vector>

#include "common/command_line/usage_error.h"
#include "pipeline/core/step_simulation.h"

namespace shoal::daemon {
namespace {

// Nothing: go on. Otherwise the exit code.
std::optional<ExitCode> Parse(CLI::App* app, int argc, const char* const* argv) {
  try {
    std::vector<std::string> arguments(argv, argv + argc);
    std::reverse(arguments.begin(), arguments.end());
    app->parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app->exit(error), ExitCode::kOk;
    std::cerr << "shoald: " << UsageError(*app, error) << "\n";
    return ExitCode::kUsage;
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

ExitCode RunSimulate(int argc, const char* const* argv) {
  CLI::App app{"Time of a training step by simulation, all stages alike", "shoald simulate"};
  Simulated request;
  app.add_option("--stages", request.stages, "Stages of the pipeline")->check(CLI::Range(1, 1024));
  app.add_option("--micro-batches", request.options.micro_batches, "Micro-batches per step")
      ->check(CLI::Range(1, 65536));
  app.add_option("--schedule", request.schedule, "Order of forwards and backwards")
      ->check(CLI::IsMember({"1f1b", "zero-bubble"}));
  app.add_option("--forward-ms", request.stage.forward_ms, "Time of a micro-batch's forward");
  app.add_option("--backward-ms", request.stage.backward_input_ms,
                 "Time of a micro-batch's whole backward");
  app.add_option("--weight-ms", request.weight_ms,
                 "Part of --backward-ms that computes gradients of weights");
  app.add_option("--weight-parts", request.stage.weight_parts,
                 "Parts that the gradients of weights are computed in")
      ->check(CLI::Range(1, 1024));
  app.add_option("--forward-bytes", request.stage.forward_bytes, "Size of an activation's message");
  app.add_option("--backward-bytes", request.stage.backward_bytes, "Size of a gradient's message");
  app.add_option("--link-bps", request.stage.egress_bps,
                 "Rate of each line in bit/s; 0: unlimited");
  app.add_option("--latency-ms", request.stage.latency_ms, "One-way delay of a line");
  app.add_option("--in-flight", request.stage.in_flight, "Micro-batches in flight; 0: no bound");
  if (const auto code = Parse(&app, argc, argv)) return *code;
  std::cout
      << nlohmann::ordered_json{{"schemaVersion", 1}, {"stepSeconds", StepSeconds(request)}}.dump()
      << "\n";
  return ExitCode::kOk;
}

}  // namespace shoal::daemon
