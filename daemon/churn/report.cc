#include "daemon/churn/report.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

namespace shoal::daemon {
namespace {

std::string Fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

double Rounded(double value) { return std::round(value * 1e6) / 1e6; }

struct Part {
  const char* key;
  const char* text;
  double seconds;
};

std::vector<Part> PartsOf(const Balance& balance) {
  return {{"useful", "useful steps", balance.useful},
          {"detection", "detection, and until it plans again", balance.detection},
          {"transfer", "transfer of state", balance.transfer},
          {"idle", "idle, without a place", balance.idle},
          {"repeated", "steps that were trained again", balance.repeated},
          {"unfinished", "steps that were not finished", balance.unfinished},
          {"firstVisits", "first visits", balance.first_visits},
          {"slower", "slower steps", balance.slower}};
}

double MostStateBytes(const TrainedModel& model) {
  double most = 0;
  for (const StageCosts& stage : model.stages) most = std::max(most, stage.state_bytes);
  return most;
}

double PerMachineSecond(const ChurnResult& result) {
  return result.balance.all > 0
             ? static_cast<double>(result.balance.micro_batches) / result.balance.all
             : 0;
}

// Nothing: no sample was sent a second time.
std::optional<double> DeltaHits(const ChurnResult& result) {
  if (result.visits == 0) return std::nullopt;
  return static_cast<double>(result.deltas) / static_cast<double>(result.visits);
}

std::string DescribeRun(const ChurnReport& report) {
  const ChurnSettings& s = report.settings;
  const std::string mb = Fixed(report.model.change_bytes / 1e6, 2) + " MB (first visit " +
                         Fixed(report.model.first_bytes / 1e6, 2) + ") and " +
                         Fixed(report.model.gradient_bytes / 1e6, 2) + " MB";
  return "trace " + report.trace + ", factor " + Fixed(report.factor, 2) + ", seed " +
         std::to_string(s.seed) + "\nGPT2-XL, " + std::to_string(s.stages) + " stages x " +
         std::to_string(s.pipelines) + " pipelines, " + std::to_string(s.micro_batches) +
         " micro-batches each, " + report.model.config.replica_method + "; per stage up to " +
         FormatBytes(static_cast<std::uint64_t>(MostStateBytes(report.model))) +
         " of state; per micro-batch " + mb + "\nlines " + FormatRate(s.upload) + " up, " +
         FormatRate(s.download) + " down, scheduler " + FormatRate(s.scheduler) + ", machines go " +
         (s.silent ? "silently" : "with their connections") + "\n";
}

}  // namespace

std::string FormatChurn(const ChurnReport& report) {
  const ChurnResult& result = report.result;
  const Balance& balance = result.balance;
  std::string text = DescribeRun(report);
  text += "a step takes " + Fixed(result.step_seconds, 1) + " s without churn; measured " +
          Fixed(result.measured_seconds / 3600, 2) + " h, " + std::to_string(result.comings) +
          " machines came, " + std::to_string(result.deaths) + " went\n" +
          std::to_string(result.plans) + " plans, " + std::to_string(result.plans_in_place) +
          " of them in place; " + std::to_string(result.checkpoints) +
          " checkpoints; held and resumed " + std::to_string(result.resumed) + " times; " +
          std::to_string(balance.steps) + " steps, " + std::to_string(balance.repeated_steps) +
          " trained again\n\ngoodput " + Fixed(result.goodput, 3) +
          " (whole pipelines of machines that had time to fetch a stage: at most " +
          Fixed(report.whole_pipelines, 3) + ")\n";
  for (const Part& part : PartsOf(balance)) {
    char line[128];
    std::snprintf(line, sizeof line, "  %-36s %6.3f\n", part.text, balance.Share(part.seconds));
    text += line;
  }
  const std::optional<double> hits = DeltaHits(result);
  return text + (hits ? "samples sent as changes, of those sent before: " + Fixed(*hits, 3) + "\n"
                      : "no sample was sent a second time\n");
}

std::string FormatChurnJson(const ChurnReport& report) {
  const ChurnSettings& s = report.settings;
  const ChurnResult& result = report.result;
  nlohmann::ordered_json parts;
  for (const Part& part : PartsOf(result.balance)) {
    parts[part.key] = Rounded(result.balance.Share(part.seconds));
  }
  const std::optional<double> hits = DeltaHits(result);
  const nlohmann::ordered_json json = {
      {"schemaVersion", 1},
      {"bench", "churn"},
      {"trace", report.trace},
      {"factor", report.factor},
      {"seed", s.seed},
      {"model", "GPT2-XL"},
      {"stages", s.stages},
      {"pipelines", s.pipelines},
      {"microBatches", s.micro_batches},
      {"rows", s.train_rows},
      {"checkpointEvery", s.checkpoint_every},
      {"replicaMethod", report.model.config.replica_method},
      {"stateBytes", MostStateBytes(report.model)},
      {"changeBytes", report.model.change_bytes},
      {"firstVisitBytes", report.model.first_bytes},
      {"gradientBytes", report.model.gradient_bytes},
      {"uploadBps", s.upload.value},
      {"downloadBps", s.download.value},
      {"schedulerBps", s.scheduler.value},
      {"silent", s.silent},
      {"stepSeconds", Rounded(result.step_seconds)},
      {"measuredSeconds", Rounded(result.measured_seconds)},
      {"machineSeconds", Rounded(result.balance.all)},
      {"came", result.comings},
      {"went", result.deaths},
      {"plans", result.plans},
      {"plansInPlace", result.plans_in_place},
      {"checkpoints", result.checkpoints},
      {"resumed", result.resumed},
      {"steps", result.balance.steps},
      {"stepsRepeated", result.balance.repeated_steps},
      {"microBatchesPerMachineSecond", Rounded(PerMachineSecond(result))},
      {"goodput", Rounded(result.goodput)},
      {"deltaHits", hits ? nlohmann::ordered_json(Rounded(*hits)) : nlohmann::ordered_json()},
      {"wholePipelines", Rounded(report.whole_pipelines)},
      {"parts", parts}};
  return json.dump(2) + "\n";
}

}  // namespace shoal::daemon
