// BulkStream: one open gRPC stream of raw messages, dialled or accepted, as the link sees it.
//
// At most one Read and one Write at a time. Events come on gRPC's threads, never from within a call
// to the stream; after OnGone none comes. Nothing here blocks.

#ifndef SHOAL_NET_LINKS_BULK_STREAM_H_
#define SHOAL_NET_LINKS_BULK_STREAM_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/ids.h"
#include "common/memory/buffer.h"
#include "common/status.h"
#include "net/base/stream_count.h"
#include "net/identity/identity.h"
#include "net/links/chunk.h"

namespace grpc {
class CallbackGenericService;
}

namespace shoal::net {

inline constexpr char kExchangeMethod[] = "/shoal.bulk.v1.Bulk/Exchange";
// Header, its length, and one chunk.
inline constexpr int kBulkMessageBytesMax =
    static_cast<int>(4 + kChunkHeaderBytesMax + kChunkPayloadBytesMax);

class BulkStream;

class StreamSink {
 public:
  virtual ~StreamSink() = default;
  // Client streams: the other end has the stream.
  virtual void OnOpen(BulkStream* stream) = 0;
  // The views are valid during the call.
  virtual void OnRead(BulkStream* stream, const ByteSlices& message) = 0;
  virtual void OnWritten(BulkStream* stream) = 0;
  // The end; an accepted stream tells what it knows, a dialled one what the other end said.
  virtual void OnGone(BulkStream* stream, const Status& status) = 0;
};

class BulkStream {
 public:
  virtual ~BulkStream() = default;

  // From now on events go to `sink`. False: the stream has ended, no event will come.
  virtual bool SetSink(std::shared_ptr<StreamSink> sink) = 0;
  // `head`, then `size` bytes of `payload` (may be null) from `offset`, without copying.
  virtual void Write(std::string head, std::shared_ptr<const Buffer> payload, std::size_t offset,
                     std::size_t size) = 0;
  virtual void Read() = 0;
  // Ends the stream; accepted streams tell the other end `reason`. OnGone follows. Idempotent.
  virtual void Close(const Status& reason) = 0;
  virtual std::string address() const = 0;
  // The other end's address in digits; empty before OnOpen.
  virtual std::string peer_address() const = 0;
};

// Starts dialling `address`; OnOpen or OnGone follows.
std::shared_ptr<BulkStream> DialStream(const std::string& address, const Identity& identity,
                                       const PeerId& peer, std::shared_ptr<StreamCount> count,
                                       std::shared_ptr<StreamSink> sink);

// The gRPC service that hands accepted streams over: `accept` returns the sink of a new stream
// (which then sees every event), or null to refuse it. Thread of `accept`: gRPC's.
using AcceptStream = std::function<std::shared_ptr<StreamSink>(
    const std::shared_ptr<BulkStream>& stream, const PeerId& peer)>;
std::unique_ptr<grpc::CallbackGenericService> NewStreamService(AcceptStream accept,
                                                               std::shared_ptr<StreamCount> count);

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_BULK_STREAM_H_
