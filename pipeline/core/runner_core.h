// RunnerCore: what the parts of one StageRunner share. Thread: control.

#ifndef SHOAL_PIPELINE_CORE_RUNNER_CORE_H_
#define SHOAL_PIPELINE_CORE_RUNNER_CORE_H_

#include <functional>
#include <memory>
#include <string>

#include "common/task_scope.h"
#include "net/links/generation_links.h"
#include "pipeline/core/runner_types.h"
#include "pipeline/core/segments.h"

namespace shoal::pipeline {

struct RunnerCore {
  RunnerCore(const RunnerConfig& c, const RunnerResources& d)
      : config(c),
        deps(d),
        links(d.hub, c.run, c.generation),
        scope(d.control),
        time(&d.control->clock()) {}

  bool first_stage() const { return config.stage == 0; }
  bool last_stage() const { return config.stage + 1 == config.stages; }
  compression::SampleShape shape() const { return {config.row_tokens, config.hidden}; }
  // How micro-batches of this run travel with one of its codecs.
  Segments SegmentsOf(const compression::MessageCodec& codec) const {
    return Divide(codec, shape(), config.micro_batch_rows, config.segment_bytes_min);
  }

  const RunnerConfig config;
  const RunnerResources deps;
  const net::GenerationLinks links;
  std::shared_ptr<const compression::MessageCodec> forward_codec, backward_codec;
  TaskScope scope;  // ends with the generation: destruction or first failure
  RunnerStats stats;
  ActivityAccount time;
  TimePoint last_progress{};

  void Progress() { last_progress = deps.control->clock().Now(); }
  // Ends the generation; only the first call counts. `peer` may be null.
  std::function<void(Status, const PeerId*)> fail;
};

inline double Milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// "micro-batch 3 of step 17"
inline std::string Describe(MicroBatchId id) {
  return "micro-batch " + std::to_string(id.index) + " of step " + std::to_string(id.step);
}

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_RUNNER_CORE_H_
