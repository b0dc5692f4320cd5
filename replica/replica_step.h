// ReplicaStep: the work of a stage group between the end of a step's micro-batches and its Apply.
// Afterwards all members have the same parameters. One implementation per kind of method
// (replica/methods/replica_method.h).
//
// It is part of the step's transaction: until Apply the stage's weights and moments are unchanged,
// and destroying the object aborts. What a method keeps between steps and members share (factors,
// levels) belongs to a generation: all begin anew. What a member has not sent (error feedback) is
// its own, and goes on where it keeps its stage (error_keeper.h).

#ifndef SHOAL_REPLICA_REPLICA_STEP_H_
#define SHOAL_REPLICA_REPLICA_STEP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "common/task_scope.h"
#include "compression/api/value_home.h"
#include "model/stage_model.h"
#include "optimizer/adamw.h"
#include "optimizer/adamw_shard.h"
#include "replica/collective/exchange.h"
#include "replica/collective/group_channel.h"
#include "replica/group_links.h"
#include "replica/member.h"
#include "replica/methods/replica_method.h"
#include "replica/operation_gate.h"

namespace shoal::replica {

// Values of a stage that one group agrees on, as a vector of their own: all, all but the tensors
// that other stages hold, too, or these alone. Their group has a member per pipeline and stage.
struct ParameterGroup {
  struct Range {
    std::size_t first = 0, values = 0;  // of the stage's flat vectors
  };
  std::vector<Range> ranges;                 // in order
  std::vector<model::TensorLayout> tensors;  // offsets in the part's vector
  std::size_t values = 0;
  std::uint32_t copies = 1;  // members per pipeline, whose gradients add up
  collective::GroupChannel* channel = nullptr;

  bool shared() const { return copies > 1; }
};

// The parts that have a group, the stage group's first; shared, because tasks outlive a step's
// owner. `links` outlives their use on control.
using ParameterGroups = std::vector<std::shared_ptr<const ParameterGroup>>;
// `alone`: a stage without a group agrees on its own part with itself. Null links: it has none.
ParameterGroups MakeParameterGroups(const GroupLinks* links, bool alone,
                                    const std::vector<model::TensorLayout>& layout,
                                    const std::vector<model::TensorLayout>& shared);
// The part of some tensors, in the order of the stage's flat vectors.
std::shared_ptr<const ParameterGroup> MakeParameterGroup(
    const std::vector<model::TensorLayout>& tensors, collective::GroupChannel* channel,
    std::uint32_t copies);
// The tensors of `part` that `wanted` takes, as a part of their own with the same group.
std::shared_ptr<const ParameterGroup> Select(
    const ParameterGroup& part, const std::function<bool(const model::TensorLayout&)>& wanted);

// Of a part's vector, part.values values. Thread: compute.
Status ReadParameters(model::StageModel* model, model::StateVector which,
                      const ParameterGroup& part, std::span<float> values);
Status WriteParameters(model::StageModel* model, model::StateVector which,
                       const ParameterGroup& part, std::span<const float> values);
// The same of the part's values from `first` on.
Status ReadParameters(model::StageModel* model, model::StateVector which,
                      const ParameterGroup& part, std::size_t first, std::span<float> values);
Status WriteParameters(model::StageModel* model, model::StateVector which,
                       const ParameterGroup& part, std::size_t first,
                       std::span<const float> values);

// The part's gradients. Zeros, all of them, and `mark` is set, where one is not finite or has a
// magnitude above `most`. `values` lie in `home`, which is the host or the model's.
Status ReadGradients(model::StageModel* model, const ParameterGroup& part, std::span<float> values,
                     GradientMark* mark, float most = kGradientMost,
                     const compression::ValueHome& home = *compression::HostValues());
// Gradients in their place, from `home`.
Status WriteGradients(model::StageModel* model, const ParameterGroup& part,
                      std::span<const float> values, const compression::ValueHome& home);

// A buffer of `bytes` bytes: the given one if it has that size. Steps keep their buffers for the
// next step, as new pages cost more than the work in them.
inline Buffer Sized(Buffer given, std::size_t bytes) {
  return given.size() == bytes ? std::move(given) : Buffer(bytes);
}

// Which of a part's values decay: those of tensors of two dimensions and more.
std::vector<optimizer::DecayRun> DecayRunsOf(const ParameterGroup& part);

// Puts the own sums back in the place of what a group agreed on, behind what may still write that.
// `home`: where they lie. An error ends the generation.
void RestoreGradients(Member* member, TaskScope* scope,
                      const std::shared_ptr<const ParameterGroup>& part,
                      std::shared_ptr<const Buffer> own,
                      std::shared_ptr<const compression::ValueHome> home);

// Pipelines that have micro-batches in the running step, as its plan says, in order.
std::vector<std::uint32_t> PlannedPipelines(const Member& member);

// By member of the part's group: 1 where its pipeline counts, 0 elsewhere.
std::vector<std::uint64_t> GroupWeights(const ParameterGroup& part,
                                        const std::vector<std::uint32_t>& pipelines);

// "the `what` of peer ...", the first of a group's `members`, which `peer` is set to; empty, and
// `peer` as it was, if there is none. For ReplicaStep::Awaited.
std::string AwaitedText(const GroupLinks& links, const collective::GroupChannel& group,
                        const std::vector<std::size_t>& members, std::string_view what,
                        const PeerId** peer);

// What all own steps of the optimizer have in common: the run's options and the step's number.
optimizer::AdamWOptions OptimizerOptionsOf(const Member& member, std::uint64_t step);

// By which all members clip their gradients where nobody has the norm of the mean: of the root mean
// square of those of the pipelines that count. With a factor of its own each, the larger ones would
// count less than in the mean, the more so the more members there are.
double ClipOf(const Member& member, const ReduceOrder& order);

// Counts what an exchange of `values` fp32 values without a codec sends and receives. Members that
// count own the shards among themselves, by `shares` (by member; empty: equal ones).
void CountRaw(const ParameterGroup& part, const std::vector<std::uint64_t>& weights,
              std::uint64_t values, KindBytes* replica, const std::vector<double>& shares = {});

// Of the running step, for a round in which members have these weights; empty: equal ones, also
// where none of those who count has any.
std::vector<double> SharesOfGroup(const Member& member, const ParameterGroup& part,
                                  const std::vector<std::uint64_t>& weights);

// Of the exchange with this number of those that share a group: no two draw the same random
// numbers.
inline std::uint64_t SeedOf(std::uint64_t run_seed, std::size_t number) {
  return run_seed ^ (number * 0x9e3779b97f4a7c15);
}

struct GroupExchangeOptions {
  collective::GroupChannel* channel = nullptr;  // null: the part's
  Executor* compute = nullptr;                  // codes and sums; null: the model's
  std::size_t number = 0;                       // among those of its group
  std::uint64_t rounds_per_step = 1;            // the last one of step s is (s + 1) times so many
  bool reuse_memory = false;                    // collective::ExchangeConfig's
  // Where values shall lie; null: the host. What has no form elsewhere is on the host.
  std::shared_ptr<const compression::ValueHome> home = nullptr;
};
// The exchange by which `method` sums a part's vectors over its group; the channel's only user.
Result<std::unique_ptr<collective::Exchange>> NewGroupExchange(
    const Member& member, const ReplicaMethod& method, const ParameterGroup& part,
    const GroupExchangeOptions& options = {});

// Thread: control.
class ReplicaStep {
 public:
  virtual ~ReplicaStep() = default;

  // So many parts of the last micro-batch's weight gradients are done, of the running step: what
  // they add to is what Reduce will find. A method may begin to exchange it. Parts in order, before
  // Reduce.
  virtual void OnFinalGradients(std::uint64_t step, std::size_t parts) {
    static_cast<void>(step);
    static_cast<void>(parts);
  }
  // Agrees with the groups on what the step's Apply will do. `done` runs once, in a task of its
  // own. It gets the squared norm of the agreed gradient sum, or of what the method has in its
  // place in the same unit, or why there is none. The number is the same on all members of a stage.
  // Lost gradients of the member count as zeros, and set its mark: the exchanges end as usual. Only
  // without any exchange is the norm itself not finite. One at a time.
  virtual void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) = 0;
  // The running step gets more micro-batches, before its Apply: what was read, exchanged and agreed
  // of its gradients counts for nothing, and the `done` of a running Reduce does not run. The
  // model's gradients are the own sums again, for tasks that are posted to compute from now on.
  // Reduce comes once more. Member::amendment has grown. Unimplemented: the method cannot.
  virtual Status Reopen() { return Unimplemented("the replica method ends the step for it"); }
  // Does it: weights and moments move on, gradients are zero. `done` as above.
  // An order to skip, the same on all members: what was agreed is dropped. Weights, moments, error
  // memories, factors and learned levels stay what they were before Reduce, bit for bit, and
  // gradients are zero. Where a method does beside the step what a checkpoint needs, or what local
  // steps owe each other, it does so without the step.
  virtual void Apply(const ApplyOrder& order, std::function<void(Status)> done) = 0;
  // The generation has ended: an Apply that waits for others ends with an error, where members may
  // go on with what they hold.
  virtual void Abandon() {}

  // What this member has not sent yet, as of the last Apply; the end of this step.
  virtual void KeepErrors(ErrorKeeper* keeper) { static_cast<void>(keeper); }

  // Lets the parts of the step's operations run; null: they may whenever they can. Lives as long.
  virtual OperationGate* gate() { return nullptr; }
  // Whether gradients cross to the host where the model's values lie on a device.
  virtual bool on_host() const { return true; }
  // Bytes of weights and moments that it holds beside the model's, for good.
  virtual std::uint64_t StateBytes() const { return 0; }

  // Whom a running Reduce or Apply waits for: "the gradients of peer ...", `peer` set; empty if it
  // has work of its own to do.
  virtual std::string Awaited(const PeerId** peer) const = 0;
};

// By offset of a tensor in the stage's flat vectors: how many parts of a micro-batch's weight
// gradients there are up to the last one that adds to it.
using FinalParts = std::map<std::size_t, std::size_t>;
FinalParts FinalAfter(const std::vector<model::TensorLayout>& layout,
                      const std::vector<std::vector<std::size_t>>& weight_parts);

struct ReplicaContext {
  Member* member = nullptr;
  const GroupLinks* links = nullptr;  // null if no part has a group
  ParameterGroups parts;
  ReplicaMethod method;
  FinalParts final_after = {};                   // empty: all that is exchanged waits for Reduce
  std::vector<model::TensorLayout> layout = {};  // of the stage
  UnitFacts units = {};                          // of a stage that holds parameters by units
};

// A step of a class that is made from the context and made ready by its Init.
template <typename Step>
Result<std::unique_ptr<ReplicaStep>> MakeReplicaStep(const ReplicaContext& context) {
  auto step = std::make_unique<Step>(context);
  SHOAL_RETURN_IF_ERROR(step->Init(context));
  return std::unique_ptr<ReplicaStep>(std::move(step));
}

// The steps there are; step_registry.h chooses one by the method. What `context` points to outlives
// the result.

// Exchanges gradients; the model's own optimizer applies them.
Result<std::unique_ptr<ReplicaStep>> NewGradientStep(ReplicaContext context);
// Exchanges momenta and applies them with a frozen variance, after a warm-up.
Result<std::unique_ptr<ReplicaStep>> NewMomentumStep(ReplicaContext context);
// Exchanges the signs of the members' own updates over a ring, after the same warm-up.
Result<std::unique_ptr<ReplicaStep>> NewMarsitStep(ReplicaContext context);
// Exchanges gradients for parameters, which owners of shards make of them.
Result<std::unique_ptr<ReplicaStep>> NewQsdpStep(ReplicaContext context);
// Exchanges parameters for every part of an operation, and its gradients.
Result<std::unique_ptr<ReplicaStep>> NewZero3Step(ReplicaContext context);
// Exchanges parameter differences, every so many steps of the pipelines' own.
Result<std::unique_ptr<ReplicaStep>> NewLocalStep(ReplicaContext context);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_REPLICA_STEP_H_
