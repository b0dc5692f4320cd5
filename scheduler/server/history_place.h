// Where the history of a run in a folder is, if not in the folder: the file `history.etcd` there
// says it to those who only know the folder. Blocks on disk.

#ifndef SHOAL_SCHEDULER_SERVER_HISTORY_PLACE_H_
#define SHOAL_SCHEDULER_SERVER_HISTORY_PLACE_H_

#include <string>
#include <vector>

#include "common/status.h"
#include "scheduler/config/run_config.h"

namespace shoal::scheduler {

struct HistoryPlace {
  std::vector<std::string> etcd;  // empty: the history is in the folder
  std::string prefix;
  EtcdLogin login = {};
};

Status WriteHistoryPlace(const std::string& directory, const HistoryPlace& place);
// Without the file: in the folder. Data loss: the file is damaged.
Result<HistoryPlace> ReadHistoryPlace(const std::string& directory);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_HISTORY_PLACE_H_
