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
  return {{"heartbeat", t.heartbeat_interval, "between two heartbeats",
           "the peer tells the scheduler that it lives"},
          {"peer irregular", t.silence_least, "no heartbeat of a peer whose heartbeats are regular",
           "at the earliest: the scheduler takes the peer for lost"},
          {"peer silent", t.peer_timeout, "no heartbeat of any peer (network.peer_timeout)",
           "at the latest: the scheduler takes the peer for lost"},
          {"operation", t.operation_least,
           "an operation of a peer's model or codec, and longer than its measured times explain",
           "the peer gives its stage up and says which operation"},
          {"link silent", t.link_silence, "nothing comes over a link, not even answers to pings",
           "both ends report the link to the scheduler"},
          {"link open", t.link_open, "a link does not open",
           "the waiting end reports it to the scheduler"},
          {"neighbour's frame", t.wait_least,
           "no activation or gradient comes, nor bytes, and longer than measured times explain",
           "the waiting peer reports the neighbour, and the scheduler judges"},
          {"frame stalled", t.frame_stall, "a frame has begun, and no further part comes",
           "the receiver reports the link to the scheduler"},
          {"step stalled", t.step_stall, "nothing at all happens on a peer within a step",
           "the peer reports what it waits for"},
          {"doubt", t.doubt, "a step does not end that a peer called broken, whom nobody believed",
           "the scheduler makes a new plan"},
          {"connect", kConnectTimeout, "an address does not answer", "the next address is tried"},
          {"hello", kHelloTimeout, "who has connected does not say who it is",
           "the connection is closed"},
          {"keepalive", kKeepaliveEvery + kKeepaliveAnswer,
           "nothing comes over a control connection, not even answers to pings",
           "the peer connects again"},
          {"transfer stalled", kTransferStall, "no byte of an artefact comes or goes",
           "the peer asks again"}};
}

}  // namespace shoal
