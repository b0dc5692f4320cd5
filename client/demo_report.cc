#include "client/demo_report.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <vector>

#include "client/base/terminal.h"
#include "client/status_text-inl.h"
#include "common/units.h"

namespace shoal::client {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kQuestionsShown = 3;

OrderedJson ScoreJson(const AnswerScore& score) {
  if (score.answers == 0) return nullptr;
  return {{"answers", score.answers}, {"exact", score.exact}};
}

std::vector<std::string> KindRow(const char* name, const KindTotals& kind) {
  const double ratio =
      kind.wire == 0 ? 0 : static_cast<double>(kind.raw) / static_cast<double>(kind.wire);
  return {std::string("  ") + name, FormatBytes(kind.wire), FormatBytes(kind.raw),
          Decimal("%.1fx", ratio)};
}

// What the codecs of the boundaries saved, and what AQ-SGD did for it.
void PrintSaved(const DemoReport& report) {
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
            << totals.delta_hits << " sent as changes"
            << (totals.gradients_with_m ? ", activations and gradients together" : "");
  if (report.relative_delta > 0) {
    const double percent = 100 * report.relative_delta;
    std::cout << " (of " << Decimal(percent >= 10 ? "%.0f %%" : "%.2g %%", percent)
              << " of their size at the end)";
  }
  std::cout << "; delta stores " << FormatBytes(totals.delta_store_bytes) << " over all peers\n";
}

// How the learning went: losses and, where questions were asked, some answers.
void PrintLearning(const DemoReport& report) {
  if (report.exact_after.answers > 0) {
    const auto of_all = [](const AnswerScore& score) {
      return std::to_string(score.exact) + " of " + std::to_string(score.answers);
    };
    std::cout << Bold("exact answers") << "  " << of_all(report.exact_before) << " -> "
              << Green(of_all(report.exact_after)) << "\n";
    for (const AskedQuestion& question : QuestionsToShow(report.asked, kQuestionsShown)) {
      std::cout << "  " << Printable(question.prompt) << "\n    before  "
                << Printable(question.before) << "\n    after   "
                << Green(Printable(question.after)) << "\n";
    }
  }
  std::cout << Bold("held-out loss") << "  " << Decimal("%.4f", report.held_out_before) << " -> "
            << Green(Decimal("%.4f", report.held_out_after)) << "  (perplexity "
            << Decimal("%.1f", std::exp(report.held_out_before)) << " -> "
            << Decimal("%.1f", std::exp(report.held_out_after)) << ")\n";
  if (const std::string curve = Sparkline(report.progress.losses, 48); !curve.empty()) {
    std::cout << Bold("training loss") << "  " << curve << "\n";
  }
}

void PrintTraffic(const DemoReport& report) {
  const SwarmTotals& totals = report.totals;
  std::vector<std::vector<std::string>> rows = {
      {Bold("traffic"), "on the wire", "as fp32", "ratio"}};
  if (totals.forward.raw > 0) rows.push_back(KindRow("forward", totals.forward));
  if (totals.backward.raw > 0) rows.push_back(KindRow("backward", totals.backward));
  if (totals.replica.raw > 0) {
    rows.push_back(KindRow("replica", totals.replica));
    rows.back().push_back(report.replica);
  }
  rows.push_back({"  control", FormatBytes(totals.control_wire), "", ""});
  if (totals.checkpoints > 0) {
    rows.back().push_back("of these " + FormatBytes(totals.checkpoints) + " of checkpoints");
  }
  std::cout << FormatTable(rows);
  PrintSaved(report);
}

void PrintTime(const DemoOptions& options, const DemoReport& report) {
  const auto steps = static_cast<double>(report.progress.steps);
  std::cout << Bold("time") << "  " << Decimal("%.2f s per step, ", report.training_s / steps)
            << Decimal("%.0f samples/s", report.samples_per_second);
  const Result<BitsPerSecond> link = ParseRate(options.link);
  if (link.ok() && link->value > 0) {
    const double per_step = link->bytes_per_second() * steps;
    const double wire_s = static_cast<double>(report.totals.busiest_wire_bytes) / per_step;
    const double fp32_s = static_cast<double>(report.totals.busiest_raw_bytes) / per_step;
    std::cout << "; the busiest peer sends for " << Decimal("%.2f s", wire_s) << " of it at "
              << FormatRate(*link) << ", as fp32 it would be " << Decimal("%.2f s", fp32_s);
  }
  std::cout << "\n";
}

// Where the result is, and the command that a person would type next.
void PrintResult(const DemoReport& report) {
  if (!report.sample.empty()) {
    std::cout << Bold("sample") << "\n" << Printable(report.sample) << "\n\n";
  }
  std::string model = report.model_directory;
  std::cout << Bold("model") << "  " << model << "\n";
  if (!report.adapter_directory.empty()) {
    std::cout << Bold("adapter") << "  " << report.adapter_directory << "\n";
    model = report.base_model + " --adapter " + report.adapter_directory;
  }
  std::cout << "next: shoal "
            << (report.chat ? "chat --model " + model
                            : "try --model " + model + " \"" + report.prompt + "\"")
            << "\n";
}

}  // namespace

std::vector<AskedQuestion> QuestionsToShow(const std::map<std::uint64_t, AskedQuestion>& asked,
                                           std::size_t count) {
  std::vector<AskedQuestion> shown, others;
  for (const auto& [line, question] : asked) {
    const bool learned = question.after == question.wanted && question.before != question.wanted;
    (learned ? shown : others).push_back(question);
  }
  shown.insert(shown.end(), others.begin(), others.end());
  shown.resize(std::min(shown.size(), count));
  return shown;
}

void PrintDemoJson(const DemoOptions& options, const DemoReport& report) {
  const SwarmTotals& totals = report.totals;
  OrderedJson json = {{"schemaVersion", 1},
                      {"steps", options.steps},
                      {"stages", options.stages},
                      {"pipelines", options.pipelines},
                      {"forward", options.forward},
                      {"backward", options.backward},
                      {"replica", report.replica},
                      {"adapter", options.adapter},
                      {"exactBefore", ScoreJson(report.exact_before)},
                      {"exactAfter", ScoreJson(report.exact_after)},
                      {"heldOutLossBefore", report.held_out_before},
                      {"heldOutLossAfter", report.held_out_after},
                      {"trainLoss", report.progress.losses},
                      {"samplesPerSecond", report.samples_per_second},
                      {"wireBytes",
                       {{"forward", totals.forward.wire},
                        {"backward", totals.backward.wire},
                        {"replica", totals.replica.wire},
                        {"control", totals.control_wire}}},
                      {"checkpointBytes", totals.checkpoints},
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
  if (!report.adapter_directory.empty()) json["adapterDir"] = report.adapter_directory;
  std::cout << json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) << "\n";
}

void PrintDemo(const DemoOptions& options, const DemoReport& report) {
  PrintLearning(report);
  PrintTraffic(report);
  PrintTime(options, report);
  PrintResult(report);
}

}  // namespace shoal::client
