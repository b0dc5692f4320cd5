#include "daemon/config.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>

#include <toml++/toml.h>
#include <nlohmann/json.hpp>

#include "common/command_line/spelling.h"
#include "common/command_line/toml_text.h"
#include "common/log.h"
#include "common/nesting.h"
#include "daemon/terms/term_settings.h"

namespace shoal::daemon {
namespace {

constexpr std::size_t kNameBytesMax = 64;  // as the wire allows

// How one key is read and written back. The table below is the only list of keys.
struct Key {
  const char* section;
  const char* name;
  const char* help;
  std::function<Status(const toml::node&, DaemonConfig*)> read;
  std::function<std::string(const DaemonConfig&)> write;
  // What a value of the right type must also be; empty: nothing more.
  std::function<Status(const DaemonConfig&)> check;
};

// A JSON string is a TOML basic string.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Key Text(const char* section, const char* name, std::string DaemonConfig::*field, const char* help,
         std::function<Status(const DaemonConfig&)> check = nullptr) {
  return {section,
          name,
          help,
          [field](const toml::node& node, DaemonConfig* config) -> Status {
            const auto value = node.value_exact<std::string>();
            if (!value) return InvalidArgument("must be a text in quotes");
            config->*field = *value;
            return Status::Ok();
          },
          [field](const DaemonConfig& config) { return Quoted(config.*field); },
          std::move(check)};
}

struct Unit {
  const char* name;
  std::uint64_t factor;
};
constexpr Unit kRateUnits[] = {{"gbit", 1'000'000'000}, {"mbit", 1'000'000}, {"kbit", 1000}};
constexpr Unit kSizeUnits[] = {{"GiB", 1ull << 30}, {"MiB", 1ull << 20}, {"KiB", 1ull << 10}};

// In the largest unit that gives a whole number, so that nothing is rounded.
template <std::size_t N>
std::string WithUnit(std::uint64_t value, const Unit (&units)[N], const char* smallest) {
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.factor == 0) {
      return "\"" + std::to_string(value / unit.factor) + unit.name + "\"";
    }
  }
  return "\"" + std::to_string(value) + smallest + "\"";
}

Key Rate(const char* section, const char* name, BitsPerSecond DaemonConfig::*field,
         const char* help) {
  return {section,
          name,
          help,
          [field](const toml::node& node, DaemonConfig* config) -> Status {
            const auto value = node.value_exact<std::string>();
            if (!value) return InvalidArgument("must be a rate in quotes, like \"20mbit\"");
            SHOAL_ASSIGN_OR_RETURN(config->*field, ParseRate(*value));
            return Status::Ok();
          },
          [field](const DaemonConfig& config) {
            const BitsPerSecond rate = config.*field;
            if (rate.value == 0) return std::string("\"off\"");
            return WithUnit(rate.value, kRateUnits, "bit");
          },
          nullptr};
}

Key Size(const char* section, const char* name, std::uint64_t DaemonConfig::*field,
         const char* help) {
  return {section,
          name,
          help,
          [field](const toml::node& node, DaemonConfig* config) -> Status {
            const auto value = node.value_exact<std::string>();
            if (!value) return InvalidArgument("must be a size in quotes, like \"20GiB\"");
            SHOAL_ASSIGN_OR_RETURN(config->*field, ParseBytes(*value));
            return Status::Ok();
          },
          [field](const DaemonConfig& config) { return WithUnit(config.*field, kSizeUnits, "B"); },
          nullptr};
}

// A size of which 0 means that shoald chooses, written as an empty text.
Key SizeOrEmpty(const char* section, const char* name, std::uint64_t DaemonConfig::*field,
                const char* help) {
  Key key = Size(section, name, field, help);
  key.read = [field, read = key.read](const toml::node& node, DaemonConfig* config) -> Status {
    if (node.value_exact<std::string>() == "") {
      config->*field = 0;
      return Status::Ok();
    }
    SHOAL_RETURN_IF_ERROR(read(node, config));
    if (config->*field > 0) return Status::Ok();
    return InvalidArgument("must be more than 0, or empty");
  };
  key.write = [field, write = key.write](const DaemonConfig& config) {
    return config.*field == 0 ? std::string("\"\"") : write(config);
  };
  return key;
}

Key Count(const char* section, const char* name, std::uint32_t DaemonConfig::*field,
          std::uint32_t min, std::uint32_t max, const char* help) {
  return {section,
          name,
          help,
          [=](const toml::node& node, DaemonConfig* config) -> Status {
            const auto value = node.value_exact<std::int64_t>();
            if (!value || *value < min || *value > max) {
              return InvalidArgument("must be a whole number from " + std::to_string(min) + " to " +
                                     std::to_string(max));
            }
            config->*field = static_cast<std::uint32_t>(*value);
            return Status::Ok();
          },
          [field](const DaemonConfig& config) { return std::to_string(config.*field); },
          nullptr};
}

Key Flag(const char* section, const char* name, bool DaemonConfig::*field, const char* help) {
  return {section,
          name,
          help,
          [field](const toml::node& node, DaemonConfig* config) -> Status {
            const auto value = node.value_exact<bool>();
            if (!value) return InvalidArgument("must be true or false");
            config->*field = *value;
            return Status::Ok();
          },
          [field](const DaemonConfig& config) { return config.*field ? "true" : "false"; },
          nullptr};
}

Key List(const char* section, const char* name, std::vector<std::string> DaemonConfig::*field,
         const char* help) {
  return {section,
          name,
          help,
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
          },
          nullptr};
}

Status CheckName(const DaemonConfig& config) {
  if (config.name.size() > kNameBytesMax) {
    return InvalidArgument("must have at most " + std::to_string(kNameBytesMax) + " bytes");
  }
  for (const char c : config.name) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      return InvalidArgument("must not hold control characters");
    }
  }
  return Status::Ok();
}

Status CheckDevice(const DaemonConfig& config) {
  const std::string& device = config.device;
  const bool numbered = device.rfind("cuda:", 0) == 0 && device.size() > 5 &&
                        device.find_first_not_of("0123456789", 5) == std::string::npos;
  if (device == "cpu" || device == "cuda" || device == "auto" || numbered) return Status::Ok();
  return InvalidArgument("'" + device + "' must be cpu, cuda, cuda:N or auto");
}

Status CheckCard(const DaemonConfig& config) {
  const std::string& card = config.card;
  const bool is_id = !card.empty() && card.size() < 32 &&
                     card.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos &&
                     card[0] >= '0' && card[0] <= '9';
  if (card == "auto" || card == "off" || is_id) return Status::Ok();
  return InvalidArgument("'" + card + "' must be auto, off, a number or a PCI bus id");
}

Status CheckStoreSpace(const DaemonConfig& config) {
  if (config.store_space == "default" || config.store_space == "tight") return Status::Ok();
  return InvalidArgument("'" + config.store_space + "' is none of default, tight");
}

Status CheckPacing(const DaemonConfig& config) {
  if (config.pacing == "auto" || config.pacing == "off") return Status::Ok();
  return InvalidArgument("'" + config.pacing + "' is none of auto, off");
}

Status CheckLogLevel(const DaemonConfig& config) {
  return ParseLogLevel(config.log_level).status();
}

// A value of [terms], which is also one of `shoal set`.
Key Term(const char* name, std::string DaemonConfig::*field, const char* help) {
  return Text("terms", name, field, help, [name, field](const DaemonConfig& config) {
    TermSettings scratch;
    return ApplyTerm(name, config.*field, &scratch);
  });
}

std::vector<Key> NetworkRows() {
  using C = DaemonConfig;
  return {
      Text("peer", "name", &C::name,
           "Name of this peer, shown to the organiser; empty: the machine's name.", CheckName),
      Text(
          "peer", "directory", &C::directory,
          "Folder of identity, delta store, checkpoints and cache; empty: $XDG_STATE_HOME/shoal or "
          "~/.local/state/shoal."),
      Text("peer", "invite", &C::invite,
           "The organiser's invite line, or file:PATH; empty: wait for `shoal join`."),
      Text("network", "listen", &C::listen,
           "host:port where neighbours connect; port 0: any free one."),
      List("network", "advertise", &C::advertise,
           "Names or addresses that neighbours can reach; empty: shoald finds them."),
      Flag("network", "map_port", &C::map_port,
           "Ask the home's router, by NAT-PMP or UPnP, to lead a port here; not where advertise "
           "says how this peer is reached."),
      Rate("network", "upload", &C::upload, "Cap on all uploads, like \"20mbit\"; \"off\": none."),
      Rate("network", "download", &C::download,
           "Cap on all downloads, like \"80mbit\"; \"off\": none."),
      Text("network", "pacing", &C::pacing,
           "auto: find out what the line takes and fill no router's queue; off: only the cap.",
           CheckPacing),
  };
}

std::vector<Key> TermRows() {
  using C = DaemonConfig;
  return {
      Term("schedule", &C::schedule,
           "When this peer may train, like \"mon-fri 18:00-08:00, sat-sun all\"; else it pauses."),
      Term("quiet", &C::quiet,
           "Times with lower caps, like \"08:00-22:00 upload=5mbit download=20mbit\"; \"off\": "
           "none."),
      Term(
          "budget", &C::budget,
          "Most bytes sent and received in a month, like \"300GB/month\"; then it pauses; \"off\": "
          "any."),
      Term("exclusive", &C::exclusive,
           "Programs of any user beside which it pauses, like \"steam, blender\"; \"off\": none."),
      Term("on_battery", &C::on_battery, "On battery: pause or train."),
      Term("gpu_free", &C::gpu_free,
           "Pause while another program uses this peer's NVIDIA GPU, until that was free for so "
           "long, "
           "like \"3m\"; \"off\": train."),
      Term("gpu_power", &C::gpu_power,
           "Most power of the GPU, like \"200W\", if its driver lets shoald; \"off\": as it is."),
      Term("disk", &C::disk, "Most disk space of this peer, like \"100GiB\"; \"off\": any."),
  };
}

std::vector<Key> MachineRows() {
  using C = DaemonConfig;
  return {
      Size("limits", "delta_store", &C::delta_store_bytes,
           "Most bytes of m in the delta store. Files take up to 2.2 times that, 1.5 with "
           "store.space = \"tight\"."),
      Size("limits", "activations", &C::activation_bytes,
           "Most memory for micro-batches in flight and for those whose weight gradients are "
           "pending (schedule zero-bubble), together."),
      SizeOrEmpty("limits", "device_memory", &C::device_memory_bytes,
                  "Most memory of the device for the model; empty: what a GPU has free at the "
                  "start, less 10 %."),
      Size("store", "memory", &C::store_memory_bytes,
           "Memory of the delta store: its index, buffers, and m read ahead."),
      Text("store", "space", &C::store_space,
           "Disk space of the delta store: default, below 2.2 times the bytes of m; tight, below "
           "1.5, in more files.",
           CheckStoreSpace),
      Text("compute", "device", &C::device, "Device of the model: cpu, cuda, cuda:N or auto.",
           CheckDevice),
      Text("compute", "card", &C::card,
           "NVIDIA GPU to watch: auto (that of device), off, its number or PCI bus id.", CheckCard),
      Count("compute", "threads", &C::threads, 0, 1024, "Threads of the model; 0: one per core."),
      Count("compute", "codec_threads", &C::codec_threads, 1, 64, "Threads of the codecs."),
      Text(
          "status", "listen", &C::status_listen,
          "host:port of status page, JSON and metrics; where the default is taken: any free port."),
      Flag("status", "allow_remote", &C::status_allow_remote,
           "Let status.listen be other than loopback; nothing asks for a password."),
      Text("log", "level", &C::log_level,
           "Level of the log: trace, debug, info, warning, error or off.", CheckLogLevel),
  };
}

const std::vector<Key>& Keys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all;
    for (const std::vector<Key>& rows : {NetworkRows(), TermRows(), MachineRows()}) {
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return keys;
}

Status At(const toml::node& node, const std::string& name, const std::string& message) {
  return InvalidArgument(name + " line " + std::to_string(node.source().begin.line) + ": " +
                         message);
}

std::string AllowedKeys(std::string_view section) {
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

std::vector<std::string> NamesIn(std::string_view section) {
  std::vector<std::string> names;
  for (const Key& key : Keys()) {
    if (section == key.section) names.emplace_back(key.name);
  }
  return names;
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
                "unknown key '" + key_name + "' in [" + section + "]" +
                    DidYouMean(key_name, NamesIn(section)) + "; known: " + AllowedKeys(section));
    }
    Status status = found->read(node, config);
    if (status.ok() && found->check) status = found->check(*config);
    if (!status.ok()) {
      return At(node, name, section + "." + key_name + ": " + status.message());
    }
  }
  return Status::Ok();
}

Status CheckValues(const DaemonConfig& config) {
  for (const Key& key : Keys()) {
    if (!key.check) continue;
    SHOAL_RETURN_IF_ERROR(key.check(config).WithContext(std::string(key.section) + "." + key.name));
  }
  return Status::Ok();
}

}  // namespace

std::string SizeText(std::uint64_t bytes) {
  const std::string quoted = WithUnit(bytes, kSizeUnits, "B");
  return quoted.substr(1, quoted.size() - 2);
}

Status ParseConfig(std::string_view text, const std::string& name, DaemonConfig* config) {
  toml::table root;
  if (TomlKeysNestDeeper(text, kTomlKeyPartsMax)) {
    return InvalidArgument(name + ": a key has more parts than any that shoald knows");
  }
  try {
    root = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    return InvalidArgument(name + " line " + std::to_string(error.source().begin.line) + ": " +
                           std::string(error.description()) +
                           TomlQuotesHint(text, error.source().begin.line));
  }
  for (const auto& [section, node] : root) {
    const toml::table* table = node.as_table();
    if (table == nullptr || (AllowedKeys(section.str()).empty())) {
      return At(node, name,
                "unknown section '" + std::string(section.str()) + "'; known: " + AllowedKeys(""));
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

std::string DescribeSettings() {
  std::string text;
  for (const Key& key : Keys()) {
    text += std::string(key.section) + "." + key.name + ": " + key.help + "\n";
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
