// Membership: connections and the members behind them: who is admitted, silent, on the way out or
// gone. Members only keeps the books. Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_MEMBERSHIP_H_
#define SHOAL_SCHEDULER_SWARM_MEMBERSHIP_H_

#include <string>

#include "common/status.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/run_journal.h"
#include "scheduler/swarm/swarm_plan.h"

namespace shoal::scheduler {

class Membership {
 public:
  // All outlive it. `in_place`: members may come and go between two steps.
  Membership(const RunConfig& config, RunJournal* journal, Members* members, SwarmPlan* plan,
             Lifecycle* lifecycle, bool in_place, Reaction* reaction);

  void OnConnected(const PeerConnected& event);
  void OnDisconnected(const PeerDisconnected& event);
  // Closes a connection: whoever is behind it is lost.
  void Drop(ConnectionId connection, Status reason);
  // The same, and tells its owner why.
  void OnKicked(const PeerKicked& event);
  // Drops connections that say nothing, and forgets members that are away for long.
  void DropSilent();
  // Tells members of the running generation who of those that they may link to has new addresses;
  // of each at most every kAddressesEvery.
  void TellAddresses();

  // ---- messages
  // False: it is malformed, or its connection is not open any more.
  bool MayTake(const PeerMessageReceived& event);
  // Null: the peer may not attend.
  Member* Admit(ConnectionId connection, const control::v1::Hello& hello);
  // The member that was heard. Null: no hello came before.
  Member* Heard(ConnectionId connection);
  void OnHeartbeat(Member* member, const control::v1::Heartbeat& heartbeat);
  void OnLeaving(const Member& member, const std::string& reason);
  void OnHandingOver(Member* member, const std::string& reason);

 private:
  void Refuse(ConnectionId connection, const Status& why);
  void Lost(const Member& member, const std::string& why);
  bool OthersInStep(const Member& member) const;

  const RunConfig& config_;
  RunJournal& journal_;
  const RunHistory& history_;
  Members& members_;
  SwarmPlan& plan_;
  Lifecycle& lifecycle_;
  const bool in_place_;
  Reaction& reaction_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_MEMBERSHIP_H_
