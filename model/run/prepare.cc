#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/file.h"
#include "common/units.h"
#include "dataset/prepare/length_histogram.h"
#include "dataset/prepare/prepare_data.h"
#include "dataset/prepare/row_preview.h"
#include "model/families/family.h"
#include "model/run/commands.h"

namespace shoal::model {
namespace {

constexpr int kBarCells = 30;
constexpr std::size_t kClassesShown = 20;
constexpr std::size_t kNameBytes = 60;  // of a class, shown
constexpr std::uint64_t kConfigBytesMax = std::uint64_t{1} << 20;

// Of m with m=16 (docs/algorithms/aqsgd.md).
constexpr std::uint64_t kImageHeaderBytes = 16;
constexpr std::uint64_t kImageValueBytes = 2;

void ShowBar(std::uint64_t done, std::uint64_t total) {
  const double fraction = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  const int cells = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * kBarCells);
  std::string bar(kBarCells, '.');
  std::fill_n(bar.begin(), cells, '#');
  std::fprintf(stderr, "\r[%s] %3.0f %% of %s", bar.c_str(), 100 * fraction,
               FormatBytes(total).c_str());
}

// What m of the training rows takes at each end of a boundary, where the tokenizer's folder has the
// model's config.json.
std::optional<std::uint64_t> DeltaBytes(const PrepareCommand& command,
                                        const dataset::DataInfo& info) {
  const std::string path = command.options.tokenizer_directory + "/config.json";
  const Result<std::string> json = ReadFile(path, kConfigBytesMax);
  if (!json.ok()) return std::nullopt;
  const Result<ModelSpec> spec = ParseModelSpec(*json, path);
  if (!spec.ok()) return std::nullopt;
  return info.train_rows *
         (kImageHeaderBytes + kImageValueBytes * info.row_tokens * std::uint64_t{spec->hidden});
}

double Share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::uint64_t Positions(const dataset::DataInfo& info) {
  return (info.train_rows + info.validation_rows) * info.row_tokens;
}

const char* KindName(dataset::DataKind kind) {
  switch (kind) {
    case dataset::DataKind::kText: return "text";
    case dataset::DataKind::kSamples: return "samples";
    case dataset::DataKind::kClasses: break;
  }
  return "classes";
}

void PrintJson(const PrepareCommand& command, const dataset::PrepareReport& report) {
  const dataset::DataInfo& info = report.info;
  nlohmann::ordered_json json = {{"schemaVersion", 1},
                                 {"out", command.options.output},
                                 {"rowTokens", info.row_tokens},
                                 {"trainRows", info.train_rows},
                                 {"validationRows", info.validation_rows},
                                 {"tokens", info.tokens},
                                 {"vocabulary", info.vocabulary},
                                 {"textBytes", report.text_bytes},
                                 {"documents", report.documents},
                                 {"separated", report.separated},
                                 {"seconds", report.seconds},
                                 {"kind", KindName(info.kind)},
                                 {"segmented", info.segmented},
                                 {"classes", info.classes},
                                 {"tokenTypes", info.typed},
                                 {"classNames", report.classes},
                                 {"rowTokensUsed", report.used_tokens},
                                 {"lossTokens", report.loss_tokens},
                                 {"cutSamples", report.cuts.cut_samples},
                                 {"cutTokens", report.cuts.cut_tokens},
                                 {"droppedSamples", report.cuts.dropped_samples},
                                 {"notes", report.notes}};
  for (const dataset::LengthBar& bar : report.lengths) {
    json["lengths"].push_back({{"from", bar.from}, {"to", bar.to}, {"samples", bar.samples}});
  }
  for (const dataset::PreviewPiece& piece : report.first_row) {
    json["firstRow"].push_back(
        {{"text", piece.text}, {"loss", piece.counts}, {"beginsSample", piece.begins_sample}});
  }
  if (const auto bytes = DeltaBytes(command, info)) json["deltaBytesPerBoundaryEnd"] = *bytes;
  // Tokens may end within a character.
  const std::string text =
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::printf("%s\n", text.c_str());
}

void PrintSamples(const dataset::PrepareReport& report) {
  const dataset::DataInfo& info = report.info;
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  if (info.kind != dataset::DataKind::kText) {
    std::printf("%llu samples: %llu cut by %llu tokens in all, %llu left out\n",
                number(report.documents), number(report.cuts.cut_samples),
                number(report.cuts.cut_tokens), number(report.cuts.dropped_samples));
  }
  std::printf("rows are %.1f %% full", 100 * Share(report.used_tokens, Positions(info)));
  if (info.kind == dataset::DataKind::kClasses) {
    std::printf("; %u classes", info.classes);
    for (std::size_t i = 0; i < report.classes.size() && i < kClassesShown; ++i) {
      std::printf("%s %zu %s", i == 0 ? ":" : ",", i,
                  dataset::Escaped(report.classes[i], kNameBytes).c_str());
    }
    std::printf("%s\n", report.classes.size() > kClassesShown ? ", ..." : "");
  } else {
    std::printf("; the loss counts on %.1f %% of their tokens\n",
                100 * Share(report.loss_tokens, report.used_tokens));
  }
  if (report.documents > 1) {
    std::printf("tokens per %s:\n%s", info.kind == dataset::DataKind::kText ? "document" : "sample",
                dataset::FormatHistogram(report.lengths).c_str());
  }
}

void PrintFirstRow(const dataset::PrepareReport& report) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool colours = ::isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || no_color[0] == '\0');
  std::string label;
  if (report.first_label != dataset::kIgnoreLabel) {
    label = " (class " + std::to_string(report.first_label) + ")";
  } else {
    label = colours ? " (the loss counts on what is green)" : " (the loss counts on {+this+})";
  }
  std::printf("first row%s:\n  %s\n", label.c_str(),
              dataset::FormatPreview(report.first_row, colours).c_str());
}

void PrintReport(const PrepareCommand& command, const dataset::PrepareReport& report) {
  const dataset::DataInfo& info = report.info;
  const double seconds = std::max(report.seconds, 1e-9);
  const double megabytes = static_cast<double>(report.text_bytes) / 1e6;
  std::printf("%s: %llu training rows and %llu validation rows of %u tokens\n",
              command.options.output.c_str(), static_cast<unsigned long long>(info.train_rows),
              static_cast<unsigned long long>(info.validation_rows), info.row_tokens);
  std::printf("%llu tokens from %s of text in %.2f s (%.1f MB/s)\n",
              static_cast<unsigned long long>(info.tokens), FormatBytes(report.text_bytes).c_str(),
              report.seconds, megabytes / seconds);
  PrintSamples(report);
  PrintFirstRow(report);
  if (const auto bytes = DeltaBytes(command, info)) {
    std::printf(
        "delta store of aqsgd: %s at each end of a boundary (2 bytes a value; m=8 halves "
        "it)\n",
        FormatBytes(*bytes).c_str());
  }
}

void WarnOfNoSeparator(const PrepareCommand& command, const dataset::PrepareReport& report) {
  const bool text = report.info.kind == dataset::DataKind::kText;
  if (!text || report.separated || report.documents < 2) return;
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
  command.options.loss = command.loss == "all" ? dataset::LossOn::kAll : dataset::LossOn::kAnswers;
  command.options.now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const Result<dataset::PrepareReport> report = dataset::PrepareData(command.options);
  if (terminal) std::fprintf(stderr, "\r\x1b[K");
  if (report.ok()) {
    if (command.json) {
      PrintJson(command, *report);
    } else {
      PrintReport(command, *report);
    }
    WarnOfNoSeparator(command, *report);
    for (const std::string& note : report->notes) std::fprintf(stderr, "note: %s\n", note.c_str());
    return {};
  }
  return {ExitCodeForInput(report.status()), report.status()};
}

}  // namespace shoal::model
