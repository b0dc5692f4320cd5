#include "daemon/settings_overlay.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

#include "common/file.h"
#include "common/nesting.h"
#include "net/control/live_settings.h"

namespace shoal::daemon {
namespace {

constexpr std::uint64_t kOverlayBytesMax = 1 << 20;
constexpr Duration kTimedMax = std::chrono::hours(24 * 366);

// {"schedule": "sat-sun all"}; false: something else.
bool ReadTerms(const nlohmann::json& json, std::map<std::string, std::string>* terms) {
  if (!json.is_object()) return false;
  TermSettings scratch;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string() || key == "upload" || key == "download") return false;
    const std::string text = value.get<std::string>();
    if (!ApplyTerm(key, text, &scratch).ok()) return false;
    (*terms)[key] = text;
  }
  return true;
}

// {"upload": {"value": "5mbit", "until_ms": 1796000000000}}; false: something else.
bool ReadTimed(const nlohmann::json& json, std::map<std::string, TimedValue>* timed) {
  if (!json.is_object()) return false;
  TermSettings scratch;
  for (const auto& [key, entry] : json.items()) {
    if (!entry.is_object() || entry.size() != 2) return false;
    const auto value = entry.find("value"), until = entry.find("until_ms");
    if (value == entry.end() || until == entry.end()) return false;
    if (!value->is_string() || !until->is_number_unsigned()) return false;
    const std::string text = value->get<std::string>();
    if (!ApplyTerm(key, text, &scratch).ok()) return false;
    (*timed)[key] = {text, until->get<std::int64_t>()};
  }
  return true;
}

// The keys that are texts.
std::vector<std::pair<std::string, const std::string*>> Configured(const DaemonConfig& config) {
  return {{"schedule", &config.schedule},     {"quiet", &config.quiet},
          {"budget", &config.budget},         {"exclusive", &config.exclusive},
          {"on_battery", &config.on_battery}, {"gpu_free", &config.gpu_free},
          {"gpu_power", &config.gpu_power},   {"disk", &config.disk}};
}

std::string MemoryText(std::uint64_t bytes) { return bytes == 0 ? "off" : SizeText(bytes); }

std::string CapText(BitsPerSecond cap) { return cap.value == 0 ? "off" : FormatRate(cap); }

std::optional<BitsPerSecond>* CapOf(std::string_view key, SettingsOverlay* overlay) {
  if (key == "upload") return &overlay->upload;
  if (key == "download") return &overlay->download;
  return nullptr;
}

// All keys, as the settings without `shoal set` have them.
std::map<std::string, std::string> ConfiguredTexts(const DaemonConfig& config) {
  std::map<std::string, std::string> texts = {{"upload", CapText(config.upload)},
                                              {"download", CapText(config.download)}};
  texts["device_memory"] = MemoryText(config.device_memory_bytes);
  for (const auto& [key, value] : Configured(config)) texts[key] = *value;
  return texts;
}

// What `shoal set` keeps of a key, without limit of time.
std::optional<std::string> SetText(const std::string& name, SettingsOverlay* overlay) {
  if (const auto* const cap = CapOf(name, overlay)) {
    return *cap ? std::optional(CapText(**cap)) : std::nullopt;
  }
  const auto found = overlay->terms.find(name);
  return found == overlay->terms.end() ? std::nullopt : std::optional(found->second);
}

void Unset(const std::string& name, SettingsOverlay* overlay) {
  overlay->terms.erase(name);
  if (auto* const cap = CapOf(name, overlay)) cap->reset();
}

}  // namespace

Result<SettingsOverlay> WithSettings(SettingsOverlay overlay,
                                     const std::map<std::string, std::string>& arguments,
                                     std::int64_t now_ms) {
  std::erase_if(overlay.timed, [&](const auto& entry) { return entry.second.until_ms <= now_ms; });
  std::int64_t until_ms = 0;
  if (const auto lasts = arguments.find("for"); lasts != arguments.end()) {
    SHOAL_ASSIGN_OR_RETURN(until_ms, EndOf(lasts->second, now_ms));
  }
  TermSettings scratch;
  for (const auto& [key, value] : arguments) {
    if (key == "for") continue;
    if (const std::string wrong = net::WrongLiveSetting(key); !wrong.empty()) {
      return InvalidArgument(wrong);
    }
    std::optional<BitsPerSecond>* const cap = CapOf(key, &overlay);
    if (value == "default") {
      if (until_ms > 0) return InvalidArgument(key + "=default needs no --for: leave one away");
      overlay.timed.erase(key);
      Unset(key, &overlay);
      continue;
    }
    SHOAL_RETURN_IF_ERROR(ApplyTerm(key, value, &scratch).WithContext(key));
    if (until_ms > 0) {
      overlay.timed[key] = {value, until_ms};
      continue;
    }
    overlay.timed.erase(key);
    if (cap == nullptr) {
      overlay.terms[key] = value;
    } else {
      *cap = key == "upload" ? scratch.upload : scratch.download;
    }
  }
  return overlay;
}

Result<std::int64_t> EndOf(const std::string& lasts, std::int64_t now_ms) {
  const Result<Duration> parsed = ParseDuration(lasts);
  if (!parsed.ok() || *parsed < std::chrono::seconds(1) || *parsed > kTimedMax) {
    return InvalidArgument("--for '" + lasts +
                           "' must be from 1s to 366d; write for example --for 8h");
  }
  return now_ms + std::chrono::duration_cast<std::chrono::milliseconds>(*parsed).count();
}

// All values were checked when they were read; one that does not parse would change nothing.
TermSettings TermsInForce(const DaemonConfig& config, const SettingsOverlay& overlay,
                          std::int64_t now_ms) {
  TermSettings settings;
  settings.upload = overlay.upload.value_or(config.upload);
  settings.download = overlay.download.value_or(config.download);
  settings.device_memory_bytes = config.device_memory_bytes;
  for (const auto& [key, value] : Configured(config)) (void)ApplyTerm(key, *value, &settings);
  for (const auto& [key, value] : overlay.terms) (void)ApplyTerm(key, value, &settings);
  for (const auto& [key, timed] : overlay.timed) {
    if (timed.until_ms <= now_ms) continue;
    (void)ApplyTerm(key, timed.value, &settings);
    settings.timed.push_back({key, timed.value, (timed.until_ms + 999) / 1000});
  }
  return settings;
}

std::string SettingsJson(const DaemonConfig& config, const SettingsOverlay& overlay,
                         std::int64_t now_ms) {
  std::map<std::string, std::string> values = ConfiguredTexts(config);
  values["upload"] = CapText(overlay.upload.value_or(config.upload));
  values["download"] = CapText(overlay.download.value_or(config.download));
  for (const auto& [key, value] : overlay.terms) values[key] = value;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const net::LiveSetting& setting : net::kLiveSettings) {
    const auto timed = overlay.timed.find(setting.name);
    const bool holds = timed != overlay.timed.end() && timed->second.until_ms > now_ms;
    list.push_back({{"name", setting.name},
                    {"help", setting.help},
                    {"value", holds ? timed->second.value : values[setting.name]},
                    {"until", holds ? timed->second.until_ms : 0}});
  }
  const nlohmann::ordered_json json = {{"schemaVersion", 1}, {"settings", std::move(list)}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string FlagOf(std::string_view setting) {
  std::string flag = "--" + std::string(setting);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::vector<std::string> SettleSettings(const DaemonConfig& config, SettingsOverlay* overlay) {
  std::vector<std::string> said;
  const std::map<std::string, std::string> configured = ConfiguredTexts(config);
  for (const auto& [name, value] : configured) {
    const bool typed = config.typed.contains(name);
    const std::string flag = FlagOf(name) + " " + value;
    if (typed && overlay->timed.erase(name) > 0) {
      said.push_back(flag + " replaces what `shoal set " + name + "=... --for` set for a time");
    }
    const std::optional<std::string> set = SetText(name, overlay);
    if (!set || *set == value) continue;
    const std::string earlier = name + "=" + *set + " of an earlier `shoal set`";
    if (typed) {
      said.push_back(flag + " replaces " + earlier);
      Unset(name, overlay);
    } else {
      said.push_back(earlier + " holds, not " + value + ": `shoal set " + name +
                     "=default` ends that");
    }
  }
  if (config.keep) {
    if (config.typed.contains("upload")) overlay->upload = config.upload;
    if (config.typed.contains("download")) overlay->download = config.download;
    if (config.typed.contains("name")) overlay->name = config.name;
  }
  return said;
}

Result<SettingsOverlay> ReadOverlay(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kOverlayBytesMax);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound) return SettingsOverlay{};
  if (!text.ok()) return text.status();
  const auto json = ParseJson<nlohmann::json>(*text);
  const auto damaged = [&path] {
    return DataLoss(path + " is damaged; delete it to return to the config file's settings");
  };
  if (!json.is_object()) return damaged();
  SettingsOverlay overlay;
  for (const auto& [key, value] : json.items()) {
    if (key == "upload_bps" && value.is_number_unsigned()) {
      overlay.upload = BitsPerSecond{value.get<std::uint64_t>()};
    } else if (key == "download_bps" && value.is_number_unsigned()) {
      overlay.download = BitsPerSecond{value.get<std::uint64_t>()};
    } else if (key == "invite" && value.is_string()) {
      overlay.invite = value.get<std::string>();
    } else if (key == "name" && value.is_string()) {
      overlay.name = value.get<std::string>();
    } else if (key == "paused" && value.is_boolean()) {
      overlay.paused = value.get<bool>();
    } else if (key == "paused_until_ms" && value.is_number_unsigned()) {
      overlay.paused_until_ms = value.get<std::int64_t>();
    } else if (key == "terms" && ReadTerms(value, &overlay.terms)) {
      continue;
    } else if (key == "timed" && ReadTimed(value, &overlay.timed)) {
      continue;
    } else {
      return damaged();
    }
  }
  return overlay;
}

Status WriteOverlay(const std::string& path, const SettingsOverlay& overlay) {
  nlohmann::json json = {{"paused", overlay.paused}};
  if (overlay.upload) json["upload_bps"] = overlay.upload->value;
  if (overlay.download) json["download_bps"] = overlay.download->value;
  if (overlay.invite) json["invite"] = *overlay.invite;
  if (overlay.name) json["name"] = *overlay.name;
  if (overlay.paused_until_ms > 0) json["paused_until_ms"] = overlay.paused_until_ms;
  if (!overlay.terms.empty()) json["terms"] = overlay.terms;
  for (const auto& [key, timed] : overlay.timed) {
    json["timed"][key] = {{"value", timed.value}, {"until_ms", timed.until_ms}};
  }
  return WriteFileAtomic(path, json.dump(1) + "\n", 0600);
}

}  // namespace shoal::daemon
