#include "daemon/churn/churn_tool.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "common/command_line/description.h"
#include "common/command_line/usage_error.h"
#include "common/file.h"
#include "common/log.h"
#include "common/units.h"
#include "daemon/churn/report.h"

namespace shoal::daemon {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  shoal bench churn --trace g4dn_2020.csv\n"
    "  shoal bench churn --trace spot16_us-west-2a.json --factor 10 --seed 3 --json\n"
    "  shoal bench churn --kill-every 15s --machines 64\n"
    "\n"
    "The scheduler is the product's, the machines and the clock are simulated: GPT2-XL, times of "
    "a\n"
    "consumer's card, the default codecs' messages. Goodput is useful micro-batches per second of\n"
    "the machines that were there, from the first step on, over those of the same steps without\n"
    "churn, with their first visits and checkpoints; the parts beside it say what became of the "
    "rest. A trace's lines are milliseconds,add|remove,node;\n"
    "or it is {\"metadata\": {\"gap_seconds\": S}, \"data\": [machines, ...]}.\n"
    "Exit code: 0, 1 if goodput is below --least or the run broke, 2 for wrong usage.";

constexpr std::uint32_t kPipelinesMax = 64;

struct Asked {
  std::string trace, kill_every, back, length = "10m", upload = "20mbit", download = "100mbit",
                                       scheduler = "1gbit", latency = "20ms";
  std::uint32_t machines = 64;
  double factor = 1, least = 0;
  bool json = false;
  ChurnSettings settings;
};

void AddOptions(CLI::App* app, Asked* asked) {
  ChurnSettings& s = asked->settings;
  CLI::Option* trace =
      app->add_option("--trace", asked->trace, "File to replay")->type_name(kFileValue);
  CLI::Option* kill =
      app->add_option("--kill-every", asked->kill_every,
                      "Instead of a file: one of the machines dies so often, after 30 minutes");
  kill->excludes(trace);
  app->add_option("--machines", asked->machines, "Machines that come first, with --kill-every")
      ->needs(kill)
      ->capture_default_str();
  app->add_option("--back", asked->back, "A fresh machine comes so long after a death; else none")
      ->needs(kill);
  app->add_option("--for", asked->length, "How long they die, with --kill-every")
      ->needs(kill)
      ->capture_default_str();
  app->add_option("--factor", asked->factor, "Divides all times of the trace")
      ->check(CLI::Range(1e-3, 1e6))
      ->excludes(kill)
      ->capture_default_str();
  app->add_option("--seed", s.seed,
                  "Of samples and of who goes; 0: of counts those go that came first")
      ->capture_default_str();
  app->add_option("--stages", s.stages, "Stages of a pipeline")
      ->check(CLI::Range(1, 48))
      ->capture_default_str();
  app->add_option("--pipelines", s.pipelines,
                  "Pipelines of the plan; if not given, the largest power of two that the trace's "
                  "machines can fill")
      ->check(CLI::Range(1u, kPipelinesMax));
  app->add_option("--micro-batches", s.micro_batches, "Per step and pipeline")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app->add_option("--rows", s.train_rows, "Samples of the data")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  app->add_option("--checkpoint-every", s.checkpoint_every,
                  "Steps between checkpoints; 0: chosen as in a run")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app->add_option("--rank", s.rank, "Of powersgd, the pipelines' exchange")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app->add_option("--upload", asked->upload, "Line of a machine")->capture_default_str();
  app->add_option("--download", asked->download, "Line of a machine")->capture_default_str();
  app->add_option("--scheduler-line", asked->scheduler, "Line of the scheduler, each way")
      ->capture_default_str();
  app->add_option("--latency", asked->latency, "One way")->capture_default_str();
  app->add_flag("--silent", s.silent,
                "Machines that go say nothing: their connections do not break");
  app->add_option("--least", asked->least, "Goodput below which the exit code is 1")
      ->check(CLI::Range(0.0, 1.0));
  app->add_flag("--json", asked->json, "Print one JSON object");
}

Status ReadRates(Asked* asked) {
  ChurnSettings& s = asked->settings;
  const struct {
    const char* flag;
    const std::string& text;
    BitsPerSecond* rate;
  } rates[] = {{"--upload", asked->upload, &s.upload},
               {"--download", asked->download, &s.download},
               {"--scheduler-line", asked->scheduler, &s.scheduler}};
  for (const auto& [flag, text, rate] : rates) {
    const auto parsed = ParseRate(text);
    if (!parsed.ok()) return parsed.status().WithContext(flag);
    if (parsed->value == 0) return InvalidArgument(std::string(flag) + " must be a rate");
    *rate = *parsed;
  }
  const auto latency = ParseDuration(asked->latency);
  if (!latency.ok()) return latency.status().WithContext("--latency");
  if (*latency > std::chrono::seconds(1)) return InvalidArgument("--latency is a second at most");
  s.latency = *latency;
  return Status::Ok();
}

Result<ChurnTrace> MadeTrace(const Asked& asked) {
  SteadyChurn churn;
  churn.machines = asked.machines;
  churn.seed = asked.settings.seed;
  const struct {
    const char* flag;
    const std::string& text;
    Duration* duration;
  } durations[] = {{"--kill-every", asked.kill_every, &churn.kill_every},
                   {"--for", asked.length, &churn.length},
                   {"--back", asked.back, &churn.back_after}};
  for (const auto& [flag, text, duration] : durations) {
    if (text.empty()) continue;
    const auto parsed = ParseDuration(text);
    if (!parsed.ok()) return parsed.status().WithContext(flag);
    *duration = *parsed;
  }
  return MakeSteadyTrace(churn);
}

Result<ChurnTrace> ReadTrace(const Asked& asked) {
  if (!asked.kill_every.empty()) return MadeTrace(asked);
  if (asked.trace.empty()) return InvalidArgument("give --trace FILE or --kill-every TIME");
  SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(asked.trace, kTraceBytesMax));
  Result<ChurnTrace> trace = ParseTrace(text, asked.settings.seed);
  if (!trace.ok()) return trace.status().WithContext(asked.trace);
  return Compress(*std::move(trace), asked.factor);
}

// The smallest stage's state, over a line that does nothing else.
Duration LeastFetch(const TrainedModel& model, const ChurnSettings& settings) {
  double bytes = model.stages.front().state_bytes;
  for (const StageCosts& stage : model.stages) bytes = std::min(bytes, stage.state_bytes);
  constexpr double kMost = 1e9;  // longer than any trace, and no overflow
  const double seconds = std::min(kMost, 8 * bytes / static_cast<double>(settings.download.value));
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

std::string NameOf(const Asked& asked) {
  if (!asked.trace.empty()) return std::filesystem::path(asked.trace).filename().string();
  return "one of " + std::to_string(asked.machines) + " dies every " + asked.kill_every +
         (asked.back.empty() ? "" : ", a fresh one comes after " + asked.back) + ", for " +
         asked.length;
}

// Of the trace, and what it asked for is in order: `asked` gets its number of pipelines.
Result<ChurnTrace> Prepare(Asked* asked) {
  SHOAL_RETURN_IF_ERROR(ReadRates(asked));
  SHOAL_ASSIGN_OR_RETURN(ChurnTrace trace, ReadTrace(*asked));
  ChurnSettings& s = asked->settings;
  if (s.pipelines == 0) {
    s.pipelines = std::min(std::bit_floor(std::max(trace.named / s.stages, 1u)), kPipelinesMax);
  }
  return trace;
}

ExitCode Fail(ExitCode code, const Status& status) {
  std::cerr << "shoal bench churn: " << status.message()
            << (code == ExitCode::kUsage ? "; see `shoal bench churn --help`\n" : "\n");
  return code;
}

}  // namespace

ExitCode RunChurn(int argc, const char* const* argv) {
  SetLogLevel(LogLevel::kOff);
  CLI::App app{"Replays machines that come and go against the scheduler: what is left of the pace",
               "shoal bench churn"};
  app.footer(kFooter);
  Asked asked;
  AddOptions(&app, &asked);
  if (PrintedDescription(app, {argv, argv + argc})) return ExitCode::kOk;
  try {
    std::vector<std::string> arguments(argv, argv + argc);
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error), ExitCode::kOk;
    std::cerr << "shoal bench churn: " << UsageError(app, error) << "\n";
    return ExitCode::kUsage;
  }
  const Result<ChurnTrace> trace = Prepare(&asked);
  if (!trace.ok()) return Fail(ExitCode::kUsage, trace.status());
  Result<TrainedModel> model = MakeGpt2Xl(asked.settings);
  if (!model.ok()) return Fail(ExitCode::kUsage, model.status());
  const Result<ChurnResult> result = SimulateChurn(*trace, asked.settings);
  if (!result.ok()) return Fail(ExitCode::kFailure, result.status());
  const double whole = WholePipelines(*trace, asked.settings.stages, asked.settings.pipelines,
                                      LeastFetch(*model, asked.settings));
  const ChurnReport report{NameOf(asked),     asked.factor, asked.settings,
                           *std::move(model), whole,        *result};
  std::cout << (asked.json ? FormatChurnJson(report) : FormatChurn(report));
  return result->goodput < asked.least ? ExitCode::kFailure : ExitCode::kOk;
}

}  // namespace shoal::daemon
