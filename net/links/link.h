// Link: one bidirectional bulk stream of frames to another peer. LinkHub: a peer's listening port,
// its outgoing links, and the caps that all of them share.
//
// Frames arrive whole, checked (sizes, checksum) and on the executor given to the hub, in order per
// direction and kind priority, but that earlier micro-batches overtake later ones. Chunks of a more
// urgent frame (gradients before activations) overtake those of a less urgent one. Nothing here
// blocks.

#ifndef SHOAL_NET_LINKS_LINK_H_
#define SHOAL_NET_LINKS_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/ids.h"
#include "common/status.h"
#include "common/timeouts.h"
#include "common/units.h"
#include "net/links/frame.h"
#include "net/mapping/port_mapper.h"
#include "net/relay/relay_state.h"

namespace shoal::net {

struct LinkStats {
  PeerId peer;
  std::string channel;
  std::string address;  // of the other end, as dialled or accepted; "relay host:port"
  std::string path;     // lan, direct, punched or relay; empty: not connected
  bool connected = false;
  std::uint64_t sent_wire_bytes = 0;      // as the sockets count them: payload, headers, framing,
  std::uint64_t received_wire_bytes = 0;  // TLS records
  std::uint64_t sent_frames = 0;
  std::uint64_t received_frames = 0;
  std::uint64_t queued_bytes = 0;  // accepted by Send, not yet written
  double rtt_ms = 0;               // last ping; 0: not measured yet
  double rtt_min_ms = 0;           // of all pings; the first kFirstPings meet an idle link
  std::uint32_t pings = 0;         // that were answered
  double stall_rate_limit_ms = 0;  // a frame waited because of our cap
  std::uint32_t connections = 0;
  double stall_network_ms = 0;  // a frame waited for the network or the other end
  double send_bps = 0;          // over the last seconds
  double receive_bps = 0;
};

// Pings in a row when a link opens.
inline constexpr std::uint32_t kFirstPings = 8;

struct LinkHandlers {
  std::function<void()> on_open;  // both ends accepted
  std::function<void(Frame)> on_frame;
  std::function<void(Status)> on_closed;  // once; never OK unless Close was called
  // A frame's last byte was handed to the network; elapsed since Send, milliseconds.
  std::function<void(FrameKind, MicroBatchId, double elapsed_ms)> on_sent;
};

class Link {
 public:
  virtual ~Link() = default;  // closes; no handler runs afterwards. Thread: the hub's executor.

  // Queues a frame. Resource exhausted over the queue limit: the caller has lost count of its
  // in-flight micro-batches, or the other end does not read. Thread: the hub's executor.
  virtual Status Send(Frame frame) = 0;
  virtual LinkStats stats() const = 0;  // Thread: any.
};

struct LinkTarget {
  PeerId peer;
  // host:port, nearest first, and of relays (net/relay/relay_address.h); dialled a moment apart,
  // again and again. The first that answers counts.
  std::vector<std::string> addresses;
  RunId run;
  std::uint64_t generation = 0;
  std::string channel;  // equal on both ends, e.g. "boundary/0/1"
};

struct LinkLimits {
  std::uint64_t frame_bytes_max = 1ull << 30;
  std::uint64_t queue_bytes_max = 1ull << 31;
  // Frames of all links of which a part is here, at their full size; 0: half of the machine's
  // memory. Never less than frame_bytes_max.
  std::uint64_t unfinished_bytes_max = 0;
  std::uint32_t chunk_bytes = 256 * 1024;
  // Connections that a link has in any case, opened one a second, and those it may have where the
  // network holds it back. 1 to 4.
  std::uint32_t connections_first = 1;
  std::uint32_t connections_max = 4;
  // So long after a link has opened, and then less and less often, it is tried whether a better way
  // to the other end than its own is there by now. Zero: never.
  Duration better_after = std::chrono::seconds(20);
  // The same where a link opened through a relay, once, at the end that dials at once.
  Duration relayed_better_after = std::chrono::seconds(1);
  Timeouts timeouts = TimeoutsOf(kPeerTimeoutDefault);
};

class LinkHub {
 public:
  virtual ~LinkHub() = default;

  // For the end with the lower position in the plan, and the one with the higher. Both wait to be
  // dialled by target.peer; the lower one dials at once, the higher one, if it knows addresses,
  // when it was not dialled for a moment. So one of the two need be reachable, and where a relay
  // is, none. The link exists at once; on_open or on_closed follows. Thread: executor.
  virtual std::unique_ptr<Link> Dial(const LinkTarget& target, LinkHandlers handlers) = 0;
  virtual std::unique_ptr<Link> Accept(const LinkTarget& target, LinkHandlers handlers) = 0;

  // The peers of the current plan. Nobody else gets further than the TLS handshake, except who is
  // expected by Accept. Replaces those before; a connection that is open stays. Thread: executor.
  virtual void Admit(const std::vector<PeerId>&) {}

  // Links with `peer` dial these from now on, also to find a better way than the one they have.
  // Thread: executor.
  virtual void UseAddresses(const PeerId& /*peer*/, const std::vector<std::string>& /*addresses*/) {
  }

  // Keeps this peer reachable through those of `addresses` that are relays', in place of those
  // before. Thread: executor.
  virtual void UseRelays(const std::vector<std::string>&) {}
  virtual std::vector<RelayState> relays() const { return {}; }
  // This machine has other addresses than before. Thread: executor.
  virtual void NetworkChanged() {}
  // What the home's router leads here from outside. Thread: any.
  virtual PortMapping mapping() const { return {}; }

  // Of links that are made from now on. Thread: executor.
  virtual void SetTimeouts(const Timeouts&) {}

  // Live caps over all links and artefact transfers; 0: none. Thread: any.
  virtual void SetCaps(BitsPerSecond upload, BitsPerSecond download) = 0;
  virtual BitsPerSecond upload_cap() const = 0;
  virtual BitsPerSecond download_cap() const = 0;
  // What the line out of here was measured to take, and what uploads keep to so that it is not
  // exceeded; 0: not known, or not looked for. Thread: any.
  virtual BitsPerSecond upload_line() const { return {}; }
  virtual BitsPerSecond upload_pace() const { return {}; }
  virtual std::uint16_t port() const = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_LINK_H_
