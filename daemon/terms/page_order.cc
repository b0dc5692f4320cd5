#include "daemon/terms/page_order.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

#include "common/nesting.h"

namespace shoal::daemon {
namespace {

constexpr std::size_t kArgumentsMax = 32;
constexpr std::array<std::string_view, 4> kCommands = {"set", "pause", "resume", "settings"};

// Which arguments a command takes; those of `set` are checked where they are read.
bool Takes(std::string_view command, std::string_view argument) {
  return command == "set" || (command == "pause" && (argument == "for" || argument == "now"));
}

}  // namespace

Result<PageOrder> ParsePageOrder(std::string_view json) {
  const auto order = ParseJson<nlohmann::json>(json, 3);
  if (!order.is_object() || order.size() != 1 || !order.begin()->is_object()) {
    return InvalidArgument("this is no order; send for example {\"set\":{\"upload\":\"5mbit\"}}");
  }
  PageOrder parsed;
  parsed.command = order.begin().key();
  if (std::find(kCommands.begin(), kCommands.end(), parsed.command) == kCommands.end()) {
    return InvalidArgument("the page may order set, pause, resume and settings, not '" +
                           parsed.command + "'");
  }
  if (order.begin()->size() > kArgumentsMax) return InvalidArgument("too many settings at once");
  for (const auto& [key, value] : order.begin()->items()) {
    if (!Takes(parsed.command, key)) {
      return InvalidArgument(parsed.command + " takes no '" + key + "'");
    }
    if (!value.is_string()) return InvalidArgument("the value of '" + key + "' is no text");
    parsed.arguments[key] = value.get<std::string>();
  }
  if (parsed.command == "set" && parsed.arguments.empty()) {
    return InvalidArgument(
        "nothing is to be set; send for example {\"set\":{\"upload\":\"5mbit\"}}");
  }
  return parsed;
}

}  // namespace shoal::daemon
