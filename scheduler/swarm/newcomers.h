// Newcomers: members without a position on their way into the plan, while the others train.
//
// One is asked to prepare a stage that has fewer members than the run wants pipelines: it fetches
// and loads what never changes. When whole pipelines can be made of those that are ready, or a
// stage with few copies gets another (regroup.h), the generation ends with a step, and the next
// plan has them as shadows. A shadow gets its stage's state from its group, tells when it has all
// of it, and is in step when the checksum of its weights after a further step is that of its group.
// Only with replica methods that keep nothing else (MethodTraits::follows_steps). Where pipelines
// differ, members for a further one wait for the next checkpoint, which is made for them at once.
// Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_NEWCOMERS_H_
#define SHOAL_SCHEDULER_SWARM_NEWCOMERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/history/artefact_map.h"
#include "scheduler/plan/regroup.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/swarm_plan.h"

namespace shoal::scheduler {

class Newcomers {
 public:
  struct Verdict {
    const Member* shadow = nullptr;
    bool in_step = false;  // else its weights are not those of its group
  };

  // All outlive it.
  Newcomers(const RunConfig& config, const ArtefactMap& initial, Members* members, SwarmPlan* plan,
            Lifecycle* lifecycle, Reaction* reaction);

  // Whether members may come and go in place, by the replica method.
  bool possible() const { return possible_; }
  // From time to time, and when somebody is ready.
  void Look();
  // Of the newest plan. In place: who is ready stays it.
  void BeginGeneration(bool in_place);

  void OnPrepared(Member* member, const control::v1::Prepared& prepared);
  // It had all after so many applied steps. True: the members' checksums of the next step tell
  // whether it is in step.
  bool OnCaughtUp(const Member& member, std::uint64_t steps);
  // A member's weights after a step.
  void OnChecksum(const Member& member, std::uint64_t step, std::uint64_t checksum);
  // Of a shadow that can be compared with its group, each once; nothing: there is none.
  std::optional<Verdict> Judge();
  // A shadow has caught up, and is to be judged after the step in progress.
  bool AwaitsVerdict() const;

  // Whom a plan in place can have beside those that hold their stage.
  std::vector<BoundPeer> Ready() const;

 private:
  struct Checksum {
    std::uint64_t step = 0, sum = 0;
  };
  bool IsFree(const Member& member) const;
  // Members of each stage in the plan, and those that prepare it.
  std::vector<std::size_t> MembersByStage() const;
  std::optional<std::uint32_t> StageFor(const Member& member,
                                        const std::vector<std::size_t>& counts) const;
  void AskToPrepare();
  enum class Change : std::uint8_t { kNone, kPipeline, kCopies };
  Change NextChange() const;
  bool EnoughForOneMore() const;

  const RunConfig& config_;
  const ArtefactMap& initial_;
  Members& members_;
  SwarmPlan& plan_;
  Lifecycle& lifecycle_;
  Reaction& reaction_;
  const bool possible_;

  std::map<PeerId, std::uint64_t> caught_up_;  // shadows: steps applied when they had all
  std::map<PeerId, Checksum> unjudged_;        // of these, the newest
  // Of the groups, by step, then stage.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> known_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_NEWCOMERS_H_
