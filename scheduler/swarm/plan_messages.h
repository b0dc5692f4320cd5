// What the scheduler tells the peers of a plan. Pure; thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_PLAN_MESSAGES_H_
#define SHOAL_SCHEDULER_SWARM_PLAN_MESSAGES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dataset/sampler.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/history/artefact_map.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/plan/dealing.h"
#include "scheduler/plan/lan_plan.h"
#include "scheduler/plan/placement.h"
#include "scheduler/swarm/members.h"

namespace shoal::scheduler {

// Parts of a stage in order: "shared" (of models that have it), "embedding" (first stage),
// "layer.N", "head" (last stage).
std::vector<std::string> StageParts(const RunConfig& config, std::uint32_t stage);

// Of the configuration that a plan of so many pipelines tells: equal where that is.
std::uint64_t PlanConfigHash(const RunConfig& config, std::size_t pipelines);

// What every peer of the plan gets alike: configuration, positions, resume step.
control::v1::Plan CommonPlan(const RunConfig& config, std::uint64_t generation,
                             std::uint64_t resume_step, const PlacementPlan& plan,
                             const PlanLans& lans, const std::set<PeerId>& shadows,
                             const Members& members);
// To a member that is to host a stage later.
control::v1::Prepare PrepareMessage(const RunConfig& config, std::uint32_t stage,
                                    const ArtefactMap& initial);

// What never changes of a stage: weights that are not trained, and the data on the first and the
// last stage.
std::vector<control::v1::ArtefactRef> ConstantArtefacts(const RunConfig& config,
                                                        std::uint32_t stage,
                                                        const ArtefactMap& initial);

// Weights of a stage, its optimizer state where `weights` has it, and the data on the first and
// the last stage.
std::vector<control::v1::ArtefactRef> StageArtefacts(const RunConfig& config, std::uint32_t stage,
                                                     const ArtefactMap& weights,
                                                     const ArtefactMap& initial);

// What a member of the stage fetches to hold it: weights and moments as `saved`, the files of a
// checkpoint, has them, or as they will be where there is none.
std::uint64_t StateBytes(const RunConfig& config, std::uint32_t stage, const ArtefactMap& saved,
                         const ArtefactMap& initial);

// A step of a plan.
struct StepOfPlan {
  std::uint64_t generation = 0, step = 0;
  std::uint32_t pipelines = 1;
  Dealing dealing;
};
// Its micro-batches, dealt out to the pipelines, in the order in which they got them. With the
// validation rows that are evaluated before it (steps/evaluation_rows.h), if there are such.
control::v1::StepPlan MakeStepPlan(const RunConfig& config, const dataset::Sampler& sampler,
                                   const StepOfPlan& of,
                                   const std::vector<control::v1::StageTiming>& timings);

control::v1::HeldOut ToMessage(const HeldOutMeasured& measured);

// Over what may not change while a run goes on: model, data, layout and order of the samples.
std::uint64_t ConfigHash(const RunConfig& config, const ArtefactMap& initial);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_PLAN_MESSAGES_H_
