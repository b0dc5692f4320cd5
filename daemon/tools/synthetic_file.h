// The file of `shoald --synthetic-stage`: a stage that computes nothing, for who measures the rest.

#ifndef SHOAL_DAEMON_TOOLS_SYNTHETIC_FILE_H_
#define SHOAL_DAEMON_TOOLS_SYNTHETIC_FILE_H_

#include <string>

#include "common/status.h"
#include "model/synthetic_stage.h"

namespace shoal::daemon {

// One JSON object with all of forwardMs, backwardMs, weightMs, weightParts, change and changeDecay.
// Anything else is an invalid argument that names the file. Blocks on disk.
Result<model::SyntheticOptions> ReadSyntheticFile(const std::string& path);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TOOLS_SYNTHETIC_FILE_H_
