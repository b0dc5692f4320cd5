#include "client/chaos_report.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "client/base/terminal.h"

namespace shoal::client {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string OneDecimal(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

std::string Scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0e", value);
  return text;
}

std::string Lost(std::uint64_t steps) {
  if (steps == 0) return "no step lost";
  return steps == 1 ? "one step lost" : std::to_string(steps) + " steps lost";
}

std::string FromTo(double from, double to) { return OneDecimal(from) + " -> " + OneDecimal(to); }

void PrintHoldings(const std::vector<HoldingsChange>& holdings) {
  if (holdings.empty()) return;
  std::vector<std::vector<std::string>> rows = {
      {"process", "looked at for", "open files", "threads", "memory, MiB", ""}};
  for (const HoldingsChange& change : holdings) {
    rows.push_back({change.name, OneDecimal(change.seconds) + " s",
                    FromTo(change.early.files, change.late.files),
                    FromTo(change.early.threads, change.late.threads),
                    FromTo(change.early.resident_mib, change.late.resident_mib),
                    change.grows.empty() ? "" : Red(change.grows + " grows")});
  }
  std::cout << FormatTable(rows) << "\n";
}

OrderedJson HoldingsJson(const std::vector<HoldingsChange>& holdings) {
  const auto part = [](const Holdings& of) {
    return OrderedJson{
        {"files", of.files}, {"threads", of.threads}, {"residentMiB", of.resident_mib}};
  };
  OrderedJson list = OrderedJson::array();
  for (const HoldingsChange& change : holdings) {
    list.push_back({{"process", change.name},
                    {"seconds", change.seconds},
                    {"early", part(change.early)},
                    {"middle", part(change.middle)},
                    {"late", part(change.late)},
                    {"grows", change.grows}});
  }
  return list;
}

}  // namespace

bool ChaosReport::Held() const {
  return trouble.empty() && ledger_right && !losses.empty() && equal_losses == losses.size() &&
         std::ranges::all_of(holdings,
                             [](const HoldingsChange& change) { return change.grows.empty(); }) &&
         (may_lose || std::ranges::all_of(faults, [](const FaultCost& cost) {
            return cost.steps_lost == 0 || !cost.whole;
          }));
}

void PrintFault(double at_seconds, const FaultCost& cost) {
  std::cerr << OneDecimal(at_seconds) << " s: " << FaultKindName(cost.fault.kind);
  if (cost.fault.kind != FaultKind::kScheduler) {
    std::cerr << " of peer-" << cost.fault.peer << " (" << cost.role << ")";
  }
  std::cerr << " for " << OneDecimal(cost.fault.seconds) << " s at step " << cost.step << ": ";
  if (cost.over()) {
    std::cerr << "next step within " << OneDecimal(cost.seconds_to_next_step) << " s, ";
  } else {
    std::cerr << Red("no further step") << ", ";
  }
  std::cerr << Lost(cost.steps_lost)
            << (cost.whole ? "" : " (it came while a pipeline was being repaired)") << "\n";
}

void PrintChaos(const ChaosReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"fault", "times", "to the next step, median", "most", "steps lost"}};
  for (const auto& [kind, summary] : Summarise(report.faults)) {
    rows.push_back({kind, std::to_string(summary.faults), OneDecimal(summary.median_seconds) + " s",
                    OneDecimal(summary.most_seconds) + " s", std::to_string(summary.steps_lost)});
  }
  std::cout << FormatTable(rows) << "\n";
  for (const auto& [kind, reason] : report.skipped) {
    std::cout << Yellow("no faults of kind " + kind + ": " + reason) << "\n";
  }
  PrintHoldings(report.holdings);
  const std::string losses =
      std::to_string(report.equal_losses) + " of " + std::to_string(report.losses.size()) +
      " losses equal those of the undisturbed run " +
      (report.tolerance > 0 ? "to " + Scientific(report.tolerance) : std::string("to the bit")) +
      (report.compared_losses == report.losses.size()
           ? ""
           : " (it did " + std::to_string(report.compared_losses) + " steps)");
  std::cout << (report.equal_losses == report.losses.size() ? Green(losses) : Red(losses)) << "\n";
  std::cout << (report.ledger_right ? Green("every sample was counted once (shoal swarm audit)")
                                    : Red("the ledger is wrong: shoal swarm audit says where"))
            << "\n";
  if (!report.trouble.empty()) std::cout << Red(report.trouble) << "\n";
  if (!report.directory.empty()) std::cout << "logs: " << report.directory << "\n";
}

void PrintChaosJson(const ChaosOptions& options, const ChaosReport& report) {
  OrderedJson faults = OrderedJson::array();
  for (const FaultCost& cost : report.faults) {
    faults.push_back({{"kind", FaultKindName(cost.fault.kind)},
                      {"role", cost.role},
                      {"seconds", cost.fault.seconds},
                      {"step", cost.step},
                      {"whole", cost.whole},
                      {"secondsToNextStep", cost.seconds_to_next_step},
                      {"stepsLost", cost.steps_lost},
                      {"samplesRepeated", cost.steps_lost * report.samples_per_step}});
  }
  OrderedJson json = {{"schemaVersion", 1},
                      {"seed", options.seed},
                      {"stages", options.stages},
                      {"pipelines", options.pipelines},
                      {"spares", options.spares},
                      {"steps", report.losses.size()},
                      {"comparedLosses", report.compared_losses},
                      {"equalLosses", report.equal_losses},
                      {"ledgerRight", report.ledger_right},
                      {"trouble", report.trouble},
                      {"directory", report.directory},
                      {"skipped", report.skipped},
                      {"holdings", HoldingsJson(report.holdings)},
                      {"faults", std::move(faults)}};
  std::cout << json.dump(2) << "\n";
}

}  // namespace shoal::client
