#include "daemon/settings_overlay.h"

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/nesting.h"

namespace shoal::daemon {
namespace {

constexpr std::uint64_t kOverlayBytesMax = 1 << 20;

void SettleCap(const std::string& name, BitsPerSecond configured, bool typed,
               std::optional<BitsPerSecond>* set, std::vector<std::string>* said) {
  if (!*set || (*set)->value == configured.value) return;
  const std::string earlier = name + "=" + FormatRate(**set) + " of an earlier `shoal set`";
  if (typed) {
    said->push_back("--" + name + " " + FormatRate(configured) + " replaces " + earlier);
    set->reset();
  } else {
    said->push_back(earlier + " holds; `shoal set " + name + "=RATE` or --" + name + " changes it");
  }
}

}  // namespace

std::vector<std::string> SettleCaps(const DaemonConfig& config, SettingsOverlay* overlay) {
  std::vector<std::string> said;
  SettleCap("upload", config.upload, config.upload_typed, &overlay->upload, &said);
  SettleCap("download", config.download, config.download_typed, &overlay->download, &said);
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
    } else if (key == "paused" && value.is_boolean()) {
      overlay.paused = value.get<bool>();
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
  return WriteFileAtomic(path, json.dump(1) + "\n", 0600);
}

}  // namespace shoal::daemon
