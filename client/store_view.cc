#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "client/status_view.h"
#include "client/terminal.h"
#include "common/nesting.h"
#include "common/units.h"

namespace shoal::client {
namespace {

using Json = nlohmann::json;

// What is missing or of another type is "", 0 or nothing.
std::string Text(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? Printable(found->get_ref<const std::string&>())
                                                   : "";
}

std::uint64_t Whole(const Json& json, const char* key) {
  constexpr double kMost = 9e18;
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end() || !found->is_number()) return 0;
  return static_cast<std::uint64_t>(std::clamp(found->get<double>(), 0.0, kMost));
}

Json List(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_array() ? *found : Json::array();
}

}  // namespace

Result<std::string> StoreView(const std::string& command, const std::string& output) {
  const Json json = ParseJson<Json>(output);
  if (!json.is_object()) {
    return DataLoss("shoald's output is not a JSON object; are both programs of the same version?");
  }
  std::string text = Bold(Text(json, "directory")) + "  " + std::to_string(Whole(json, "records")) +
                     " records, " + FormatBytes(Whole(json, "bytes")) + " of m in " +
                     FormatBytes(Whole(json, "diskBytes")) + " of files\n";
  if (command == "stats") {
    std::vector<std::vector<std::string>> rows = {
        {"  run", "boundary", "side", "records", "steps"}};
    for (const Json& place : List(json, "boundaries")) {
      rows.push_back({"  " + Text(place, "run"), std::to_string(Whole(place, "boundary")),
                      Text(place, "side"), std::to_string(Whole(place, "records")),
                      std::to_string(Whole(place, "oldestStep")) + " to " +
                          std::to_string(Whole(place, "newestStep"))});
    }
    if (rows.size() > 1) text += FormatTable(rows);
    for (const Json& run : List(json, "checkpoints")) {
      text += "  checkpoints of run " + Text(run, "run") + ": " +
              std::to_string(Whole(run, "checkpoints")) + " up to step " +
              std::to_string(Whole(run, "newestStep")) + ", " + FormatBytes(Whole(run, "bytes")) +
              "\n";
    }
  } else if (command == "verify") {
    const std::uint64_t damaged = Whole(json, "damaged");
    text += damaged == 0 ? "  " + Green("ok") + ": every record is as it was written\n"
                         : "  " + Red("damaged") + ": " + std::to_string(damaged) +
                               " records were dropped and become first visits; check the disk\n";
  } else if (command == "compact") {
    text += "  files were " + FormatBytes(Whole(json, "diskBytesBefore")) + " before\n";
  } else if (command == "drop") {
    text += "  dropped " + std::to_string(Whole(json, "dropped")) +
            " records; their samples become first visits. Dropped checkpoints of " +
            std::to_string(Whole(json, "droppedCheckpointRuns")) + " runs\n";
  }
  if (const std::string notice = Text(json, "notice"); !notice.empty()) {
    text += "  " + Yellow("warning") + ": " + notice + "\n";
  }
  return text;
}

}  // namespace shoal::client
