// Artefacts of a run: files that peers fetch and upload, addressed by their content.

#ifndef SHOAL_SCHEDULER_HISTORY_ARTEFACT_MAP_H_
#define SHOAL_SCHEDULER_HISTORY_ARTEFACT_MAP_H_

#include <map>
#include <string>

#include "proto/control.pb.h"

namespace shoal::scheduler {

using ArtefactMap = std::map<std::string, control::v1::ArtefactRef>;  // by name, or by hash

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_ARTEFACT_MAP_H_
