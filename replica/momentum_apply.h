// The parameters' half of a step of momenta (momentum_step.cc). Thread: compute.

#ifndef SHOAL_REPLICA_MOMENTUM_APPLY_H_
#define SHOAL_REPLICA_MOMENTUM_APPLY_H_

#include <cstdint>

#include "common/executor.h"
#include "common/memory/buffer.h"
#include "common/status.h"
#include "model/stage_model.h"
#include "optimizer/adamw.h"
#include "replica/replica_step.h"

namespace shoal::replica {

struct MomentumValues {  // of a bucket, as the model has them
  Buffer gradient, momentum;
};

// Updates the parameters of a part from its agreed momentum. Without one, updates momentum,
// variance and parameters from the agreed gradients. `memory` is working memory. Helped by `codec`.
Status ApplyMomentum(model::StageModel* model, Executor* codec, const ParameterGroup& part,
                     const Buffer* agreed, const optimizer::AdamWOptions& options,
                     std::uint64_t variance_updates, MomentumValues* memory);

// Scales what a step's gradients added to the agreed momentum, by the model's own, behind all that
// came of the group's state: see MomentumStep::UseMomentum.
Status ScaleWithOwn(model::StageModel* model, const ParameterGroup& part,
                    const optimizer::AdamWStep& step, double blend, Buffer* agreed);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_MOMENTUM_APPLY_H_
