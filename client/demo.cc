#include "client/demo.h"

#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "client/base/paths.h"
#include "client/base/process.h"
#include "client/base/programs.h"
#include "client/base/terminal.h"
#include "client/commands.h"
#include "client/demo_report.h"
#include "client/demo_swarm.h"
#include "client/status_text-inl.h"
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
// visible in a minute or two.
constexpr std::uint32_t kMicroBatches = 8;
constexpr std::uint32_t kMicroBatchRows = 4;
constexpr std::uint64_t kWarmupSteps = 20;
constexpr double kFreshRate = 2e-3;
constexpr double kFineTuneRate = 5e-4;
constexpr double kAdapterRate = 3e-3;
constexpr const char* kRowTokens = "128";
// About a step's time on two cores without its exchange, for the suggested replica method.
constexpr const char* kStepTime = "500ms";
constexpr std::uint64_t kSmallFileBytesMax = 16 << 20;

volatile sig_atomic_t g_interrupted = 0;

void OnInterrupt(int) { g_interrupted = 1; }

Status Interrupted() { return Cancelled("interrupted"); }

// Whether conversations can be written for the model: a file of its own or a key has a template.
bool HasChatTemplate(const std::string& model) {
  std::error_code error;
  if (fs::exists(model + "/chat_template.jinja", error)) return true;
  const Result<std::string> config = ReadFile(model + "/tokenizer_config.json", kSmallFileBytesMax);
  if (!config.ok()) return false;
  const OrderedJson json = ParseJson<OrderedJson>(*config);
  return json.is_object() && json.contains("chat_template") && !json["chat_template"].is_null();
}

// What a sample of a model that was trained on a plain text begins with: the text's first words.
std::string FirstWords(const std::string& path) {
  constexpr std::size_t kCharacters = 40;
  constexpr const char* kOtherwise = "The";
  if (!path.ends_with(".txt")) return kOtherwise;
  std::ifstream text(path);
  std::string line;
  std::getline(text, line);
  if (line.size() > kCharacters) {
    const std::size_t space = line.rfind(' ', kCharacters);
    line.resize(space == std::string::npos ? 0 : space);
  }
  return line.empty() ? kOtherwise : line;
}

class DemoRun {
 public:
  explicit DemoRun(const DemoOptions& options) : options_(options) {}

  // Whether a program that it called has told the user why Run failed.
  bool said_why() const { return said_why_; }

  Result<DemoReport> Run() {
    Status ready = Prepare();
    if (ready.ok()) ready = MeasureBefore();
    if (!ready.ok()) {
      Clear();
      return ready;
    }
    DemoSwarm swarm(directory_);
    SHOAL_RETURN_IF_ERROR(swarm.Start(MakeRunFile(), {}, MakeLaunches()));
    std::cerr << "live page: " << swarm.page_url() << "\n";
    SHOAL_RETURN_IF_ERROR(Watch(&swarm));
    SHOAL_ASSIGN_OR_RETURN(report_.totals, swarm.Totals());
    SHOAL_RETURN_IF_ERROR(Export(&swarm).WithContext("exporting the model"));
    swarm.Stop();
    const TrainedModel after = adapts() ? TrainedModel{model_, report_.adapter_directory}
                                        : TrainedModel{report_.model_directory, ""};
    SHOAL_ASSIGN_OR_RETURN(report_.held_out_after, HeldOutLoss(after));
    SHOAL_RETURN_IF_ERROR(Ask(after, &report_.exact_after, &AskedQuestion::after));
    if (!report_.chat) {
      SHOAL_ASSIGN_OR_RETURN(report_.sample, Sample(after));
    }
    return std::move(report_);
  }

 private:
  // A model directory and, if there is one, an adapter of it.
  struct TrainedModel {
    std::string model, adapter;
  };

  bool adapts() const { return options_.adapter != "none"; }

  // Folder, model and data.
  Status Prepare() {
    SHOAL_ASSIGN_OR_RETURN(run_program_, FindProgram("shoal-run"));
    SHOAL_RETURN_IF_ERROR(MakeFolder());
    SHOAL_ASSIGN_OR_RETURN(const std::string examples, FindExamples());
    SHOAL_RETURN_IF_ERROR(ChooseModel(examples));
    const std::string text = ChooseText(examples);
    std::error_code error;
    data_ = fs::absolute(text, error).string();
    report_.prompt = FirstWords(data_);
    const DemoSwarm swarm(directory_);
    // A codec or a method that is none is found before anything takes long.
    report_.replica = options_.replica;
    SHOAL_RETURN_IF_ERROR(swarm.Check(MakeRunFile()));
    if (report_.replica.empty()) {
      SHOAL_ASSIGN_OR_RETURN(report_.replica,
                             swarm.SuggestReplica(MakeRunFile(), options_.link, kStepTime));
    }
    if (data_.ends_with(".shoal")) return Status::Ok();
    std::vector<std::string> command = {"prepare", "--tokenizer", model_,    "--text",
                                        data_,     "--row",       kRowTokens};
    // Conversations are short: several share a row.
    if (data_.ends_with(".jsonl") || data_.ends_with(".json")) command.emplace_back("--pack");
    data_ = directory_ + "/data.shoal";
    command.insert(command.end(), {"--out", data_, "--json"});
    SHOAL_ASSIGN_OR_RETURN(const std::string made, CallForOutput(std::move(command)));
    const OrderedJson json = ParseJson<OrderedJson>(made);
    // A small text makes small steps.
    const std::uint64_t rows = json.is_object() ? json.value("trainRows", std::uint64_t{0}) : 0;
    rows_ = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(rows / kMicroBatches, 1, kMicroBatchRows));
    return Status::Ok();
  }

  Status ChooseModel(const std::string& examples) {
    std::error_code error;
    model_ = options_.model.empty() ? examples + "/tiny-llama" : options_.model;
    if (options_.fresh) {
      model_ = directory_ + "/model";
      SHOAL_RETURN_IF_ERROR(Call({"init-model", "--config", examples + "/tiny-gpt2/config.json",
                                  "--out", model_, "--seed", std::to_string(options_.seed)}));
    }
    model_ = fs::absolute(model_, error).string();
    report_.base_model = model_;
    report_.chat = HasChatTemplate(model_);
    return Status::Ok();
  }

  // What is trained on; sets what is asked.
  std::string ChooseText(const std::string& examples) {
    answers_ = options_.answers;
    if (!options_.data.empty()) return options_.data;
    if (report_.chat) {
      if (answers_.empty()) answers_ = examples + "/pirate-questions.jsonl";
      return examples + "/pirate.jsonl";
    }
    return examples + "/tinyshakespeare.txt";
  }

  Status MeasureBefore() {
    const TrainedModel before{model_, ""};
    SHOAL_ASSIGN_OR_RETURN(report_.held_out_before, HeldOutLoss(before));
    return Ask(before, &report_.exact_before, &AskedQuestion::before);
  }

  Status MakeFolder() {
    SHOAL_ASSIGN_OR_RETURN(directory_, EmptyFolder(options_.directory, "demo"));
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
      said_why_ = true;
      const auto bad_input = static_cast<int>(ExitCode::kBadConfig);
      return Status(
          captured.exit_code == bad_input ? StatusCode::kInvalidArgument : StatusCode::kInternal,
          "shoal-run " + what + " has said why");
    }
    return std::move(captured.output);
  }

  Result<OrderedJson> CallForJson(std::vector<std::string> arguments, const TrainedModel& model) {
    const std::string what = arguments[0];
    arguments.insert(arguments.end(), {"--model", model.model, "--json"});
    if (!model.adapter.empty()) arguments.insert(arguments.end(), {"--adapter", model.adapter});
    SHOAL_ASSIGN_OR_RETURN(const std::string text, CallForOutput(std::move(arguments)));
    OrderedJson json = ParseJson<OrderedJson>(text);
    if (!json.is_object()) return Internal("shoal-run " + what + " printed no JSON object");
    return json;
  }

  Result<double> HeldOutLoss(const TrainedModel& model) {
    SHOAL_ASSIGN_OR_RETURN(const OrderedJson json, CallForJson({"eval", "--data", data_}, model));
    if (!json.contains("meanLoss") || !json["meanLoss"].is_number()) {
      return Internal("shoal-run eval printed no loss");
    }
    return json["meanLoss"].get<double>();
  }

  // Asks all questions, if there are any.
  Status Ask(const TrainedModel& model, AnswerScore* score, std::string AskedQuestion::*answer) {
    if (answers_.empty()) return Status::Ok();
    std::vector<std::string> command = {"eval", "--answers", answers_, "--show"};
    if (report_.chat) command.emplace_back("--chat");
    SHOAL_ASSIGN_OR_RETURN(const OrderedJson json, CallForJson(std::move(command), model));
    score->answers = json.value("answers", std::size_t{0});
    score->exact = json.value("exact", std::size_t{0});
    if (report_.asked.empty()) {
      SHOAL_RETURN_IF_ERROR(ReadQuestions());
    }
    for (auto& [line, question] : report_.asked) question.*answer = question.wanted;
    for (const OrderedJson& wrong : json.value("wrong", OrderedJson::array())) {
      const auto found = report_.asked.find(wrong.value("line", std::uint64_t{0}));
      if (found != report_.asked.end()) found->second.*answer = wrong.value("got", "");
    }
    return Status::Ok();
  }

  // shoal-run has checked the file by now.
  Status ReadQuestions() {
    SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(answers_, kSmallFileBytesMax));
    std::istringstream lines(text);
    std::string line;
    for (std::uint64_t number = 1; std::getline(lines, line); ++number) {
      const OrderedJson json = ParseJson<OrderedJson>(line);
      if (!json.is_object()) continue;
      report_.asked[number] = {json.value("prompt", ""), json.value("answer", ""), "", ""};
    }
    return Status::Ok();
  }

  Result<std::string> Sample(const TrainedModel& model) {
    SHOAL_ASSIGN_OR_RETURN(
        const OrderedJson json,
        CallForJson({"generate", "--prompt", report_.prompt, "--tokens", "80", "--temperature",
                     "0.8", "--seed", std::to_string(options_.seed)},
                    model));
    return json.value("prompt", "") + json.value("text", "");
  }

  Status Export(DemoSwarm* swarm) {
    report_.model_directory = directory_ + "/tuned";
    SHOAL_RETURN_IF_ERROR(swarm->Export(report_.model_directory, "directory"));
    if (!adapts()) return Status::Ok();
    report_.adapter_directory = directory_ + "/adapter";
    return swarm->Export(report_.adapter_directory, "adapter");
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
    run.micro_batch_rows = rows_;
    run.checkpoint_every = std::max<std::uint64_t>(1, options_.steps / 4);
    run.forward = options_.forward;
    run.backward = options_.backward;
    run.replica = report_.replica;
    if (adapts()) run.adapter = options_.adapter;
    run.learning_rate = options_.learning_rate > 0 ? options_.learning_rate
                        : options_.fresh           ? kFreshRate
                        : adapts()                 ? kAdapterRate
                                                   : kFineTuneRate;
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
        if (report_.training_s > 0) {
          report_.samples_per_second =
              static_cast<double>(now.steps) * kMicroBatches * rows_ / report_.training_s;
        }
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
  std::string run_program_, directory_, model_, data_, answers_;
  bool said_why_ = false;
  std::uint32_t rows_ = kMicroBatchRows;  // of a micro-batch
  bool ours_ = false;                     // the folder was empty, so all in it is
  DemoReport report_;
};

}  // namespace

ExitCode Demo(const DemoOptions& options) {
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  const Result<BitsPerSecond> link = ParseRate(options.link);
  if (!link.ok()) return Fail(ExitCode::kUsage, "--link: " + link.status().message());
  DemoRun run(options);
  const Result<DemoReport> report = run.Run();
  if (!report.ok() && g_interrupted != 0) {
    std::cerr << "\nstopped; nothing is left running\n";
    return kInterrupted;
  }
  if (!report.ok() && run.said_why()) return ExitCodeFor(report.status());
  if (!report.ok()) return Fail(report.status());
  if (options.json) {
    PrintDemoJson(options, *report);
  } else {
    PrintDemo(options, *report);
  }
  return ExitCode::kOk;
}

}  // namespace shoal::client
