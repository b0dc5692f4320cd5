// What a run has made, as files to take away. Blocks on disk.

#ifndef SHOAL_SCHEDULER_SERVER_RUN_EXPORT_H_
#define SHOAL_SCHEDULER_SERVER_RUN_EXPORT_H_

#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/exports/export_model.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/server/run_artefacts.h"
#include "storage/files/content_store.h"

namespace shoal::scheduler {

struct ExportRequest {
  std::string path;                                         // absolute; must not exist or be empty
  std::map<std::string, control::v1::ArtefactRef> weights;  // trained, by part name
  std::string model_card;
  model::ExportFormat format;
};

// Where the files of artefacts are that an export may read, or why one of them is not there.
using BlobPaths = std::map<storage::ContentHash, Result<std::string>>;
// Thread: store, which from then on has to keep them.
BlobPaths FindBlobs(const RunArtefacts& artefacts, const ExportRequest& request,
                    const storage::ContentStore& content);

// Writes the export: a directory in the formats that the run's first weights have, unless another
// is asked for. Gives sentences about what comes out otherwise. Takes minutes with a large model.
// Thread: any, one at a time.
Result<std::vector<std::string>> ExportRun(const RunConfig& config, const RunArtefacts& artefacts,
                                           const BlobPaths& blobs, const ExportRequest& request);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_RUN_EXPORT_H_
