// Artefacts of a run: files that peers fetch and upload, addressed by their content.

#ifndef SHOAL_SCHEDULER_HISTORY_ARTEFACT_MAP_H_
#define SHOAL_SCHEDULER_HISTORY_ARTEFACT_MAP_H_

#include <map>
#include <string>
#include <string_view>

#include "proto/control.pb.h"

namespace shoal::scheduler {

// Behind a part's name: what a run with adapters leaves as it is. Peers know it, too
// (daemon/stage_host.cc).
inline constexpr std::string_view kBaseSuffix = ".base";

using ArtefactMap = std::map<std::string, control::v1::ArtefactRef>;  // by name, or by hash

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_ARTEFACT_MAP_H_
