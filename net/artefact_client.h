// Fetching and uploading artefacts, the peer's side.

#ifndef SHOAL_NET_ARTEFACT_CLIENT_H_
#define SHOAL_NET_ARTEFACT_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/executor.h"
#include "common/status.h"
#include "net/rate_limiter.h"
#include "net/stream_count.h"

namespace grpc {
class Channel;
}

namespace shoal::net {

// What all transfers of one client share; outlives them.
struct ArtefactContext {
  Executor* executor = nullptr;
  std::shared_ptr<RateLimiter> upload;
  std::shared_ptr<RateLimiter> download;
  std::shared_ptr<StreamCount> streams;
  bool closed = false;  // executor thread only: no callback runs any more
  std::atomic<std::uint64_t> sent_wire_bytes = 0;
  std::atomic<std::uint64_t> received_wire_bytes = 0;
};

class ArtefactTransfer {
 public:
  virtual ~ArtefactTransfer() = default;
  virtual void Cancel() = 0;  // Thread: any.
};

// Both start at once; `on_done` runs on the executor, once. Thread: executor.
std::shared_ptr<ArtefactTransfer> StartFetch(std::shared_ptr<ArtefactContext> context,
                                             std::shared_ptr<grpc::Channel> channel,
                                             const std::string& hash, std::uint64_t offset,
                                             std::function<Status(std::string chunk)> on_chunk,
                                             std::function<void(Status)> on_done);
std::shared_ptr<ArtefactTransfer> StartUpload(
    std::shared_ptr<ArtefactContext> context, std::shared_ptr<grpc::Channel> channel,
    const std::string& hash, std::uint64_t size,
    std::function<Result<std::string>(std::uint64_t, std::size_t)> read,
    std::function<void(Status)> on_done);

}  // namespace shoal::net

#endif  // SHOAL_NET_ARTEFACT_CLIENT_H_
