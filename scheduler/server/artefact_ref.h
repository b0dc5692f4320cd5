// References to artefacts, from messages of peers that were checked. Pure. Thread: any.

#ifndef SHOAL_SCHEDULER_SERVER_ARTEFACT_REF_H_
#define SHOAL_SCHEDULER_SERVER_ARTEFACT_REF_H_

#include "proto/control.pb.h"
#include "storage/files/content_store.h"

namespace shoal::scheduler {

storage::ArtefactRef FromProto(const control::v1::ArtefactRef& proto);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_ARTEFACT_REF_H_
