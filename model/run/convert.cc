#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/exports/export_model.h"
#include "model/families/open_model.h"
#include "model/run/commands.h"

namespace shoal::model {

RunResult RunConvert(const ConvertOptions& options) {
  const ExportFormat format = {options.as, options.dtype, options.type};
  if (const Status status = CheckExportFormat(format); !status.ok()) {
    return {ExitCode::kUsage, status};
  }
  const Result<ExportSource> source = OpenExportSource(options.model);
  if (!source.ok()) return RunResult::BadInput(source.status());
  const auto notes = ExportModel(*source, format, options.output);
  if (!notes.ok()) return {ExitCodeForInput(notes.status()), notes.status()};
  for (const std::string& note : *notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"schemaVersion", 1}, {"out", options.output}, {"as", options.as}, {"notes", *notes}};
    std::printf("%s\n", json.dump().c_str());
  } else {
    std::printf("%s\n", options.output.c_str());
  }
  return {};
}

}  // namespace shoal::model
