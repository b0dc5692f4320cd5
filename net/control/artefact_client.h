// Fetching and uploading artefacts, the peer's side.

#ifndef SHOAL_NET_CONTROL_ARTEFACT_CLIENT_H_
#define SHOAL_NET_CONTROL_ARTEFACT_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "net/base/executor_gate.h"
#include "net/pacing/rate_limiter.h"

namespace grpc {
class Channel;
}

namespace shoal::net {

class ArtefactTransfer {
 public:
  virtual ~ArtefactTransfer() = default;
  virtual void Cancel() = 0;  // Thread: any.
};

// What all transfers of one client share; outlives them.
struct ArtefactContext {
  std::shared_ptr<ExecutorGate> executor;
  std::shared_ptr<RateLimiter> upload;
  std::shared_ptr<RateLimiter> download;
  // The executor's: no callback runs once it is closed.
  bool closed = false;
  std::vector<std::weak_ptr<ArtefactTransfer>> under_way;
  std::atomic<std::uint64_t> sent_wire_bytes = 0;
  std::atomic<std::uint64_t> received_wire_bytes = 0;
  std::atomic<double> fetch_bps = 0;  // as in ControlStats
  std::atomic<double> upload_bps = 0;
};

// Both start at once; `on_done` runs on the executor, once. Thread: executor.
void StartFetch(std::shared_ptr<ArtefactContext> context, std::shared_ptr<grpc::Channel> channel,
                const std::string& hash, std::uint64_t offset,
                std::function<Status(std::string chunk)> on_chunk,
                std::function<void(Status)> on_done);
void StartUpload(std::shared_ptr<ArtefactContext> context, std::shared_ptr<grpc::Channel> channel,
                 const std::string& hash, std::uint64_t size,
                 std::function<Result<std::string>(std::uint64_t, std::size_t)> read,
                 std::function<void(Status)> on_done);
// Cancels what is under way: it ends in the background. Thread: executor.
void CloseArtefacts(ArtefactContext* context);

}  // namespace shoal::net

#endif  // SHOAL_NET_CONTROL_ARTEFACT_CLIENT_H_
