// Control: the stream of small messages between a peer and the scheduler, and the fetching and
// uploading of artefacts. All on connections of their own, so that they never queue behind tensors.

#ifndef SHOAL_NET_CONTROL_CONTROL_H_
#define SHOAL_NET_CONTROL_CONTROL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/executor.h"
#include "common/ids.h"
#include "common/status.h"
#include "net/admission/connection_book.h"
#include "net/identity/identity.h"
#include "net/identity/tls.h"
#include "net/relay/relay_state.h"
#include "proto/control.pb.h"

namespace shoal::net {

// Grows when a message changes its meaning; both ends must have the same.
inline constexpr std::uint32_t kProtocolVersion = 16;
// Of a scheduler; more are turned away.
inline constexpr std::size_t kControlConnectionsMax = 4096;

using ConnectionId = std::uint64_t;

struct ControlStats {
  std::uint64_t sent_wire_bytes = 0;
  std::uint64_t received_wire_bytes = 0;
  std::uint64_t artefact_sent_bytes = 0;  // of these totals
  std::uint64_t artefact_received_bytes = 0;
  // Of the last artefact of five megabytes or more, within our caps; 0: there was none yet.
  double fetch_bps = 0;
  double upload_bps = 0;
};

// ---- scheduler side ----

// Key and invite are those of the TLS certificate; invite 0: it has no ticket.
struct ControlCaller {
  PeerId peer;
  InviteId invite;
  std::string address;  // empty: it came by a relay
};

struct ControlServerHandlers {
  // Thread: executor.
  std::function<void(ConnectionId, const ControlCaller& caller)> on_connect;
  std::function<void(ConnectionId, control::v1::PeerMessage)> on_message;
  std::function<void(ConnectionId, Status)> on_disconnect;
  // Artefacts; run on `blocking` (may read disk). `peer` may fetch only if it is a member.
  std::function<bool(PeerId peer)> may_fetch;
  std::function<Result<std::string>(const std::string& hash, std::uint64_t offset,
                                    std::size_t size)>
      read_artefact;
  std::function<Result<std::uint64_t>(PeerId peer, const std::string& hash, std::uint64_t size)>
      upload_offset;
  std::function<Result<std::uint64_t>(PeerId peer, const std::string& hash, std::uint64_t size,
                                      std::uint64_t offset, const std::string& data)>
      write_artefact;
};

struct ControlServerOptions {
  std::string listen = "0.0.0.0:8781";  // host:port, port 0: any free one
  std::shared_ptr<const Identity> identity;
  Admission admission;  // who is not admitted stops at TLS
  // Those that are relays': the server registers there, so that peers reach it by them.
  std::vector<std::string> relays;
  ConnectionLimits connections{};
};

class ControlServer {
 public:
  virtual ~ControlServer() = default;      // closes all streams
  virtual std::uint16_t port() const = 0;  // Thread: any.
  // Queues a message; a peer that does not read is disconnected. Thread: executor.
  virtual void Send(ConnectionId connection, control::v1::SchedulerMessage message) = 0;
  // Lets what is queued leave first. Thread: executor.
  virtual void Disconnect(ConnectionId connection, Status reason) = 0;
  virtual ControlStats stats() const = 0;                        // Thread: any.
  virtual std::vector<RelayState> relays() const { return {}; }  // Thread: any.
};

Result<std::unique_ptr<ControlServer>> NewControlServer(const ControlServerOptions& options,
                                                        Executor* executor, Executor* blocking,
                                                        ControlServerHandlers handlers);

// ---- peer side ----

struct ControlClientHandlers {
  std::function<void()> on_open;
  std::function<void(control::v1::SchedulerMessage)> on_message;
  std::function<void(Status)> on_closed;  // once; dial again by a new client
};

struct ControlClientOptions {
  std::vector<std::string> addresses;  // host:port, or of relays; tried in order
  PeerId scheduler;                    // pinned key
  std::shared_ptr<const Identity> identity;
  std::string join_secret;   // from the invite
  bool tries_again = false;  // attempts before have warned of addresses that do not answer
};

// Caps shared with the links; see rate_limiter.h.
class RateLimiter;

class ControlClient {
 public:
  virtual ~ControlClient() = default;
  virtual Status Send(control::v1::PeerMessage message) = 0;  // Thread: executor.
  // The one of the options that was dialled last; empty: none yet. Thread: executor.
  virtual std::string address() const = 0;

  // Fetches from `offset`; on_chunk runs on `executor` in order and may refuse; on_done once.
  // Paced by `limiter`.
  virtual void Fetch(const std::string& hash, std::uint64_t offset,
                     std::function<Status(std::string chunk)> on_chunk,
                     std::function<void(Status)> on_done) = 0;
  // Uploads a blob that `read` serves (offset, size) on `executor`; resumes where the other side
  // stopped.
  virtual void Upload(const std::string& hash, std::uint64_t size,
                      std::function<Result<std::string>(std::uint64_t, std::size_t)> read,
                      std::function<void(Status)> on_done) = 0;
  virtual ControlStats stats() const = 0;  // Thread: any.
};

std::unique_ptr<ControlClient> NewControlClient(const ControlClientOptions& options,
                                                Executor* executor,
                                                std::shared_ptr<RateLimiter> upload,
                                                std::shared_ptr<RateLimiter> download,
                                                ControlClientHandlers handlers);

}  // namespace shoal::net

#endif  // SHOAL_NET_CONTROL_CONTROL_H_
