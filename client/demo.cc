#include "client/demo.h"

#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <thread>

#include "client/commands.h"
#include "client/demo_swarm.h"
#include "client/process.h"
#include "client/programs.h"
#include "client/terminal.h"
#include "common/file.h"
#include "common/nesting.h"
#include "common/units.h"

namespace shoal::client {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr Duration kPoll = std::chrono::milliseconds(300);
constexpr std::size_t kOutputBytesMax = 16 << 20;
constexpr auto kInterrupted = static_cast<ExitCode>(130);

// What the demo trains with, beside the user's options; chosen so that two cores learn something
// visible in a few minutes.
constexpr std::uint32_t kMicroBatches = 8;
constexpr std::uint32_t kMicroBatchRows = 4;
constexpr std::uint64_t kWarmupSteps = 20;
constexpr double kLearningRate = 2e-3;
constexpr double kFineTuneRate = 3e-4;
constexpr const char* kRowTokens = "128";

volatile sig_atomic_t g_interrupted = 0;

void OnInterrupt(int) { g_interrupted = 1; }

Status Interrupted() { return Cancelled("interrupted"); }

struct Report {
  double held_out_before = 0, held_out_after = 0;
  RunProgress progress;
  SwarmTotals totals;
  double training_s = 0;
  double relative_delta = 0;  // the last one that was seen
  std::string model_directory, sample, run_directory;
};

std::string Decimal(const char* format, double value) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

class DemoRun {
 public:
  explicit DemoRun(const DemoOptions& options) : options_(options) {}

  Result<Report> Run() {
    if (Status ready = Prepare(); !ready.ok()) {
      Clear();
      return ready;
    }
    SHOAL_ASSIGN_OR_RETURN(report_.held_out_before, HeldOutLoss(model_));
    DemoSwarm swarm(directory_);
    SHOAL_RETURN_IF_ERROR(swarm.Start(MakeRunFile(), {}, MakeLaunches()));
    std::cerr << "live page: " << swarm.page_url() << "\n";
    SHOAL_RETURN_IF_ERROR(Watch(&swarm));
    SHOAL_ASSIGN_OR_RETURN(report_.totals, swarm.Totals());
    report_.model_directory = directory_ + "/tuned";
    SHOAL_RETURN_IF_ERROR(swarm.Export(report_.model_directory).WithContext("exporting the model"));
    swarm.Stop();
    SHOAL_ASSIGN_OR_RETURN(report_.held_out_after, HeldOutLoss(report_.model_directory));
    SHOAL_ASSIGN_OR_RETURN(report_.sample, Sample());
    report_.run_directory = directory_;
    return std::move(report_);
  }

 private:
  // Folder, model and data.
  Status Prepare() {
    SHOAL_ASSIGN_OR_RETURN(run_program_, FindProgram("shoal-run"));
    SHOAL_RETURN_IF_ERROR(MakeFolder());
    SHOAL_ASSIGN_OR_RETURN(const std::string examples, FindExamples());
    model_ = options_.model;
    fresh_ = model_.empty();
    if (fresh_) {
      model_ = directory_ + "/model";
      SHOAL_RETURN_IF_ERROR(Call({"init-model", "--config", examples + "/tiny-gpt2/config.json",
                                  "--out", model_, "--seed", std::to_string(options_.seed)}));
    }
    std::error_code error;
    model_ = fs::absolute(model_, error).string();
    data_ = fs::absolute(options_.data, error).string();
    // A codec or a method that is none is found before anything takes long.
    SHOAL_RETURN_IF_ERROR(DemoSwarm(directory_).Check(MakeRunFile()));
    if (!options_.data.empty() && options_.data.ends_with(".shoal")) return Status::Ok();
    const std::string text = options_.data.empty() ? examples + "/tinyshakespeare.txt" : data_;
    data_ = directory_ + "/data.shoal";
    return Call(
        {"prepare", "--tokenizer", model_, "--text", text, "--row", kRowTokens, "--out", data_});
  }

  Status MakeFolder() {
    std::error_code error;
    if (options_.directory.empty()) {
      std::string name = (fs::temp_directory_path(error) / "shoal-demo-XXXXXX").string();
      if (::mkdtemp(name.data()) == nullptr) return FromErrno(errno, "create " + name);
      directory_ = name;
    } else {
      directory_ = fs::absolute(options_.directory, error).string();
      if (fs::exists(directory_, error) && !fs::is_empty(directory_, error)) {
        return AlreadyExists(directory_ + " is not empty; choose another --dir");
      }
    }
    ours_ = true;
    return MakeDirectories(directory_ + "/run", 0700);
  }

  // The same command, corrected, finds an empty folder.
  void Clear() {
    std::error_code error;
    if (ours_) fs::remove_all(directory_, error);
  }

  // Runs shoal-run quietly; its own message on standard error says what went wrong.
  Status Call(std::vector<std::string> arguments) { return CallForOutput(arguments).status(); }

  Result<std::string> CallForOutput(std::vector<std::string> arguments) {
    if (g_interrupted != 0) return Interrupted();
    const std::string what = arguments[0];
    arguments.insert(arguments.begin(), run_program_);
    SHOAL_ASSIGN_OR_RETURN(Captured captured, RunAndCapture(arguments, kOutputBytesMax,
                                                            [] { return g_interrupted != 0; }));
    if (g_interrupted != 0) return Interrupted();
    if (captured.exit_code != 0) {
      return Internal("shoal-run " + what + " ended with code " +
                      std::to_string(captured.exit_code));
    }
    return std::move(captured.output);
  }

  Result<double> HeldOutLoss(const std::string& model) {
    SHOAL_ASSIGN_OR_RETURN(const std::string text,
                           CallForOutput({"eval", "--model", model, "--data", data_, "--json"}));
    const OrderedJson json = ParseJson<OrderedJson>(text);
    if (!json.is_object() || !json.contains("meanLoss") || !json["meanLoss"].is_number()) {
      return Internal("shoal-run eval printed no loss");
    }
    return json["meanLoss"].get<double>();
  }

  Result<std::string> Sample() {
    SHOAL_ASSIGN_OR_RETURN(
        const std::string text,
        CallForOutput({"generate", "--model", report_.model_directory, "--prompt",
                       "ROMEO:", "--tokens", "80", "--temperature", "0.8", "--seed",
                       std::to_string(options_.seed), "--json"}));
    const OrderedJson json = ParseJson<OrderedJson>(text);
    return json.is_object() ? json.value("prompt", "") + json.value("text", "") : "";
  }

  RunFile MakeRunFile() const {
    RunFile run;
    run.name = "demo";
    run.model = model_;
    run.data = data_;
    run.directory = directory_ + "/run";
    run.steps = options_.steps;
    run.seed = options_.seed;
    run.stages = options_.stages;
    run.pipelines = options_.pipelines;
    run.micro_batches = kMicroBatches;
    run.micro_batch_rows = kMicroBatchRows;
    run.checkpoint_every = std::max<std::uint64_t>(1, options_.steps / 4);
    run.forward = options_.forward;
    run.backward = options_.backward;
    run.replica = options_.replica;
    run.learning_rate = fresh_ ? kLearningRate : kFineTuneRate;
    run.warmup_steps = std::min(kWarmupSteps, options_.steps / 10);
    run.listen = "127.0.0.1:0";
    run.advertise = "127.0.0.1";
    run.status_listen = "127.0.0.1:0";
    return run;
  }

  std::vector<PeerLaunch> MakeLaunches() const {
    PeerLaunch launch;
    launch.upload = launch.download = options_.link;
    return std::vector<PeerLaunch>(std::size_t{options_.stages} * options_.pipelines, launch);
  }

  // Shows progress until the run is finished.
  Status Watch(DemoSwarm* swarm) {
    ProgressLine line;
    const TimePoint start = SystemClock().Now();
    TimePoint training_start{};
    std::uint64_t first_step = 0;
    for (;;) {
      if (g_interrupted != 0) return Interrupted();
      SHOAL_RETURN_IF_ERROR(swarm->CheckAlive());
      SHOAL_ASSIGN_OR_RETURN(report_.progress, swarm->Progress());
      const RunProgress& now = report_.progress;
      if (now.state == "failed") return Aborted("the run failed: " + now.reason);
      if (now.step > 0 && training_start == TimePoint{}) {
        training_start = SystemClock().Now();
        first_step = now.step;
      }
      const double elapsed = std::chrono::duration<double>(SystemClock().Now() - start).count();
      if (now.state == "finished") {
        report_.training_s =
            std::chrono::duration<double>(SystemClock().Now() - training_start).count();
        line.Show(ProgressText(*swarm, 0));
        return Status::Ok();
      }
      double eta = 0;
      if (now.step > first_step) {
        const double per_step =
            std::chrono::duration<double>(SystemClock().Now() - training_start).count() /
            static_cast<double>(now.step - first_step);
        eta = per_step * static_cast<double>(now.steps - now.step);
      }
      line.Show(now.step == 0 ? (now.reason.empty() ? now.state : now.reason) + " (" +
                                    FormatDuration(ToDuration(elapsed)) + ")"
                              : ProgressText(*swarm, eta));
      std::this_thread::sleep_for(kPoll);
    }
  }

  static Duration ToDuration(double seconds) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }

  std::string ProgressText(const DemoSwarm& swarm, double eta_s) {
    const RunProgress& now = report_.progress;
    std::string text = Bar(static_cast<double>(now.step) / static_cast<double>(now.steps), 20) +
                       " step " + std::to_string(now.step) + "/" + std::to_string(now.steps) +
                       " loss " + Decimal("%.3f", now.loss) + " " +
                       Decimal("%.0f samples/s", now.samples_per_second);
    if (const auto totals = swarm.Totals(); totals.ok()) {
      if (totals->relative_delta > 0) report_.relative_delta = totals->relative_delta;
      for (const auto& [name, kind] :
           {std::pair{"fw", totals->forward}, std::pair{"bw", totals->backward}}) {
        if (kind.wire == 0) continue;
        text += std::string(" ") + name + " " + FormatBytes(kind.wire) + " (" +
                Decimal("%.1fx", static_cast<double>(kind.raw) / static_cast<double>(kind.wire)) +
                ")";
      }
    }
    if (now.state == "paused") return text + " paused: " + now.reason;
    if (eta_s > 0) text += " ETA " + FormatDuration(ToDuration(eta_s));
    return text;
  }

  const DemoOptions& options_;
  std::string run_program_, directory_, model_, data_;
  bool fresh_ = false;
  bool ours_ = false;  // the folder was empty, so all in it is
  Report report_;
};

double SamplesPerSecond(const Report& report) {
  const double steps = static_cast<double>(report.progress.steps);
  return report.training_s > 0 ? steps * kMicroBatches * kMicroBatchRows / report.training_s : 0;
}

void PrintJson(const DemoOptions& options, const Report& report) {
  const SwarmTotals& totals = report.totals;
  const OrderedJson json = {{"schemaVersion", 1},
                            {"steps", options.steps},
                            {"stages", options.stages},
                            {"pipelines", options.pipelines},
                            {"forward", options.forward},
                            {"backward", options.backward},
                            {"replica", options.replica},
                            {"heldOutLossBefore", report.held_out_before},
                            {"heldOutLossAfter", report.held_out_after},
                            {"trainLoss", report.progress.losses},
                            {"samplesPerSecond", SamplesPerSecond(report)},
                            {"wireBytes",
                             {{"forward", totals.forward.wire},
                              {"backward", totals.backward.wire},
                              {"replica", totals.replica.wire},
                              {"control", totals.control_wire}}},
                            {"rawBytes",
                             {{"forward", totals.forward.raw},
                              {"backward", totals.backward.raw},
                              {"replica", totals.replica.raw}}},
                            {"peerStateBytes", totals.state_bytes},
                            {"peerResidentPeakBytes", totals.resident_peak_bytes},
                            {"deltaStoreBytes", totals.delta_store_bytes},
                            {"deltaHits", totals.delta_hits},
                            {"firstVisits", totals.first_visits},
                            {"relativeDelta", report.relative_delta},
                            {"modelDir", report.model_directory}};
  std::cout << json.dump() << "\n";
}

std::vector<std::string> KindRow(const char* name, const KindTotals& kind) {
  const double ratio =
      kind.wire == 0 ? 0 : static_cast<double>(kind.raw) / static_cast<double>(kind.wire);
  return {std::string("  ") + name, FormatBytes(kind.wire), FormatBytes(kind.raw),
          Decimal("%.1fx", ratio)};
}

// What the codecs of the boundaries saved, and what AQ-SGD did for it.
void PrintSaved(const Report& report) {
  const SwarmTotals& totals = report.totals;
  const std::uint64_t wire = totals.forward.wire + totals.backward.wire;
  const std::uint64_t raw = totals.forward.raw + totals.backward.raw;
  if (wire > 0 && raw > wire) {
    std::cout << Bold("saved") << "  " << FormatBytes(raw - wire) << " of " << FormatBytes(raw)
              << " between stages: "
              << Decimal("%.1fx less", static_cast<double>(raw) / static_cast<double>(wire)) << ", "
              << Decimal("%.2f bits", 64.0 * static_cast<double>(wire) / static_cast<double>(raw))
              << " per value and its gradient instead of 64\n";
  }
  if (totals.delta_hits + totals.first_visits == 0) return;
  std::cout << Bold("samples") << "  " << totals.first_visits << " first visits, "
            << totals.delta_hits << " sent as changes";
  if (report.relative_delta > 0) {
    std::cout << Decimal(" (of %.0f %% of their size at the end)", 100 * report.relative_delta);
  }
  std::cout << "; delta stores " << FormatBytes(totals.delta_store_bytes) << " over all peers\n";
}

void PrintHuman(const DemoOptions& options, const Report& report) {
  const SwarmTotals& totals = report.totals;
  const double step_s = report.training_s / static_cast<double>(report.progress.steps);
  std::cout << Bold("held-out loss") << "  " << Decimal("%.4f", report.held_out_before) << " -> "
            << Green(Decimal("%.4f", report.held_out_after)) << "  (perplexity "
            << Decimal("%.1f", std::exp(report.held_out_before)) << " -> "
            << Decimal("%.1f", std::exp(report.held_out_after)) << ")\n";
  if (const std::string curve = Sparkline(report.progress.losses, 48); !curve.empty()) {
    std::cout << Bold("training loss") << "  " << curve << "\n";
  }
  std::vector<std::vector<std::string>> rows = {
      {Bold("traffic"), "on the wire", "as fp32", "ratio"}};
  if (totals.forward.raw > 0) rows.push_back(KindRow("forward", totals.forward));
  if (totals.backward.raw > 0) rows.push_back(KindRow("backward", totals.backward));
  if (totals.replica.raw > 0) rows.push_back(KindRow("replica", totals.replica));
  rows.push_back({"  control", FormatBytes(totals.control_wire), "", ""});
  std::cout << FormatTable(rows);
  PrintSaved(report);
  std::cout << Bold("time") << "  " << Decimal("%.2f s per step, ", step_s)
            << Decimal("%.0f samples/s", SamplesPerSecond(report));
  const Result<BitsPerSecond> link = ParseRate(options.link);
  if (link.ok() && link->value > 0) {
    const double per_step = link->bytes_per_second() * static_cast<double>(report.progress.steps);
    const double wire_s = static_cast<double>(totals.busiest_wire_bytes) / per_step;
    const double fp32_s = static_cast<double>(totals.busiest_raw_bytes) / per_step;
    std::cout << "; the busiest peer sends for " << Decimal("%.2f s", wire_s) << " of it at "
              << FormatRate(*link) << ", as fp32 it would be " << Decimal("%.2f s", fp32_s);
  }
  std::cout << "\n"
            << Bold("sample") << "\n"
            << report.sample << "\n\n"
            << Bold("model") << "  " << report.model_directory << "\n"
            << "next: shoal try --model " << report.model_directory << " \"ROMEO:\"\n";
}

}  // namespace

ExitCode Demo(const DemoOptions& options) {
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  const Result<BitsPerSecond> link = ParseRate(options.link);
  if (!link.ok()) return Fail(ExitCode::kUsage, "--link: " + link.status().message());
  const Result<Report> report = DemoRun(options).Run();
  if (!report.ok() && g_interrupted != 0) {
    std::cerr << "\nstopped; nothing is left running\n";
    return kInterrupted;
  }
  if (!report.ok()) return Fail(report.status());
  if (options.json) {
    PrintJson(options, *report);
  } else {
    PrintHuman(options, *report);
  }
  return ExitCode::kOk;
}

}  // namespace shoal::client
