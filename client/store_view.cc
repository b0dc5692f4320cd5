#include <time.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "client/base/terminal.h"
#include "client/status_text-inl.h"
#include "client/status_view.h"
#include "common/units.h"
#include "net/http/status_fields.h"

namespace shoal::client {
namespace {

// Of this machine's clock.
std::string LocalMinute(std::uint64_t unix_ms) {
  constexpr std::uint64_t kLast_ms = 253'402'300'799'000;  // the year 9999 ends
  const auto seconds = static_cast<time_t>(std::min(unix_ms, kLast_ms) / 1000);
  struct tm local {};
  char text[32];
  if (::localtime_r(&seconds, &local) == nullptr) return "-";
  return std::string(text, ::strftime(text, sizeof(text), "%a %Y-%m-%d %H:%M", &local));
}

}  // namespace

Result<std::string> StoreView(const std::string& command, const std::string& output) {
  SHOAL_ASSIGN_OR_RETURN(const Json json, ParseObject(output, "shoald's output"));
  std::string text = Bold(Text(json, "directory")) + "  " + std::to_string(Whole(json, "records")) +
                     " records, " + FormatBytes(Whole(json, "bytes")) + " of m in " +
                     FormatBytes(Whole(json, "diskBytes")) + " of files\n";
  if (command == "stats") {
    std::vector<std::vector<std::string>> rows = {
        {"  run", "boundary", "side", "records", "steps"}};
    for (const Json& end : List(json, "boundaries")) {
      rows.push_back({"  " + Text(end, "run"), std::to_string(Whole(end, "boundary")),
                      Text(end, "side"), std::to_string(Whole(end, "records")),
                      std::to_string(Whole(end, "oldestStep")) + " to " +
                          std::to_string(Whole(end, "newestStep"))});
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

Result<std::string> StatsView(const std::string& stats_json) {
  SHOAL_ASSIGN_OR_RETURN(const Json json, ParseObject(stats_json, "shoald's answer"));
  std::vector<Row> rows = {{"day", net::PeerLabel("usage.trainedMs"),
                            net::PeerLabel("usage.microBatches"), net::PeerLabel("usage.sentBytes"),
                            net::PeerLabel("usage.receivedBytes")}};
  const bool energy = At(json, "total").is_object() && At(json, "total").contains("energyJoules");
  if (energy) rows.front().push_back(net::PeerLabel("usage.energyJoules"));
  const auto add = [&](const std::string& name, const Json& usage) {
    rows.push_back({name, MillisecondsText(Number(usage, "trainedMs")),
                    std::to_string(Whole(usage, "microBatches")),
                    FormatBytes(Whole(usage, "sentBytes")),
                    FormatBytes(Whole(usage, "receivedBytes"))});
    if (energy) rows.back().push_back(EnergyText(Number(usage, "energyJoules")));
  };
  for (const Json& day : List(json, "days")) add(Text(day, "day"), day);
  add("in all", At(json, "total"));
  return FormatTable(rows) + "disk space now: " + FormatBytes(Whole(json, "diskBytes")) + "\n";
}

Result<std::string> SettingsView(const std::string& settings_json) {
  SHOAL_ASSIGN_OR_RETURN(const Json json, ParseObject(settings_json, "shoald's answer"));
  std::vector<Row> rows = {{"setting", "value", "what it does"}};
  for (const Json& setting : List(json, "settings")) {
    std::string value = Text(setting, "value");
    if (Whole(setting, "until") > 0) value += " until " + LocalMinute(Whole(setting, "until"));
    rows.push_back({Text(setting, "name"), value, Text(setting, "help")});
  }
  return FormatTable(rows) +
         "change one with `shoal set KEY=VALUE`, for a time with --for 8h; KEY=default takes it "
         "back\n";
}

}  // namespace shoal::client
