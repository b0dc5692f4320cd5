// SwarmArtefacts: the files that a run hands out. Where the server has no whole copy of one, peers
// are asked for theirs, and no plan is made before all are here. Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_SWARM_ARTEFACTS_H_
#define SHOAL_SCHEDULER_SWARM_SWARM_ARTEFACTS_H_

#include <string>
#include <vector>

#include "scheduler/history/artefact_map.h"
#include "scheduler/history/lost_artefacts.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/run_journal.h"
#include "scheduler/swarm/swarm_plan.h"

namespace shoal::scheduler {

class SwarmArtefacts {
 public:
  // `initial`: of the fresh model by part name, and "data". All outlive it.
  SwarmArtefacts(const ArtefactMap& initial, const Members& members, const SwarmPlan& plan,
                 RunJournal* journal, Lifecycle* lifecycle, Reaction* reaction);

  const ArtefactMap& initial() const { return initial_; }
  // Of the newest complete checkpoint by name, or of the initial model.
  ArtefactMap Weights() const;

  // The server has no whole copy of these (raw hashes) any more.
  void OnLost(const std::vector<std::string>& hashes);
  // One is whole again.
  void OnFound(const std::string& hash);
  // What is lost is wanted of this member, too.
  void AskFor(const Member& member);
  // A member has uploaded all it has of what is lost.
  void OnOffered(const Member& member) { lost_.Offered(member.peer); }

  // Whether peers can fetch all that a plan names. Goes back to the checkpoint before where nobody
  // has what the newest lost.
  bool MakeWhole();
  // What is lost, and what to do about it, for people; empty: nothing is lost.
  std::string LostText() const;

 private:
  ArtefactMap NeededByHash() const;
  void Want(const ArtefactMap& by_hash);
  bool NobodyElseToAsk() const;
  std::string Describe() const;

  const ArtefactMap& initial_;
  const Members& members_;
  const SwarmPlan& plan_;
  RunJournal& journal_;
  const RunHistory& history_;
  Lifecycle& lifecycle_;
  Reaction& reaction_;
  LostArtefacts lost_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_SWARM_ARTEFACTS_H_
