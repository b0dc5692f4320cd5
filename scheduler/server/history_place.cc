#include "scheduler/server/history_place.h"

#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/file.h"
#include "net/etcd/etcd.h"

namespace shoal::scheduler {
namespace {

constexpr std::uint64_t kFileBytesMax = 64 * 1024;

std::vector<std::pair<const char*, std::string*>> Fields(EtcdLogin* login) {
  return {{"ca", &login->ca},
          {"cert", &login->cert},
          {"key", &login->key},
          {"user", &login->user},
          {"password_file", &login->password_file}};
}

// False: it is no such line.
bool TakeField(const std::string& line, EtcdLogin* login) {
  for (const auto& [name, value] : Fields(login)) {
    const std::string begin = name + std::string("=");
    if (!line.starts_with(begin)) continue;
    *value = line.substr(begin.size());
    return true;
  }
  return false;
}

std::string PathIn(const std::string& directory) { return directory + "/history.etcd"; }

}  // namespace

// The prefix, then an address on each line, then lines like "ca=PATH".
Status WriteHistoryPlace(const std::string& directory, const HistoryPlace& place) {
  std::string text = place.prefix + "\n";
  for (const std::string& address : place.etcd) text += address + "\n";
  EtcdLogin login = place.login;
  for (const auto& [name, value] : Fields(&login)) {
    if (!value->empty()) text += name + ("=" + *value) + "\n";
  }
  return WriteFileAtomic(PathIn(directory), text);
}

Result<HistoryPlace> ReadHistoryPlace(const std::string& directory) {
  HistoryPlace place;
  std::error_code error;
  if (!std::filesystem::exists(PathIn(directory), error)) return place;
  SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(PathIn(directory), kFileBytesMax));
  std::istringstream lines(text);
  std::getline(lines, place.prefix);
  bool known = true;
  for (std::string line; std::getline(lines, line);) {
    known = known && (TakeField(line, &place.login) || net::ParseEtcdAddress(line).ok());
    if (line.starts_with("http")) place.etcd.push_back(line);
  }
  if (!known || place.prefix.empty() || place.etcd.empty()) {
    return DataLoss(PathIn(directory) +
                    " is damaged; start the run's shoal-scheduler, which "
                    "writes it anew");
  }
  return place;
}

}  // namespace shoal::scheduler
