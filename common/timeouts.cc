#include "common/timeouts.h"

#include <algorithm>
#include <string>

#include "common/units.h"

namespace shoal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Lines and machines hesitate as long in a run whose organiser is in a hurry.
constexpr Duration kPaceMin = seconds(3);

}  // namespace

Timeouts TimeoutsOf(Duration peer_timeout) {
  Timeouts t;
  t.peer_timeout = std::clamp(peer_timeout, kPeerTimeoutMin, kPeerTimeoutMax);
  // Six within the longest silence, so that their distribution tells of a loss sooner.
  t.heartbeat_interval =
      std::clamp<Duration>(t.peer_timeout / 6, milliseconds(50), milliseconds(2000));
  t.silence_least = 3 * t.heartbeat_interval;
  const Duration pace = std::max(t.peer_timeout, kPaceMin);
  t.operation_least = 2 * pace;
  t.link_silence = 10 * pace / 3;
  t.ping_interval = std::min<Duration>(t.link_silence / 10, seconds(2));
  t.link_open = 5 * pace;
  t.wait_least = 20 * pace / 3;
  t.frame_stall = 25 * pace / 3;
  t.step_stall = 10 * pace;
  t.doubt = 20 * pace;
  return t;
}

Status CheckNesting(const Timeouts& t) {
  const struct {
    const char* inner_name;
    Duration inner;
    const char* outer_name;
    Duration outer;
  } pairs[] = {
      {"two heartbeats", 2 * t.heartbeat_interval, "peer irregular", t.silence_least},
      {"peer irregular", t.silence_least, "peer silent", t.peer_timeout},
      {"peer silent", t.peer_timeout, "operation", t.operation_least},
      {"operation", t.operation_least, "link silent", t.link_silence},
      {"three pings", 3 * t.ping_interval, "link silent", t.link_silence},
      {"link silent", t.link_silence, "link open", t.link_open},
      {"link silent", t.link_silence, "neighbour's frame", t.wait_least},
      {"link open", t.link_open, "step stalled", t.step_stall},
      {"neighbour's frame", t.wait_least, "frame stalled", t.frame_stall},
      {"frame stalled", t.frame_stall, "step stalled", t.step_stall},
      {"step stalled", t.step_stall, "doubt", t.doubt},
      {"connect", kConnectTimeout, "hello", kHelloTimeout},
      {"hello", kHelloTimeout, "link open", t.link_open},
      {"keepalive", kKeepaliveEvery + kKeepaliveAnswer, "transfer stalled", kTransferStall}};
  for (const auto& [inner_name, inner, outer_name, outer] : pairs) {
    if (inner < outer) continue;
    return Internal("the timeout '" + std::string(outer_name) + "', " + FormatDuration(outer) +
                    ", must be longer than '" + inner_name + "', " + FormatDuration(inner));
  }
  return Status::Ok();
}

std::vector<TimeoutRow> TimeoutTable(const Timeouts& t) {
  return {
      {"heartbeat", t.heartbeat_interval, "between two heartbeats", "peer: tells that it lives"},
      {"peer irregular", t.silence_least, "silence of a peer with regular heartbeats, at least",
       "scheduler: the peer is lost"},
      {"peer silent", t.peer_timeout, "silence of any peer: network.peer_timeout",
       "scheduler: the peer is lost"},
      {"operation", t.operation_least, "an operation hangs, by its measured times",
       "peer: gives its stage up"},
      {"link silent", t.link_silence, "nothing over a link, pings included",
       "both ends: the link broke"},
      {"link open", t.link_open, "a link does not open", "waiting end: the link broke"},
      {"neighbour's frame", t.wait_least, "no frame, no bytes, by measured times",
       "waiting peer: blames the neighbour"},
      {"frame stalled", t.frame_stall, "a frame has begun, its rest does not come",
       "receiver: the link broke"},
      {"step stalled", t.step_stall, "nothing happens on a peer in a step",
       "peer: says what it waits for"},
      {"doubt", t.doubt, "no step, after a complaint that was not believed",
       "scheduler: makes a new plan"},
      {"connect one", kConnectOneTimeout, "an address of several does not answer",
       "caller: tries the next"},
      {"leader silent", kLeaderPingEvery + kLeaderPingAnswer,
       "a scheduler with several addresses does not answer a ping", "peer: connects to the next"},
      {"connect", kConnectTimeout, "the last address does not answer",
       "caller: pauses, then dials all again"},
      {"hello", kHelloTimeout, "a caller does not say who it is", "called: closes"},
      {"keepalive", kKeepaliveEvery + kKeepaliveAnswer, "nothing over a control connection",
       "peer: connects again"},
      {"transfer stalled", kTransferStall, "no byte of an artefact comes or goes",
       "peer: asks again"}};
}

}  // namespace shoal
