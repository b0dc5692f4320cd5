// Members: who attends a run, by key and by connection. Pure bookkeeping; thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_MEMBERS_H_
#define SHOAL_SCHEDULER_SWARM_MEMBERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/timeouts.h"
#include "proto/control.pb.h"
#include "scheduler/peers/heartbeat_watch.h"
#include "scheduler/plan/placement.h"
#include "scheduler/steps/line_rates.h"
#include "scheduler/swarm/swarm_state.h"

namespace shoal::scheduler {

struct Member {
  PeerId peer;
  std::uint64_t joined = 0;  // order of the first hello
  std::string name, device, address, state, status_json;
  std::vector<std::string> addresses;  // host:port, best first; relays last
  bool addresses_new = false;          // they are not those of the newest plan, nor told since
  TimePoint addresses_told{};          // to its neighbours, beside a plan
  std::string mapped_address;          // the one of them that its router leads there
  std::uint32_t listen_port = 0;
  std::uint64_t memory_bytes = 0;
  LineRate line;
  bool wants_stage = true;
  std::string going;               // why it hands its stage over
  std::string quarantine;          // why it gets no stage; empty: it may
  std::string save_error;          // of its last checkpoint; empty: it was saved
  std::uint32_t saves_failed = 0;  // in a row
  bool connected = false;
  ConnectionId connection = 0;  // while connected
  TimePoint last_heard{};
  HeartbeatWatch watch;                    // of this connection
  std::int32_t pipeline = -1, stage = -1;  // in the newest plan
  struct Preparation {
    std::optional<std::uint32_t> stage;  // it was asked to prepare
    bool ready = false;                  // and has
    TimePoint not_before{};              // to ask it again
    TimePoint asked{};
  };
  Preparation preparation;                  // of this connection
  std::uint32_t shadow_losses = 0;          // that it went as a shadow, since it was in step
  bool told_plan = false;                   // the newest, on this connection
  bool follows = false;                     // as a shadow of the newest plan, on this connection
  std::optional<std::uint32_t> last_stage;  // that it had
  std::uint64_t state_bytes = 0, state_bytes_wanted = 0;  // of a shadow
  control::v1::Held held;  // as its hello, or the end of a generation says; generation 0: nothing

  bool placed() const { return stage >= 0; }
  // May have a stage, or keep it.
  bool may_host() const { return wants_stage && quarantine.empty(); }
  // May be given one now.
  bool candidate() const { return connected && may_host(); }
  // "anna (1f00a2b3)".
  std::string Label() const;
  // "peer anna (1f00a2b3) of stage 1, pipeline 0", or "... (spare)".
  std::string LabelWithPosition() const;
  // Why the run goes on without it, or without its checkpoints.
  std::string HandsOver() const;
  std::string CannotSave() const;
};

// A connection before its hello, or a member's.
struct Connection {
  PeerId peer;
  std::string address;
  TimePoint since{};
  bool admitted = false;
};

class Members {
 public:
  void Open(ConnectionId connection, const PeerId& peer, const std::string& address, TimePoint now);
  void Close(ConnectionId connection);  // the member stays, without connection
  // Who has come or gone since the last call.
  std::set<PeerId> TakeMoved() { return std::exchange(moved_, {}); }
  Connection* FindConnection(ConnectionId connection);
  std::size_t connections() const { return connections_.size(); }

  // The member behind an admitted connection, or null.
  Member* Of(ConnectionId connection);
  Member* Find(const PeerId& peer);
  const Member* Find(const PeerId& peer) const;

  // Makes or updates the member of an open connection.
  Member* Admit(ConnectionId connection, const control::v1::Hello& hello, TimePoint now);
  void Remove(const PeerId& peer);
  // The last to get a position from now on.
  void MoveToBack(const PeerId& peer);

  // Writes the positions of a plan to its members.
  void SetPositions(const PlacementPlan& plan);
  // Connected members that want a stage.
  std::vector<PlacementPeer> Candidates() const;
  std::size_t candidates() const;
  std::size_t connected() const;

  // Connections that said nothing for too long: before their hello, or as their heartbeats allow.
  std::vector<ConnectionId> Silent(TimePoint now, const Timeouts& timeouts) const;
  // Forgets members without position that are away for longer than `limit`, and those of them that
  // were heard first if there are more than `most`; returns them.
  std::vector<PeerId> ForgetAway(TimePoint now, Duration limit, std::size_t most);
  // Keeps the status that a member says, for as long as it is connected. One without a position is
  // shown without if such have `most` bytes in all.
  void KeepStatus(Member* member, std::string status, std::size_t most);
  // Where the member's router leads a port to it; empty: nowhere. Behind its other addresses,
  // before relays. What is no host:port, or is known, changes nothing else.
  static void KeepMapped(Member* member, const std::string& address);
  // What a heartbeat says of its addresses; none: nothing new.
  static void KeepAddresses(Member* member, const control::v1::Heartbeat& heartbeat);
  // A plan names all of them.
  void AddressesPlanned();

  const std::map<PeerId, Member>& all() const { return members_; }
  std::vector<const Member*> Everybody() const;

 private:
  std::map<PeerId, Member> members_;
  std::map<ConnectionId, Connection> connections_;
  std::set<PeerId> moved_;
  std::uint64_t joined_ = 0;
  std::size_t status_bytes_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_MEMBERS_H_
