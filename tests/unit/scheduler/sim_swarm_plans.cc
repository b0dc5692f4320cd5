// What peers check of a plan, and of the plan of a step.

#include <gtest/gtest.h>

#include "replica/methods/replica_method.h"
#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

// The peers of the pipeline that a peer is in.
std::set<std::string> PipelineOf(const control::v1::Plan& plan, const SimPeer& peer) {
  std::map<std::uint32_t, std::set<std::string>> pipelines;
  for (const auto& at : plan.positions()) pipelines[at.pipeline()].insert(at.peer());
  const std::string id(peer.id.key.begin(), peer.id.key.end());
  for (const auto& [pipeline, peers] : pipelines) {
    if (peers.contains(id)) return peers;
  }
  return {};
}

}  // namespace

// Where pipelines differ they go on whole, or not at all.
void SimSwarm::CheckWhole(const control::v1::Plan& former, const SimPeer& peer) const {
  const auto method = replica::ParseReplicaMethod(config_.replica_method);
  if (!method.ok() || !method->traits.pipelines_differ) return;
  const auto now = PipelineOf(peer.plan, peer);
  if (!peer.plan.in_place() || now.empty()) return;
  EXPECT_EQ(now, PipelineOf(former, peer)) << peer.name;
}

// Nobody has more than an equal share, or anything in a pipeline that lacks a stage, and where all
// of the run's pipelines count each has what is at home there.
void SimSwarm::CheckShares(const control::v1::StepPlan& plan, const SimPeer& peer) const {
  const auto& own = plan.pipelines(peer.pipeline).micro_batches();
  EXPECT_TRUE(own.empty() || PipelineOf(peer.plan, peer).size() == config_.stages) << peer.name;
  std::uint32_t counting = 0;
  for (const auto& each : plan.pipelines()) counting += each.micro_batches().empty() ? 0 : 1;
  if (plan.amendment() > 0) return;
  EXPECT_LT(static_cast<std::uint32_t>(own.size()) * counting, config_.micro_batches + counting);
  for (const auto& batch : own) {
    if (counting < config_.pipelines) continue;
    EXPECT_EQ(batch.global_index() % counting, own[0].global_index() % counting);
  }
}

void ExpectRightLosses(SimSwarm* swarm) {
  const RunView view = swarm->View();
  for (std::size_t t = 0; t < view.losses.size(); ++t) {
    ASSERT_DOUBLE_EQ(view.losses[t], swarm->Loss(t)) << t;
  }
}

}  // namespace shoal::scheduler
