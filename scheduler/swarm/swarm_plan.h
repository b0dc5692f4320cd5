// SwarmPlan: the newest plan of a run: who hosts what, which of them share a LAN, and who is ready.
// Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_SWARM_PLAN_H_
#define SHOAL_SCHEDULER_SWARM_SWARM_PLAN_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/config/run_config.h"
#include "scheduler/plan/lan_plan.h"
#include "scheduler/plan/placement.h"
#include "scheduler/plan/regroup.h"
#include "scheduler/swarm/members.h"

namespace shoal::scheduler {

class SwarmPlan {
 public:
  // Both outlive it.
  SwarmPlan(const RunConfig& config, Members* members);

  // Whether a pipeline that is whole may go on without the others, and nobody else can
  // (MethodTraits::pipelines_differ).
  bool pipelines_differ() const { return pipelines_differ_; }
  // Whether the run may go on with fewer pipelines than it wants, by the replica method.
  bool may_shrink() const { return may_shrink_; }
  // Members that a plan of all of the run's pipelines places.
  std::uint32_t needed() const { return config_.stages * config_.pipelines; }
  // Pipelines of the newest plan, and the positions in it that somebody has.
  std::uint32_t pipelines() const { return static_cast<std::uint32_t>(positions_.size()); }
  std::size_t placed() const;
  // Pipelines of it that have no gap (regroup.h).
  std::uint32_t whole() const;
  // Pipeline and stage of the positions that nobody has.
  const std::set<Position>& gaps() const { return gaps_; }
  bool HasGap(std::uint32_t pipeline) const;
  // A plan of so many pipelines for the members that are here; they keep their positions where they
  // can. Nothing: they are too few, or have too little memory.
  std::optional<PlacementPlan> Propose(std::uint32_t pipelines);
  // Where only a checkpoint lets a further pipeline in: whether so many could train by now, unless
  // some that were to did not.
  bool MayGrowTo(std::uint32_t pipelines, TimePoint now);
  // As many as may train: all of the run's, or for a while as many as did last.
  std::uint32_t MostPipelines(TimePoint now) const;
  // The newest plan trains; its generation has ended.
  void Trains();
  void Ended(TimePoint now);
  // Whether memory was too little when there were enough members last.
  bool too_little_memory() const { return too_little_memory_; }
  // The newest plan from now on. Nobody is ready. `shadows`: who is not in step.
  void Adopt(PlacementPlan positions, std::set<PeerId> shadows = {});

  // Where the newest plan has the peer; nothing: nowhere.
  std::optional<Position> PositionOf(const PeerId& peer) const;
  // Whoever has the position leaves the plan, whose others go on: it is a gap.
  void Lose(const Position& position);

  bool IsShadow(const PeerId& peer) const { return shadows_.contains(peer); }
  const std::set<PeerId>& shadows() const { return shadows_; }
  void MarkInStep(const PeerId& peer) { shadows_.erase(peer); }
  // Members of a stage that are in step.
  std::size_t InStep(std::uint32_t stage) const;
  // Pipelines that have no gap, whose members are all in step; in order.
  std::vector<std::uint32_t> Counting() const;

  const PlacementPlan& positions() const { return positions_; }
  const PlanLans& lans() const { return lans_; }
  // The member that hosts a stage; null: the plan, if there is one, has nobody known there.
  Member* At(std::uint32_t pipeline, std::uint32_t stage);
  const Member* At(std::uint32_t pipeline, std::uint32_t stage) const;
  // All of them, by pipeline, then stage.
  std::vector<const Member*> Hosts() const;
  // Those of some pipelines, for people.
  std::string NamesOf(std::uint32_t stage, const std::vector<std::uint32_t>& pipelines) const;
  // Whether the plan has a link between two of its members: to the stage before or after in a
  // pipeline without a gap, in the stage group, or between stages that share tensors.
  bool Linked(const Member& a, const Member& b) const;
  // The same, and those that a check of outputs may give two of its members.
  bool MayLink(const Member& a, const Member& b) const;

  // Whether the members that are here without this one are enough for a plan.
  bool SpareCouldReplace(const Member& member) const;
  // The next plan gives the member's position to another one, if there is any.
  void GiveUpPosition(const Member& member);

  // A member has its layers and links, and measured round trips.
  void AddReady(const Member& member, const control::v1::PlanReady& ready);
  std::size_t ready() const { return ready_.size(); }
  // Whether the plan, by what was measured, has other LANs than it says. A plan that was made
  // because of that keeps its LANs: what is measured differently then counts for the next.
  bool LansMoved() const;
  // The next plan is made because of that.
  void PlanAgainForLans() { lans_final_next_ = true; }
  // The peer may be elsewhere, or is gone.
  void ForgetRoundTrips(const PeerId& peer) { round_trips_.Forget(peer); }

 private:
  PlacementRun Run(std::uint32_t pipelines) const {
    return {config_.stages, pipelines, config_.stage_bytes};
  }

  const RunConfig& config_;
  Members& members_;
  const bool pipelines_differ_, may_shrink_;
  PlacementPlan positions_;
  std::set<PeerId> shadows_;
  std::set<Position> gaps_;
  RoundTripBook round_trips_;
  PlanLans lans_;  // of positions_
  bool lans_final_ = false, lans_final_next_ = false;
  bool too_little_memory_ = false;
  bool trains_ = false;
  std::uint32_t trained_ = 0;  // pipelines, last; 0: none did
  TimePoint grow_not_before_{};
  Duration grow_wait_{};
  std::set<PeerId> ready_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_SWARM_PLAN_H_
