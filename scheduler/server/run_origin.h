// RunOrigin: the facts about model and data that a run's folder keeps, beside the artefacts made of
// them. With them a run continues after its model directory or data file was deleted
// (docs/STORAGE.md, "Origin").

#ifndef SHOAL_SCHEDULER_SERVER_RUN_ORIGIN_H_
#define SHOAL_SCHEDULER_SERVER_RUN_ORIGIN_H_

#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "dataset/prepared_data.h"
#include "proto/control.pb.h"

namespace shoal::scheduler {

struct RunOrigin {
  std::string model_folder;              // with config.json and the tokenizer's files
  std::vector<std::string> model_files;  // paths of these
  std::map<std::string, control::v1::ArtefactRef> artefacts;  // of the fresh model, and "data"
  dataset::DataInfo data;
};

// Keeps a copy of model_files in `directory`/origin, the record of all last. Blocks on disk.
Status KeepOrigin(const std::string& directory, const RunOrigin& origin);

// Not found: none is kept there; data loss: it is damaged. Blocks on disk.
Result<RunOrigin> ReadOrigin(const std::string& directory);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_RUN_ORIGIN_H_
