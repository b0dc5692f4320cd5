// The Artefacts service of the scheduler: serves blobs in chunks, takes uploads. What the handlers
// read and write happens on `blocking`; gRPC's threads only pass messages.

#ifndef SHOAL_NET_CONTROL_ARTEFACT_SERVICE_H_
#define SHOAL_NET_CONTROL_ARTEFACT_SERVICE_H_

#include <atomic>
#include <memory>

#include "common/executor.h"
#include "net/admission/connection_gate.h"
#include "net/base/task_gate.h"
#include "net/control/control.h"

namespace grpc {
class Service;
}

namespace shoal::net {

struct ArtefactBackend {
  ControlServerHandlers handlers;  // only those of artefacts are used
  Executor* blocking = nullptr;
  TaskGate gate;  // closed before the owner goes
  std::shared_ptr<ConnectionGate> connections;
  std::atomic<std::uint64_t> sent_wire_bytes = 0;
  std::atomic<std::uint64_t> received_wire_bytes = 0;
};

std::unique_ptr<grpc::Service> NewArtefactService(std::shared_ptr<ArtefactBackend> backend);

}  // namespace shoal::net

#endif  // SHOAL_NET_CONTROL_ARTEFACT_SERVICE_H_
