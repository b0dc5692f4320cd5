// Member: what the replica exchange knows of the peer that it runs on, a member of a stage group.
// Thread: control.

#ifndef SHOAL_REPLICA_MEMBER_H_
#define SHOAL_REPLICA_MEMBER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/executor.h"
#include "common/ids.h"
#include "common/status.h"
#include "compression/api/value_home.h"
#include "model/stage_model.h"
#include "replica/step_types.h"

namespace shoal::replica {

// Where the peer stands, and what the run does. Constant for a generation.
struct MemberConfig {
  std::uint64_t steps = 0;  // of the run
  std::uint64_t seed = 0;   // of the run, for rounding and dither; the same on all peers
  std::uint64_t generation = 0;
  std::uint32_t stage = 0, stages = 1;
  std::uint32_t pipeline = 0, pipelines = 1;
  // Stages that hold tensors of this one, too, and itself, in order (model::SharingStages); empty:
  // none.
  std::vector<std::uint32_t> sharing;
  // Numbers of the LANs, by member of the stage group and of the group of shared tensors, where the
  // plan names some: 0 shares one with nobody. Else empty.
  std::vector<std::uint32_t> lans, shared_lans;
  // Of gradients that are exchanged apart from others, while the backward goes on with those.
  std::uint64_t bucket_values_min = std::uint64_t{1} << 20;
  std::uint64_t resume_step = 0;  // steps applied before the generation
};

class ErrorKeeper;

struct Member {
  bool first_stage() const { return config.stage == 0; }

  MemberConfig config;
  // All outlive the member; model and control also what was posted to the other executors.
  Executor* control = nullptr;
  Executor* compute = nullptr;
  Executor* codec = nullptr;
  model::StageModel* model = nullptr;  // compute thread only
  // Where the model's values lie (StageModel::values_memory).
  std::shared_ptr<const compression::ValueHome> home = compression::HostValues();
  ErrorKeeper* errors = nullptr;  // of earlier generations; null: there are none
  ReplicaStats stats = {};
  // Of the reductions of the stage group and of shared tensors, by member; empty: equal ones.
  // They change between steps only.
  std::vector<double> group_shares = {}, shared_shares = {};
  // Pipelines that have micro-batches in the running step, rising; empty: all.
  std::vector<std::uint32_t> counting = {};
  std::uint32_t amendment = 0;  // of the running step's plan: how often it was dealt out again
  // Of this peer's gradients in the running step; shared, because tasks outlive the member.
  std::shared_ptr<GradientMark> mark = std::make_shared<GradientMark>();

  // Something came or was done, so that the watchdog waits again.
  std::function<void()> progress = [] {};
  // Compute works on an operation of this pass from now on; null: it waits for the exchange.
  std::function<void(std::optional<model::Pass>)> computing = [](std::optional<model::Pass>) {};
  // The link to a peer broke. True: it may leave, and the generation goes on.
  std::function<bool(const Status&, const PeerId&)> lost = [](const Status&, const PeerId&) {
    return false;
  };
  // Ends the generation; only the first call counts. `peer` may be null.
  std::function<void(Status, const PeerId*)> fail = {};
  // Whether the generation has ended: what still arrives counts for nothing.
  std::function<bool()> ended = [] { return false; };
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_MEMBER_H_
