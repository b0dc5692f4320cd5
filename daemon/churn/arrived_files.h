// ArrivedFiles: what the scheduler has of files of checkpoints, perhaps not all of each.

#ifndef SHOAL_DAEMON_CHURN_ARRIVED_FILES_H_
#define SHOAL_DAEMON_CHURN_ARRIVED_FILES_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace shoal::daemon {

// Thread: one at a time.
class ArrivedFiles {
 public:
  void Set(const std::string& hash, double bytes) { bytes_[hash] = bytes; }
  double BytesOf(const std::string& hash) const {
    const auto found = bytes_.find(hash);
    return found == bytes_.end() ? 0 : found->second;
  }
  // All others are pruned.
  void KeepOnly(const std::vector<control::v1::ArtefactRef>& needed) {
    std::set<std::string> hashes;
    for (const auto& file : needed) hashes.insert(file.hash());
    std::erase_if(bytes_, [&](const auto& entry) { return !hashes.contains(entry.first); });
  }

 private:
  std::map<std::string, double> bytes_;  // by hash
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_ARRIVED_FILES_H_
