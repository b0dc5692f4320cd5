// RunnerCore: what the parts of one StageRunner share. Thread: control.

#ifndef SHOAL_PIPELINE_CORE_RUNNER_CORE_H_
#define SHOAL_PIPELINE_CORE_RUNNER_CORE_H_

#include <functional>
#include <memory>
#include <string>

#include "common/task_scope.h"
#include "pipeline/core/runner_types.h"
#include "pipeline/core/segments.h"

namespace shoal::pipeline {

struct RunnerCore {
  RunnerCore(const RunnerConfig& c, const RunnerResources& d)
      : config(c), deps(d), scope(d.control), time(&d.control->clock()) {}

  bool first_stage() const { return config.stage == 0; }
  bool last_stage() const { return config.stage + 1 == config.stages; }
  compression::SampleShape shape() const { return {config.row_tokens, config.hidden}; }
  // How micro-batches of this run travel with one of its codecs.
  Segments SegmentsOf(const compression::MessageCodec& codec) const {
    return Divide(codec, shape(), config.micro_batch_rows, config.segment_bytes_min);
  }

  const RunnerConfig config;
  const RunnerResources deps;
  std::shared_ptr<const compression::MessageCodec> forward_codec, backward_codec;
  TaskScope scope;  // ends with the generation: destruction or first failure
  RunnerStats stats;
  ActivityAccount time;
  // Of the reductions of the stage group and of the tied embedding, by member; empty: equal ones.
  // They change between steps only.
  std::vector<double> group_shares, embedding_shares;
  TimePoint last_progress{};

  void Progress() { last_progress = deps.control->clock().Now(); }
  // Ends the generation; only the first call counts. `peer` may be null.
  std::function<void(Status, const PeerId*)> fail;

  // Opens a link of this generation: the end with the lower position dials.
  std::unique_ptr<net::Link> OpenLink(const net::LinkTarget& target, bool lower,
                                      net::LinkHandlers handlers) const {
    return lower ? deps.hub->Dial(target, std::move(handlers))
                 : deps.hub->Accept(target, std::move(handlers));
  }
  // A frame of this generation's run, with nothing but the kind and position filled in.
  net::Frame NewFrame(net::FrameKind kind, MicroBatchId id) const {
    net::Frame frame;
    frame.kind = kind;
    frame.run = config.run;
    frame.generation = config.generation;
    frame.micro_batch = id;
    return frame;
  }
  // Whether a frame belongs to this run and generation.
  Status CheckFrame(const net::Frame& frame) const {
    if (frame.run == config.run && frame.generation == config.generation) return Status::Ok();
    return FailedPrecondition("a frame names run " + frame.run.ToHex() + " generation " +
                              std::to_string(frame.generation) + ", but this link carries run " +
                              config.run.ToHex() + " generation " +
                              std::to_string(config.generation));
  }
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
