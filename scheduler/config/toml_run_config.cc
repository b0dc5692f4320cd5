// The only file of the scheduler that knows TOML.

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <type_traits>

#include <toml++/toml.h>

#include "common/command_line/spelling.h"
#include "common/command_line/toml_text.h"
#include "common/file.h"
#include "common/nesting.h"
#include "scheduler/config/log_target.h"
#include "scheduler/config/run_config_keys.h"

namespace shoal::scheduler {
namespace {

constexpr std::uint64_t kFileBytesMax = 1 << 20;

std::string FormatNumber(double value) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  SHOAL_CHECK(error == std::errc());
  return std::string(text, end);
}

// A TOML float needs a point or an exponent.
std::string FormatFloat(double value) {
  std::string text = FormatNumber(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
      quoted += escaped;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

template <typename T>
std::string List(const std::vector<T>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    if constexpr (std::is_same_v<T, std::string>) {
      text += Quoted(values[i]);
    } else {
      text += std::to_string(values[i]);
    }
  }
  return text + "]";
}

std::string FormatDurationExactly(Duration duration) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + "s" : std::to_string(ms) + "ms";
}

std::string FormatValue(const RunConfigKey& key) {
  return std::visit(
      [](const auto* value) -> std::string {
        using T = std::remove_cv_t<std::remove_pointer_t<decltype(value)>>;
        if constexpr (std::is_same_v<T, std::string>)
          return Quoted(*value);
        else if constexpr (std::is_same_v<T, bool>)
          return *value ? "true" : "false";
        else if constexpr (std::is_same_v<T, double>)
          return FormatFloat(*value);
        else if constexpr (std::is_same_v<T, Duration>)
          return '"' + FormatDurationExactly(*value) + '"';
        else if constexpr (std::is_integral_v<T>)
          return std::to_string(*value);
        else
          return List(*value);
      },
      key.target);
}

std::string Range(const RunConfigKey& key) {
  return FormatNumber(key.min) + " to " + FormatNumber(key.max);
}

// What a key takes, for messages and for the comments of the printed file.
std::string Expected(const RunConfigKey& key) {
  return std::visit(
      [&](const auto* value) -> std::string {
        using T = std::remove_cv_t<std::remove_pointer_t<decltype(value)>>;
        if constexpr (std::is_same_v<T, std::string>) {
          return key.allowed.empty() ? "a text in quotes"
                                     : "one of \"" + std::string(key.allowed) + "\"";
        } else if constexpr (std::is_same_v<T, bool>) {
          return "true or false";
        } else if constexpr (std::is_same_v<T, double>) {
          return "a number, " + Range(key);
        } else if constexpr (std::is_same_v<T, Duration>) {
          return "a duration like \"250ms\", \"6s\" or \"2m\", " + Range(key) + " seconds";
        } else if constexpr (std::is_integral_v<T>) {
          return "a whole number, " + Range(key);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          return "a list of texts like [\"a\", \"b\"]";
        } else {
          return "a list of whole numbers like [4, 8]";
        }
      },
      key.target);
}

bool IsAllowed(std::string_view allowed, std::string_view text) {
  if (allowed.empty()) return true;
  while (!allowed.empty()) {
    const std::size_t bar = allowed.find('|');
    if (allowed.substr(0, bar) == text) return true;
    if (bar == std::string_view::npos) return false;
    allowed.remove_prefix(bar + 1);
  }
  return false;
}

bool Take(const toml::node& node, const RunConfigKey& key, std::string* to) {
  const auto* text = node.as_string();
  if (text == nullptr || !IsAllowed(key.allowed, text->get())) return false;
  *to = text->get();
  return true;
}
bool Take(const toml::node& node, const RunConfigKey&, bool* to) {
  const auto* value = node.as_boolean();
  if (value != nullptr) *to = value->get();
  return value != nullptr;
}
bool Take(const toml::node& node, const RunConfigKey& key, double* to) {
  double value = std::numeric_limits<double>::quiet_NaN();
  if (const auto* number = node.as_floating_point()) value = number->get();
  if (const auto* number = node.as_integer()) value = static_cast<double>(number->get());
  if (!(value >= key.min && value <= key.max)) return false;
  *to = value;
  return true;
}
bool TakeWhole(const toml::node& node, const RunConfigKey& key, std::uint64_t* to) {
  const auto* number = node.as_integer();
  if (number == nullptr || number->get() < 0) return false;
  const auto value = static_cast<double>(number->get());
  if (value < key.min || value > key.max) return false;
  *to = static_cast<std::uint64_t>(number->get());
  return true;
}
bool Take(const toml::node& node, const RunConfigKey& key, std::uint64_t* to) {
  return TakeWhole(node, key, to);
}
bool Take(const toml::node& node, const RunConfigKey& key, std::uint32_t* to) {
  std::uint64_t value = 0;
  if (!TakeWhole(node, key, &value)) return false;
  *to = static_cast<std::uint32_t>(value);  // max of every such key is far below
  return true;
}
bool Take(const toml::node& node, const RunConfigKey& key, Duration* to) {
  const auto* text = node.as_string();
  if (text == nullptr) return false;
  const auto duration = ParseDuration(text->get());
  if (!duration.ok()) return false;
  const double seconds = std::chrono::duration<double>(*duration).count();
  if (seconds < key.min || seconds > key.max) return false;
  *to = *duration;
  return true;
}
template <typename T>
bool Take(const toml::node& node, const RunConfigKey& key, std::vector<T>* to) {
  const toml::array* array = node.as_array();
  if (array == nullptr || array->size() > 4096) return false;
  to->clear();
  for (const toml::node& entry : *array) {
    T value{};
    if (!Take(entry, key, &value)) return false;
    to->push_back(std::move(value));
  }
  return true;
}

// file:line: message
Status At(const std::string& path, const toml::source_region& where, const std::string& message) {
  return InvalidArgument(path + ":" + std::to_string(where.begin.line) + ": " + message);
}

std::string NamesIn(const std::vector<RunConfigKey>& keys, std::string_view section) {
  std::string names;
  for (const RunConfigKey& key : keys) {
    if (key.section == section) names += (names.empty() ? "" : ", ") + std::string(key.name);
  }
  return names;
}

std::vector<std::string> NameList(const std::vector<RunConfigKey>& keys, std::string_view section) {
  std::vector<std::string> names;
  for (const RunConfigKey& key : keys) {
    if (key.section == section) names.emplace_back(key.name);
  }
  return names;
}

std::string Sections(const std::vector<RunConfigKey>& keys) {
  std::string names;
  std::string_view last;
  for (const RunConfigKey& key : keys) {
    if (key.section != last) names += (names.empty() ? "" : ", ") + std::string(key.section);
    last = key.section;
  }
  return names;
}

Status ReadSection(const std::string& path, std::string_view section, const toml::table& table,
                   const std::vector<RunConfigKey>& keys) {
  for (const auto& [name, node] : table) {
    const RunConfigKey* key = nullptr;
    for (const RunConfigKey& candidate : keys) {
      if (candidate.section == section && candidate.name == name.str()) key = &candidate;
    }
    const std::string full = "[" + std::string(section) + "] " + std::string(name.str());
    if (key == nullptr) {
      return At(path, node.source(),
                full + " is not known" + DidYouMean(name.str(), NameList(keys, section)) +
                    "; allowed here: " + NamesIn(keys, section));
    }
    const bool taken = std::visit(
        [&, &entry = node](auto* target) { return Take(entry, *key, target); }, key->target);
    if (!taken) return At(path, node.source(), full + " must be " + Expected(*key));
  }
  return Status::Ok();
}

Status ReadTable(const std::string& path, const toml::table& table,
                 const std::vector<RunConfigKey>& keys) {
  for (const auto& [name, node] : table) {
    const std::string section(name.str());
    if (NamesIn(keys, section).empty()) {
      return At(path, node.source(),
                section + " is not known; allowed are the sections " + Sections(keys));
    }
    if (!node.is_table()) {
      return At(path, node.source(), section + " must be a section: [" + section + "]");
    }
    SHOAL_RETURN_IF_ERROR(ReadSection(path, section, *node.as_table(), keys));
  }
  return Status::Ok();
}

// Relative paths count from the folder of the file.
void Resolve(const std::string& file, std::string* path) {
  const std::filesystem::path given(*path);
  if (given.is_absolute()) return;
  *path = (std::filesystem::path(file).parent_path() / given).lexically_normal().string();
}

}  // namespace

Result<RunConfig> ReadRunConfig(const std::string& path) {
  SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kFileBytesMax));
  RunConfig config;
  const std::vector<RunConfigKey> keys = RunConfigKeys(&config);
  if (TomlKeysNestDeeper(text, kTomlKeyPartsMax)) {
    return InvalidArgument(path + ": a key has more parts than any that shoal-scheduler knows");
  }
  try {
    const toml::table table = toml::parse(text);
    SHOAL_RETURN_IF_ERROR(ReadTable(path, table, keys));
  } catch (const toml::parse_error& error) {
    return At(path, error.source(),
              std::string(error.description()) + TomlQuotesHint(text, error.source().begin.line));
  }
  if (Status checked = CheckRunConfig(config); !checked.ok()) return checked.WithContext(path);
  Resolve(path, &config.model);
  Resolve(path, &config.data);
  Resolve(path, &config.directory);
  EtcdLogin& login = config.etcd_login;
  for (std::string* file : {&login.ca, &login.cert, &login.key, &login.password_file}) {
    if (!file->empty()) Resolve(path, file);
  }
  for (std::string& log : config.log_to) {
    SHOAL_ASSIGN_OR_RETURN(LogTarget target, ParseLogTarget(log));
    Resolve(path, &target.path);
    log = target.ToString();
  }
  return config;
}

std::string FormatRunConfig(const RunConfig& config) {
  RunConfig copy = config;
  std::string text =
      "# A run of shoal-scheduler. Every key may be left out; these are the effective values.\n"
      "# Relative paths count from the folder of this file.\n";
  std::string_view section;
  for (const RunConfigKey& key : RunConfigKeys(&copy)) {
    if (key.section != section) text += "\n[" + std::string(key.section) + "]\n";
    section = key.section;
    text += "# " + std::string(key.help) + " (" + Expected(key) + ")\n";
    text += std::string(key.name) + " = " + FormatValue(key) + "\n";
  }
  return text;
}

}  // namespace shoal::scheduler
