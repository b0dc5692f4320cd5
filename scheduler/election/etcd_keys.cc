#include "scheduler/election/etcd_keys.h"

#include <charconv>

namespace shoal::scheduler {
namespace {

constexpr std::size_t kDigits = 20;  // of 2^64 - 1
constexpr char kFormat = 1;          // first byte of an event's value

std::string EventsFolder(const std::string& prefix) { return prefix + "/v1/events/"; }

}  // namespace

std::string LeaderKey(const std::string& prefix) { return prefix + "/v1/leader"; }

std::string SwarmKey(const std::string& prefix) { return prefix + "/v1/swarm"; }

std::string EventKey(const std::string& prefix, std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return EventsFolder(prefix) + std::string(kDigits - digits.size(), '0') + digits;
}

// '0' comes right behind '/'.
std::string EventKeysEnd(const std::string& prefix) { return prefix + "/v1/events0"; }

std::string EncodeEtcdEvent(std::string_view event) {
  std::string value(1, kFormat);
  value += event;
  return value;
}

Result<std::uint64_t> EventNumberOf(const std::string& prefix, std::string_view key) {
  const std::string folder = EventsFolder(prefix);
  std::uint64_t number = 0;
  if (key.starts_with(folder) && key.size() == folder.size() + kDigits) {
    const auto [end, error] =
        std::from_chars(key.data() + folder.size(), key.data() + key.size(), number);
    if (error == std::errc() && end == key.data() + key.size() && number > 0) return number;
  }
  return DataLoss("etcd has a key below " + folder +
                  " that is no event; somebody else uses this "
                  "prefix");
}

Result<std::string_view> DecodeEtcdEvent(const std::string& prefix, std::uint64_t number,
                                         std::string_view key, std::string_view value) {
  if (key != EventKey(prefix, number) || value.empty() || value[0] != kFormat) {
    return DataLoss("the event log in etcd is damaged at event " + std::to_string(number) +
                    " (missing or of an unknown format); restore etcd from a snapshot");
  }
  return value.substr(1);
}

}  // namespace shoal::scheduler
