#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "common/units.h"
#include "dataset/prepared_data.h"
#include "model/run_commands.h"

namespace shoal::model {
namespace {

constexpr int kBarCells = 30;

void ShowBar(std::uint64_t done, std::uint64_t total) {
  const double fraction = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  const int cells = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * kBarCells);
  std::string bar(kBarCells, '.');
  std::fill_n(bar.begin(), cells, '#');
  std::fprintf(stderr, "\r[%s] %3.0f %% of %s", bar.c_str(), 100 * fraction,
               FormatBytes(total).c_str());
}

void PrintReport(const PrepareCommand& command, const dataset::PrepareReport& report) {
  const dataset::DataInfo& info = report.info;
  const double seconds = std::max(report.seconds, 1e-9);
  const double megabytes = static_cast<double>(report.text_bytes) / 1e6;
  if (command.json) {
    const nlohmann::ordered_json json = {{"schemaVersion", 1},
                                         {"out", command.options.output},
                                         {"rowTokens", info.row_tokens},
                                         {"trainRows", info.train_rows},
                                         {"validationRows", info.validation_rows},
                                         {"tokens", info.tokens},
                                         {"vocabulary", info.vocabulary},
                                         {"textBytes", report.text_bytes},
                                         {"documents", report.documents},
                                         {"separated", report.separated},
                                         {"seconds", report.seconds}};
    std::printf("%s\n", json.dump().c_str());
    return;
  }
  std::printf("%s: %llu training rows and %llu validation rows of %u tokens\n",
              command.options.output.c_str(), static_cast<unsigned long long>(info.train_rows),
              static_cast<unsigned long long>(info.validation_rows), info.row_tokens);
  std::printf("%llu tokens from %s of text in %.2f s (%.1f MB/s)\n",
              static_cast<unsigned long long>(info.tokens), FormatBytes(report.text_bytes).c_str(),
              report.seconds, megabytes / seconds);
}

void WarnOfNoSeparator(const PrepareCommand& command, const dataset::PrepareReport& report) {
  if (report.separated || report.documents < 2) return;
  std::fprintf(stderr,
               "warning: the %llu documents run into each other, because the tokenizer in %s has "
               "neither <|endoftext|> nor an eos_token; name a token of its vocabulary in "
               "tokenizer_config.json there, like {\"eos_token\": \"</s>\"}, and prepare again\n",
               static_cast<unsigned long long>(report.documents),
               command.options.tokenizer_directory.c_str());
}

}  // namespace

RunResult RunPrepare(PrepareCommand command) {
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (terminal) command.options.progress = ShowBar;
  const Result<dataset::PrepareReport> report = dataset::PrepareData(command.options);
  if (terminal) std::fprintf(stderr, "\r\x1b[K");
  if (report.ok()) {
    PrintReport(command, *report);
    WarnOfNoSeparator(command, *report);
    for (const std::string& note : report->notes) std::fprintf(stderr, "note: %s\n", note.c_str());
    return {};
  }
  return {ExitCodeForInput(report.status()), report.status()};
}

}  // namespace shoal::model
