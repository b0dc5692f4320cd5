#include "daemon/config.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <sstream>

#include <toml++/toml.h>

namespace shoal::daemon {
namespace {

// How one key is read and written back. The table below is the only list of keys.
struct Key {
  const char* section;
  const char* name;
  const char* help;
  std::function<Status(const toml::node&, DaemonConfig*)> read;
  std::function<std::string(const DaemonConfig&)> write;
};

std::string Quoted(const std::string& text) {
  std::ostringstream out;
  out << toml::value<std::string>(text);
  return out.str();
}

Key Text(const char* section, const char* name, std::string DaemonConfig::*field,
         const char* help) {
  return {section, name, help,
          [field](const toml::node& node, DaemonConfig* config) -> Status {
            const auto value = node.value_exact<std::string>();
            if (!value) return InvalidArgument("must be a text in quotes");
            config->*field = *value;
            return Status::Ok();
          },
          [field](const DaemonConfig& config) { return Quoted(config.*field); }};
}

Key Rate(const char* section, const char* name, BitsPerSecond DaemonConfig::*field,
         const char* help) {
  return {section, name, help,
          [field](const toml::node& node, DaemonConfig* config) -> Status {
            const auto value = node.value_exact<std::string>();
            if (!value) return InvalidArgument("must be a rate in quotes, like \"20mbit\"");
            SHOAL_ASSIGN_OR_RETURN(config->*field, ParseRate(*value));
            return Status::Ok();
          },
          [field](const DaemonConfig& config) {
            const BitsPerSecond rate = config.*field;
            return rate.value == 0 ? std::string("\"off\"")
                                   : "\"" + std::to_string(rate.value) + "bit\"";
          }};
}

Key Size(const char* section, const char* name, std::uint64_t DaemonConfig::*field,
         const char* help) {
  return {section, name, help,
          [field](const toml::node& node, DaemonConfig* config) -> Status {
            const auto value = node.value_exact<std::string>();
            if (!value) return InvalidArgument("must be a size in quotes, like \"20GiB\"");
            SHOAL_ASSIGN_OR_RETURN(config->*field, ParseBytes(*value));
            return Status::Ok();
          },
          [field](const DaemonConfig& config) {
            const std::uint64_t bytes = config.*field;
            const std::uint64_t mib = 1ull << 20;
            return bytes % mib == 0 ? "\"" + std::to_string(bytes / mib) + "MiB\""
                                    : "\"" + std::to_string(bytes) + "B\"";
          }};
}

Key Count(const char* section, const char* name, std::uint32_t DaemonConfig::*field,
          std::uint32_t min, std::uint32_t max, const char* help) {
  return {section, name, help,
          [=](const toml::node& node, DaemonConfig* config) -> Status {
            const auto value = node.value_exact<std::int64_t>();
            if (!value || *value < min || *value > max) {
              return InvalidArgument("must be a whole number from " + std::to_string(min) + " to " +
                                     std::to_string(max));
            }
            config->*field = static_cast<std::uint32_t>(*value);
            return Status::Ok();
          },
          [field](const DaemonConfig& config) { return std::to_string(config.*field); }};
}

Key Flag(const char* section, const char* name, bool DaemonConfig::*field, const char* help) {
  return {section, name, help,
          [field](const toml::node& node, DaemonConfig* config) -> Status {
            const auto value = node.value_exact<bool>();
            if (!value) return InvalidArgument("must be true or false");
            config->*field = *value;
            return Status::Ok();
          },
          [field](const DaemonConfig& config) { return config.*field ? "true" : "false"; }};
}

Key List(const char* section, const char* name, std::vector<std::string> DaemonConfig::*field,
         const char* help) {
  return {section, name, help,
          [field](const toml::node& node, DaemonConfig* config) -> Status {
            const toml::array* array = node.as_array();
            if (array == nullptr) return InvalidArgument("must be a list of texts");
            std::vector<std::string> values;
            for (const toml::node& item : *array) {
              const auto value = item.value_exact<std::string>();
              if (!value) return InvalidArgument("must be a list of texts");
              values.push_back(*value);
            }
            config->*field = std::move(values);
            return Status::Ok();
          },
          [field](const DaemonConfig& config) {
            std::string text = "[";
            for (const std::string& item : config.*field) {
              if (text.size() > 1) text += ", ";
              text += Quoted(item);
            }
            return text + "]";
          }};
}

const std::vector<Key>& Keys() {
  using C = DaemonConfig;
  static const std::vector<Key> keys = {
      Text("peer", "name", &C::name, "Shown to the organiser; empty: the machine's name."),
      Text("peer", "directory", &C::directory,
           "Identity, delta store, checkpoints and cache; empty: $XDG_STATE_HOME/shoal."),
      Text("peer", "invite", &C::invite,
           "The organiser's invite line, or file:PATH; empty: wait for `shoal join`."),
      Text("network", "listen", &C::listen, "Where neighbours connect; port 0: any free one."),
      List("network", "advertise", &C::advertise,
           "Names or addresses that neighbours can reach; empty: found."),
      Rate("network", "upload", &C::upload, "Cap on all uploads, like \"20mbit\"; \"off\": none."),
      Rate("network", "download", &C::download, "Cap on all downloads."),
      Size("limits", "delta_store", &C::delta_store_bytes, "Most disk space for the delta store."),
      Size("limits", "store_cache", &C::store_cache_bytes, "Memory for the delta store's cache."),
      Size("limits", "activations", &C::activation_bytes,
           "Most memory for micro-batches in flight."),
      Text("compute", "device", &C::device, "cpu, cuda, cuda:N or auto."),
      Count("compute", "threads", &C::threads, 0, 1024, "Threads of the model; 0: one per core."),
      Count("compute", "codec_threads", &C::codec_threads, 1, 64, "Threads of the codecs."),
      Text("status", "listen", &C::status_listen, "Status page, JSON and metrics."),
      Flag("status", "allow_remote", &C::status_allow_remote,
           "Let status.listen be other than loopback; nothing asks for a password."),
      Text("log", "level", &C::log_level, "trace, debug, info, warning, error or off."),
  };
  return keys;
}

Status At(const toml::node& node, const std::string& name, const std::string& message) {
  return InvalidArgument(name + " line " + std::to_string(node.source().begin.line) + ": " +
                         message);
}

std::string Allowed(std::string_view section) {
  std::string list;
  std::string_view last;
  for (const Key& key : Keys()) {
    const std::string_view item = section.empty() ? key.section : key.name;
    if ((!section.empty() && section != key.section) || item == last) continue;
    if (!list.empty()) list += ", ";
    list += item;
    last = item;
  }
  return list;
}

Status ReadSection(const std::string& section, const toml::table& table, const std::string& name,
                   DaemonConfig* config) {
  for (const auto& [key_text, node] : table) {
    const std::string key_name(key_text.str());
    const Key* found = nullptr;
    for (const Key& key : Keys()) {
      if (section == key.section && key_name == key.name) found = &key;
    }
    if (found == nullptr) {
      return At(node, name,
                "unknown key '" + key_name + "' in [" + section + "]; known: " + Allowed(section));
    }
    if (Status status = found->read(node, config); !status.ok()) {
      return At(node, name, section + "." + key_name + ": " + status.message());
    }
  }
  return Status::Ok();
}

Status CheckValues(const DaemonConfig& config) {
  const std::string& device = config.device;
  const bool numbered = device.rfind("cuda:", 0) == 0 && device.size() > 5 &&
                        device.find_first_not_of("0123456789", 5) == std::string::npos;
  if (device != "cpu" && device != "cuda" && device != "auto" && !numbered) {
    return InvalidArgument("compute.device: '" + device + "' must be cpu, cuda, cuda:N or auto");
  }
  if (config.name.size() > 64) return InvalidArgument("peer.name: at most 64 characters");
  return Status::Ok();
}

}  // namespace

Status ParseConfig(std::string_view text, const std::string& name, DaemonConfig* config) {
  toml::table root;
  try {
    root = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    return InvalidArgument(name + " line " + std::to_string(error.source().begin.line) + ": " +
                           std::string(error.description()));
  }
  for (const auto& [section, node] : root) {
    const toml::table* table = node.as_table();
    if (table == nullptr || (Allowed(section.str()).empty())) {
      return At(node, name,
                "unknown section '" + std::string(section.str()) + "'; known: " + Allowed(""));
    }
    SHOAL_RETURN_IF_ERROR(ReadSection(std::string(section.str()), *table, name, config));
  }
  return CheckValues(*config).WithContext(name);
}

std::string FormatConfig(const DaemonConfig& config) {
  std::string text = "# shoald: the peer daemon's settings. Units are part of the values.\n";
  std::string_view section;
  for (const Key& key : Keys()) {
    if (section != key.section) {
      section = key.section;
      text += "\n[" + std::string(section) + "]\n";
    }
    text += "# " + std::string(key.help) + "\n" + key.name + " = " + key.write(config) + "\n";
  }
  return text;
}

void FillConfigDefaults(DaemonConfig* config) {
  if (config->name.empty()) {
    std::array<char, 65> host{};
    if (::gethostname(host.data(), host.size() - 1) == 0) config->name = host.data();
    if (config->name.empty()) config->name = "peer";
  }
  if (config->directory.empty()) {
    const char* state = std::getenv("XDG_STATE_HOME");
    const char* home = std::getenv("HOME");
    if (state != nullptr && *state != '\0') {
      config->directory = std::string(state) + "/shoal";
    } else {
      config->directory = std::string(home != nullptr ? home : "") + "/.local/state/shoal";
    }
  }
}

}  // namespace shoal::daemon
