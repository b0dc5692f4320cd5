// What a stage is made of, as the plan and shoald.toml say it. Pure. Thread: any.

#ifndef SHOAL_DAEMON_STAGE_SETUP_H_
#define SHOAL_DAEMON_STAGE_SETUP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/status.h"
#include "daemon/config.h"
#include "dataset/prepared_data.h"
#include "model/families/model_spec.h"
#include "model/stage_model.h"
#include "pipeline/core/runner_types.h"
#include "proto/control.pb.h"

namespace shoal::daemon {

// `own`: one of the plan's positions. An error: the run's replica method is not known here.
Result<model::StageOptions> StageOptionsOf(const control::v1::Plan& plan,
                                           const control::v1::Position& own,
                                           const DaemonConfig& daemon);
// `model`: of the run. An error: the run's schedule is not known here.
Result<pipeline::RunnerConfig> RunnerConfigOf(const control::v1::Plan& plan,
                                              const control::v1::Position& own,
                                              const model::ModelSpec& model,
                                              const DaemonConfig& daemon);
// Invalid argument if the first or last stage has no data (null), or data of another shape or
// tokenizer.
Status CheckData(const pipeline::RunnerConfig& config, const dataset::PreparedData* data,
                 std::uint32_t vocabulary);
// The peers with which the stage opens links. `sharing`: MemberConfig's.
pipeline::LinkTargets LinkTargetsOf(const control::v1::Plan& plan, const control::v1::Position& own,
                                    const std::vector<std::uint32_t>& sharing);
// What the stage has to do of a spot check; nothing: it takes no part, or the plan has no such
// stage.
std::optional<pipeline::SpotOrder> SpotOrderOf(const control::v1::Plan& plan,
                                               const control::v1::Position& own,
                                               const control::v1::SpotCheck& check);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_STAGE_SETUP_H_
