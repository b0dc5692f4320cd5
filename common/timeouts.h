// Timeouts: after how long who takes what for broken. One table, derived from one setting, the
// run's network.peer_timeout.
//
// They are nested. What sees a fault most precisely waits least, so that its message is the one
// that people read: a silent process before a silent line, that before a frame that does not come,
// that before a step that does not end. Pure. Thread: any.

#ifndef SHOAL_COMMON_TIMEOUTS_H_
#define SHOAL_COMMON_TIMEOUTS_H_

#include <vector>

#include "common/clock.h"
#include "common/status.h"

namespace shoal {

// Range and default of the setting.
inline constexpr Duration kPeerTimeoutMin = std::chrono::seconds(1);
inline constexpr Duration kPeerTimeoutMax = std::chrono::seconds(300);
inline constexpr Duration kPeerTimeoutDefault = std::chrono::seconds(6);

// These begin before a connection knows the run's setting, and are the same for all runs.
inline constexpr Duration kConnectTimeout = std::chrono::seconds(5);  // of one address
// Of one of several, the last excepted: another scheduler may lead.
inline constexpr Duration kConnectOneTimeout = std::chrono::seconds(2);
inline constexpr Duration kHelloTimeout = std::chrono::seconds(10);     // of who has connected
inline constexpr Duration kKeepaliveEvery = std::chrono::seconds(20);   // of a quiet connection
inline constexpr Duration kKeepaliveAnswer = std::chrono::seconds(20);  // then it is broken
// The same where the invite has several addresses: who leads may have changed.
inline constexpr Duration kLeaderPingEvery = std::chrono::milliseconds(1500);
inline constexpr Duration kLeaderPingAnswer = std::chrono::milliseconds(1500);
inline constexpr Duration kTransferStall = std::chrono::seconds(60);  // of artefacts

struct Timeouts {
  // Scheduler and peer.
  Duration heartbeat_interval{};  // in which a peer says that it lives
  Duration silence_least{};       // then a peer with regular heartbeats may be lost
  Duration peer_timeout{};        // then any peer is: the setting
  // A peer and its own model, codecs.
  Duration operation_least{};  // an operation may always take so long; measured times add to it
  // A peer and its neighbours.
  Duration ping_interval{};
  Duration link_silence{};  // nothing is heard, pings included
  Duration link_open{};     // dialling, or waiting to be dialled
  Duration wait_least{};    // a frame of a neighbour; measured times add to it
  Duration frame_stall{};   // a frame is under way, and no part of any comes
  Duration step_stall{};    // nothing at all happens on a peer
  // The scheduler and a step.
  Duration doubt{};  // a step that somebody calls broken, whom nobody believes
};

// What is out of the setting's range counts as its nearest end.
Timeouts TimeoutsOf(Duration peer_timeout);

// Internal, with both names, if a timeout is not longer than one that it must outlast.
Status CheckNesting(const Timeouts& timeouts);

struct TimeoutRow {
  const char* name;     // "peer silent"
  Duration value;       // in a run with these timeouts
  const char* meaning;  // what must have happened for so long
  const char* action;   // who does what then
};
// All of them and those that no setting changes, the shortest first within each part. For people.
std::vector<TimeoutRow> TimeoutTable(const Timeouts& timeouts);

}  // namespace shoal

#endif  // SHOAL_COMMON_TIMEOUTS_H_
