#include "client/status_text-inl.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "client/base/terminal.h"
#include "common/nesting.h"
#include "common/units.h"
#include "net/http/status_fields.h"

namespace shoal::client {

std::string RowName(const char* path) { return "  " + net::PeerLabel(path); }

const Json& At(const Json& json, const char* key) {
  static const Json nothing;
  if (!json.is_object()) return nothing;
  const auto found = json.find(key);
  return found == json.end() ? nothing : *found;
}

std::string Text(const Json& json, const char* key) {
  const Json& value = At(json, key);
  return value.is_string() ? Printable(value.get_ref<const std::string&>()) : "";
}

double Number(const Json& json, const char* key) {
  const Json& value = At(json, key);
  return value.is_number() ? value.get<double>() : 0;
}

std::uint64_t ToWhole(double value) {
  constexpr double kMost = 9e18;
  return value > 0 ? static_cast<std::uint64_t>(std::min(value, kMost)) : 0;
}

std::uint64_t Whole(const Json& json, const char* key) { return ToWhole(Number(json, key)); }

const Json& List(const Json& json, const char* key) {
  static const Json none = Json::array();
  const Json& value = At(json, key);
  return value.is_array() ? value : none;
}

std::string Decimal(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string RateText(double bits_per_second) {
  if (bits_per_second < 1) return "-";
  return FormatRate(BitsPerSecond{ToWhole(bits_per_second)});
}

std::string StateText(const std::string& state) {
  if (state == "training" || state == "finished") return Green(state);
  if (state == "stopped" || state == "failed") return Red(state);
  return Yellow(state);
}

std::string LanText(const Json& role) {
  std::string text;
  for (const Json& pipeline : List(role, "lan")) {
    if (!pipeline.is_number()) continue;
    text += (text.empty() ? "pipelines " : ", ") + std::to_string(ToWhole(pipeline.get<double>()));
  }
  return text;
}

std::string PercentText(const Json& json, const char* key) {
  const double percent = 100 * Number(json, key);
  return Decimal(percent >= 10 ? "%.0f %%" : percent >= 1 ? "%.1f %%" : "%.2f %%", percent);
}

std::string WholePercent(double percent) { return Decimal("%.0f %%", percent); }

std::string EnergyText(double joules) {
  const double hours = joules / 3600;  // Wh
  if (hours >= 1000) return Decimal("%.2f kWh", hours / 1000);
  return Decimal(hours >= 100 ? "%.0f Wh" : "%.1f Wh", hours);
}

std::string GpuText(const Json& gpu) {
  std::string text;
  if (At(gpu, "powerWatts").is_number()) {
    text = Decimal("%.0f W", Number(gpu, "powerWatts"));
    if (Number(gpu, "powerLimitWatts") > 0) {
      text += Decimal(" of at most %.0f W", Number(gpu, "powerLimitWatts"));
    }
  }
  if (Whole(gpu, "memoryBytes") > 0) {
    text += (text.empty() ? "" : ", ") + FormatBytes(Whole(gpu, "memoryUsedBytes")) + " of " +
            FormatBytes(Whole(gpu, "memoryBytes")) + " of memory in use";
  }
  return text;
}

std::string MillisecondsText(double ms) {
  constexpr double kLongest_ms = 1e3 * 3600 * 24 * 10'000;  // a Duration holds ten times as many
  return FormatDuration(std::chrono::milliseconds(ToWhole(std::min(ms, kLongest_ms))));
}

std::string HealthLines(const std::vector<std::pair<std::string, const Json*>>& statuses) {
  std::vector<std::pair<std::string, std::string>> said;  // text, names
  for (const auto& [name, status] : statuses) {
    for (const Json& item : List(*status, "health")) {
      const std::string text = Yellow(Text(item, "severity")) + ": " + Text(item, "text") + "; " +
                               Text(item, "fix") + "\n";
      const auto same = std::find_if(said.begin(), said.end(),
                                     [&](const auto& entry) { return entry.first == text; });
      if (same == said.end()) {
        said.emplace_back(text, name);
      } else {
        same->second += ", " + name;
      }
    }
  }
  std::string lines;
  for (const auto& [text, names] : said) {
    lines += "  " + (names.empty() ? "" : names + ", ") + text;
  }
  return lines;
}

std::vector<double> Losses(const Json& list) {
  std::vector<double> values;
  if (!list.is_array()) return values;
  for (const Json& item : list) {
    if (item.is_number()) values.push_back(item.get<double>());
    if (item.is_array() && item.size() == 2 && item[1].is_number()) {
      values.push_back(item[1].get<double>());
    }
  }
  return values;
}

std::string HeldOutText(const Json& run) {
  if (!At(run, "heldOutLoss").is_number()) return "";
  const auto measured = [](double loss, std::uint64_t step) {
    return Decimal("%.4f ", loss) +
           (step == 0 ? "before the first step"
                      : "after " + std::to_string(step) + (step == 1 ? " step" : " steps"));
  };
  const std::string text = measured(Number(run, "heldOutLoss"), Whole(run, "heldOutStep"));
  const Json& all = List(run, "heldOut");
  if (all.size() < 2 || !all[0].is_array() || Losses(all).size() != all.size()) return text;
  if (!all[0][0].is_number()) return text;
  return text + ", " + measured(Losses(all).front(), ToWhole(all[0][0].get<double>()));
}

Result<Json> ParseObject(const std::string& text, const std::string& what) {
  Json json = ParseJson<Json>(text);
  if (!json.is_object())
    return DataLoss(what + " is not a JSON object; are both programs of the same version?");
  return json;
}

}  // namespace shoal::client
