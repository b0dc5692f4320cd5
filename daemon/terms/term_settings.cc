#include "daemon/terms/term_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <functional>
#include <system_error>
#include <utility>

#include "net/control/live_settings.h"

namespace shoal::daemon {
namespace {

constexpr std::size_t kValueBytesMax = 1024;
constexpr std::size_t kProgramsMax = 32;
constexpr Duration kGpuFreeMax = std::chrono::hours(24);
constexpr std::uint32_t kWattsMax = 5000;
constexpr std::uint64_t kDiskMin = 1 << 20;  // the logs alone
constexpr std::uint64_t kDeviceMemoryMin = 1 << 10;
constexpr std::string_view kPerMonth = "/month";

std::vector<std::string_view> Words(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    std::string_view word = text.substr(0, end);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    words.push_back(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

Status ReadQuiet(std::string_view value, TermSettings* settings) {
  const auto wrong = [value](const std::string& what) {
    return InvalidArgument("'" + std::string(value) + "': " + what +
                           "; write for example \"08:00-22:00 upload=5mbit download=20mbit\" or "
                           "off");
  };
  QuietHours quiet;
  std::string_view times = value;
  while (true) {
    const std::size_t space = times.rfind(' ');
    const std::string_view last = space == std::string_view::npos ? times : times.substr(space + 1);
    const std::size_t equals = last.find('=');
    if (equals == std::string_view::npos || space == std::string_view::npos) break;
    const std::string_view key = last.substr(0, equals);
    std::optional<BitsPerSecond>* cap = nullptr;
    if (key == "upload") cap = &quiet.upload;
    if (key == "download") cap = &quiet.download;
    if (cap == nullptr || *cap) return wrong("caps are upload=RATE and download=RATE, each once");
    const Result<BitsPerSecond> rate = ParseRate(last.substr(equals + 1));
    if (!rate.ok()) return wrong(rate.status().message());
    if (rate->value == 0) return wrong("quiet hours have lower caps, not none");
    *cap = *rate;
    times = times.substr(0, space);
    while (times.ends_with(' ')) times.remove_suffix(1);
  }
  if (!quiet.upload && !quiet.download) return wrong("quiet hours need a cap");
  Result<WeekTimes> parsed = WeekTimes::Parse(times);
  if (!parsed.ok()) return wrong(parsed.status().message());
  quiet.times = *std::move(parsed);
  settings->quiet = std::move(quiet);
  return Status::Ok();
}

Status ReadBudget(std::string_view value, TermSettings* settings) {
  const Status wrong = InvalidArgument("'" + std::string(value) +
                                       "' is no budget; write for example 300GB/month or off");
  if (!value.ends_with(kPerMonth)) return wrong;
  value.remove_suffix(kPerMonth.size());
  const bool has_unit = value.ends_with('B') && value.find_first_of("kKMGT") != value.npos;
  const Result<std::uint64_t> bytes = ParseBytes(value);
  if (!has_unit || !bytes.ok() || *bytes == 0) return wrong;
  settings->budget_bytes = *bytes;
  return Status::Ok();
}

Status ReadPrograms(std::string_view value, TermSettings* settings) {
  std::vector<std::string> programs;
  for (const std::string_view name : Words(value, ',')) {
    const bool plain = std::none_of(name.begin(), name.end(), [](char c) {
      return static_cast<unsigned char>(c) < ' ' || c == '/' || c == '\x7f';
    });
    if (name.empty() || !plain || programs.size() == kProgramsMax) break;
    programs.emplace_back(name);
  }
  if (programs.empty() || programs.size() != Words(value, ',').size()) {
    return InvalidArgument("'" + std::string(value) + "' is no list of at most " +
                           std::to_string(kProgramsMax) +
                           " programs, named without folders; write for example \"steam, blender\" "
                           "or off");
  }
  settings->exclusive = std::move(programs);
  return Status::Ok();
}

Status ReadRate(std::string_view value, BitsPerSecond* rate) {
  SHOAL_ASSIGN_OR_RETURN(*rate, ParseRate(value));
  return Status::Ok();
}

Status ReadSchedule(std::string_view value, TermSettings* settings) {
  SHOAL_ASSIGN_OR_RETURN(settings->schedule, WeekTimes::Parse(value));
  return Status::Ok();
}

Status ReadBattery(std::string_view value, TermSettings* settings) {
  if (value != "pause" && value != "train") {
    return InvalidArgument("'" + std::string(value) + "' is none of pause, train");
  }
  settings->pauses_on_battery = value == "pause";
  return Status::Ok();
}

Status ReadGpuFree(std::string_view value, TermSettings* settings) {
  const Result<Duration> free = ParseDuration(value);
  if (!free.ok() || *free < std::chrono::seconds(1) || *free > kGpuFreeMax) {
    return InvalidArgument("'" + std::string(value) +
                           "' must be from 1s to 24h, or off; write for example 3m");
  }
  settings->gpu_free = *free;
  return Status::Ok();
}

Status ReadGpuPower(std::string_view value, TermSettings* settings) {
  std::uint32_t watts = 0;
  const char* const end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, watts);
  const std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  if (parsed.ec != std::errc() || unit != "W" || watts == 0 || watts > kWattsMax) {
    return InvalidArgument("'" + std::string(value) +
                           "' is no power; write for example 200W or off");
  }
  settings->gpu_watts = watts;
  return Status::Ok();
}

Status ReadDisk(std::string_view value, TermSettings* settings) {
  const Result<std::uint64_t> bytes = ParseBytes(value);
  if (!bytes.ok() || *bytes < kDiskMin) {
    return InvalidArgument("'" + std::string(value) + "' must be a size from " +
                           FormatBytes(kDiskMin) + " on; write for example 100GiB or off");
  }
  settings->disk_bytes = *bytes;
  return Status::Ok();
}

Status ReadDeviceMemory(std::string_view value, TermSettings* settings) {
  const Result<std::uint64_t> bytes = ParseBytes(value);
  if (!bytes.ok() || *bytes < kDeviceMemoryMin) {
    return InvalidArgument("'" + std::string(value) + "' must be a size from " +
                           FormatBytes(kDeviceMemoryMin) + " on; write for example 6GiB or off");
  }
  settings->device_memory_bytes = *bytes;
  return Status::Ok();
}

// "off" takes a rule away.
Status Unless(std::string_view value, TermSettings* settings,
              Status (*read)(std::string_view, TermSettings*),
              const std::function<void(TermSettings*)>& off) {
  if (value != "off") return read(value, settings);
  off(settings);
  return Status::Ok();
}

Status Read(std::string_view key, std::string_view value, TermSettings* settings) {
  using S = TermSettings;
  if (key == "upload") return ReadRate(value, &settings->upload);
  if (key == "download") return ReadRate(value, &settings->download);
  if (key == "schedule") return ReadSchedule(value, settings);
  if (key == "quiet") return Unless(value, settings, ReadQuiet, [](S* s) { s->quiet.reset(); });
  if (key == "budget") {
    return Unless(value, settings, ReadBudget, [](S* s) { s->budget_bytes = 0; });
  }
  if (key == "exclusive") {
    return Unless(value, settings, ReadPrograms, [](S* s) { s->exclusive.clear(); });
  }
  if (key == "on_battery") return ReadBattery(value, settings);
  if (key == "gpu_free") {
    return Unless(value, settings, ReadGpuFree, [](S* s) { s->gpu_free.reset(); });
  }
  if (key == "gpu_power") {
    return Unless(value, settings, ReadGpuPower, [](S* s) { s->gpu_watts = 0; });
  }
  if (key == "disk") {
    return Unless(value, settings, ReadDisk, [](S* s) { s->disk_bytes = 0; });
  }
  if (key == "device_memory") {
    return Unless(value, settings, ReadDeviceMemory, [](S* s) { s->device_memory_bytes = 0; });
  }
  return InvalidArgument(net::WrongLiveSetting(key));
}

}  // namespace

const std::vector<std::string>& TermKeys() {
  static const std::vector<std::string> keys = {
      "upload",     "download", "schedule",  "quiet", "budget",       "exclusive",
      "on_battery", "gpu_free", "gpu_power", "disk",  "device_memory"};
  return keys;
}

Status ApplyTerm(std::string_view key, std::string_view value, TermSettings* settings) {
  if (value.size() > kValueBytesMax) {
    return InvalidArgument("the value has more than " + std::to_string(kValueBytesMax) + " bytes");
  }
  return Read(key, value, settings);
}

std::string BudgetText(std::uint64_t used_bytes, std::uint64_t budget_bytes) {
  const auto [factor, unit] = budget_bytes >= 1'000'000'000'000 ? std::pair{1e12, "TB"}
                              : budget_bytes >= 1'000'000'000   ? std::pair{1e9, "GB"}
                                                                : std::pair{1e6, "MB"};
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%.4g of %.4g %s",
                static_cast<double>(used_bytes) / factor,
                static_cast<double>(budget_bytes) / factor, unit);
  return text.data();
}

}  // namespace shoal::daemon
