#include "scheduler/server/history_place.h"

#include <filesystem>
#include <sstream>
#include <system_error>

#include "common/file.h"

namespace shoal::scheduler {
namespace {

constexpr std::uint64_t kFileBytesMax = 64 * 1024;

std::string PathIn(const std::string& directory) { return directory + "/history.etcd"; }

}  // namespace

// The prefix, then an address on each line.
Status WriteHistoryPlace(const std::string& directory, const HistoryPlace& place) {
  std::string text = place.prefix + "\n";
  for (const std::string& address : place.etcd) text += address + "\n";
  return WriteFileAtomic(PathIn(directory), text);
}

Result<HistoryPlace> ReadHistoryPlace(const std::string& directory) {
  HistoryPlace place;
  std::error_code error;
  if (!std::filesystem::exists(PathIn(directory), error)) return place;
  SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(PathIn(directory), kFileBytesMax));
  std::istringstream lines(text);
  std::getline(lines, place.prefix);
  for (std::string line; std::getline(lines, line);) place.etcd.push_back(line);
  if (place.prefix.empty() || place.etcd.empty()) {
    return DataLoss(PathIn(directory) +
                    " is damaged; start the run's shoal-scheduler, which "
                    "writes it anew");
  }
  return place;
}

}  // namespace shoal::scheduler
