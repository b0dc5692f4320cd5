// What a SimSwarm is made of, and does.

#ifndef SHOAL_TESTS_SUPPORT_SIM_SWARM_OPTIONS_H_
#define SHOAL_TESTS_SUPPORT_SIM_SWARM_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/sampler.h"
#include "pipeline/runner/stage_runner.h"

namespace shoal::test_support {

inline constexpr RunId kSimRun{0x5a5a1234};
inline constexpr std::uint64_t kSimSeed = 11;  // of the run, whatever the delays are

struct SwarmOptions {
  std::uint32_t stages = 2, pipelines = 1;
  std::uint32_t micro_batches = 6;  // per step, over all pipelines
  std::uint32_t rows = 2;           // per micro-batch
  std::uint32_t row_tokens = 5;
  std::uint64_t segment_bytes_min = 1 << 20;  // 1: as many segments as tokens allow
  std::uint64_t bucket_values_min = 1;        // as many buckets as the model has parts
  std::uint32_t steps_per_epoch = 3;
  std::string forward = "raw:dtype=fp32", backward = "raw:dtype=fp32";
  std::string replica = "average";
  std::uint32_t sync_every = 1;  // steps; for a replica method with local steps
  // What a plan says of the pipelines' lines, in all stages; null or empty: nothing.
  std::function<std::vector<replica::LineRate>(std::uint64_t step)> lines;
  // Stages that exchange exactly in a step, whatever the replica method; null: none.
  std::function<std::vector<std::uint32_t>(std::uint64_t step)> exact_stages;
  pipeline::SchedulePolicy policy = pipeline::SchedulePolicy::kAuto;
  std::uint32_t in_flight_max = 0;
  std::uint64_t activation_memory_bytes = 0, store_bytes_max = 0;
  bool tied = true, adamw = false;
  bool bias = false;   // that all stages share; not with `tied`
  bool units = false;  // stages hold their parameters unit by unit
  double clip_norm = 1;
  // Peers whose values lie on a FakeDevice; null: none. Not with `new_model`.
  std::function<bool(std::uint32_t stage, std::uint32_t pipeline)> on_device;
  // Before each task of a peer; null: nothing.
  std::function<void(std::uint32_t stage, std::uint32_t pipeline)> before_task;
  std::uint64_t run_steps = 100;
  unsigned seed = 1;
  double bytes_per_second = 0;
  bool random_delays = true;
  // Operations take no virtual time as the runner sees it; plans say these instead.
  double forward_ms = 0, backward_ms = 0;

  // All or none: a stage's model, the rows that all read, and which of them a step takes.
  std::function<std::unique_ptr<model::StageModel>(std::uint32_t stage)> new_model;
  std::shared_ptr<const dataset::PreparedData> data;
  std::function<std::vector<dataset::MicroBatchSamples>(std::uint64_t step)> samples;
  std::function<double(std::uint64_t step)> learning_rate;  // null: 0.1
  // What a pipeline evaluates before a step; null: nothing.
  std::function<std::vector<pipeline::MicroBatchPlan>(std::uint64_t step, std::uint32_t pipeline)>
      evaluation;
  std::size_t state_chunk_values = 8;  // that a shadow asks for at once
  bool keeps_memories = true;          // peers, of what they did not send, between generations
  // What is computed again in a step, and by which pipelines; null: nothing in any.
  struct SpotCheck {
    std::uint32_t pipeline = 0, stage = 0, place = 0;
    std::vector<std::uint32_t> checkers;
  };
  std::function<std::optional<SpotCheck>(std::uint64_t step)> spot_check;
  std::uint64_t checkpoint_every = 0;  // steps; 0: never. Which are told, nothing is saved
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_SIM_SWARM_OPTIONS_H_
