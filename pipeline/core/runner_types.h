// What a StageRunner is told, what it reports, and what it works with.

#ifndef SHOAL_PIPELINE_CORE_RUNNER_TYPES_H_
#define SHOAL_PIPELINE_CORE_RUNNER_TYPES_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/ids.h"
#include "common/timeouts.h"
#include "compression/api/codec.h"
#include "compression/api/segment_count.h"
#include "compression/api/value_home.h"
#include "dataset/prepared_data.h"
#include "model/stage_model.h"
#include "net/links/link.h"
#include "pipeline/core/activity.h"
#include "pipeline/core/boundary_stats.h"
#include "pipeline/core/kept_memories.h"
#include "pipeline/core/step_bounds.h"
#include "replica/member.h"
#include "replica/reduction_shares.h"
#include "replica/state/missing_values.h"
#include "replica/state/state_message.h"
#include "replica/step_types.h"
#include "storage/delta/delta_store.h"

namespace shoal::pipeline {

// Where this peer stands, and what the run does. Constant for a generation.
struct RunnerConfig : replica::MemberConfig {
  RunId run;
  std::uint32_t micro_batch_rows = 1;
  std::uint32_t row_tokens = 0;
  std::uint32_t hidden = 0;
  std::string forward_codec, backward_codec;
  std::string replica_method = "average";  // replica/methods/replica_method.h
  SchedulePolicy schedule = SchedulePolicy::kAuto;
  std::uint32_t in_flight_max = 0;             // 0: chosen from measured times
  std::uint64_t activation_memory_bytes = 0;   // bound on kept micro-batches; 0: none
  std::uint64_t prefetch_bytes = 32ull << 20;  // of m, per boundary; one micro-batch at least
  std::uint64_t segment_bytes_min = compression::kSegmentBytesMin;
  Timeouts timeouts = TimeoutsOf(kPeerTimeoutDefault);
  // Pipelines whose peers of this stage hold its state; empty: all do. Where this peer's own is not
  // one of them, it is a shadow, which lacks `missing` (nothing said: all of it).
  std::vector<std::uint32_t> holders = {};
  std::uint32_t shadows = 0;  // peers of this stage that do not; 0 where holders are not named
  std::optional<replica::MissingValues> missing = {};
  std::size_t state_chunk_values = replica::kChunkValuesMax;  // that it asks for at once, at most
  bool spot_checks = false;                                   // StepReady has digests and losses
  // Pipelines that lack a stage, in the plan or as a peer has left. Their peers have no neighbours
  // and get no micro-batches: they follow those of the others. Not with methods that need every
  // member.
  std::vector<std::uint32_t> with_gaps = {};

  bool HasGap(std::uint32_t of) const { return std::ranges::count(with_gaps, of) > 0; }
};

// "micro-batch 3 of step 17"
inline std::string Describe(MicroBatchId id) {
  return "micro-batch " + std::to_string(id.index) + " of step " + std::to_string(id.step);
}

// Whom the peer opens links with.
struct LinkTargets {
  net::LinkTarget next, previous;      // peer all zeros: none
  std::vector<net::LinkTarget> group;  // by pipeline; own entry unused; peer all zeros: nobody
  // Of the stages MemberConfig::sharing, by stage, then pipeline; own stage's entries unused.
  std::vector<net::LinkTarget> shared;
};

// Of a peer, in a plan.
struct Position {
  std::uint32_t pipeline = 0, stage = 0;
};

inline constexpr std::uint32_t kMicroBatchesMax = 65536;  // per step and pipeline

struct MicroBatchPlan {
  std::uint32_t global_index = 0;
  std::vector<SampleId> samples;
};

struct StepPlan {
  std::uint64_t step = 0;
  std::vector<MicroBatchPlan> micro_batches;  // of this pipeline, in order
  // Rows whose held-out loss is taken before them, in order; of this pipeline. Usually none.
  std::vector<MicroBatchPlan> evaluation = {};
  std::vector<StageTimes> timings;  // per stage, may be empty
  // Of the members of the stage group, and of those with shared tensors: they share out their
  // reductions by them from this step on. Empty: as before.
  std::vector<replica::LineRate> group_lines = {}, shared_lines = {};
  std::vector<std::uint32_t> counting = {};  // pipelines that have micro-batches; empty: all
  // How often the step was dealt out again, because peers have left the generation; and where these
  // were. With such and no amendment it says nothing else: they only followed.
  std::uint32_t amendment = 0;
  std::vector<Position> lost = {};
};

struct StepReady {
  std::uint64_t step = 0;
  std::uint32_t amendment = 0;  // of the plan that is done
  double squared_norm = 0;  // of the own gradient sum, if the replica method clips by it; else 0
  std::uint32_t micro_batches = 0;
  std::uint64_t labels = 0;
  double loss_sum = 0;
  StageTimes times;
  model::StepLoss evaluation;  // of the plan's evaluation, before the step; last stage only
  // With spot checks: of each micro-batch, in order. None where there is no such stage.
  std::vector<std::uint64_t> input_digests = {}, output_digests = {};  // evidence.h
  std::vector<double> losses = {};                                     // last stage only
};

// What a peer has to do with a micro-batch that is computed once more.
enum class SpotRole : std::uint8_t {
  kInputWitness,   // it hosts the stage before, in the same pipeline
  kOutputWitness,  // the stage behind
  kChecker,        // the same stage in another pipeline
};
struct SpotOrder {
  std::uint64_t step = 0;
  SpotRole role = SpotRole::kChecker;
  std::uint32_t place = 0;  // of the micro-batch, in the plan of the pipeline that is checked
  MicroBatchPlan micro_batch;
  // Of a witness: the checkers. Of a checker: the witnesses; peer all zeros: none.
  std::vector<net::LinkTarget> checkers = {};
  net::LinkTarget input = {}, output = {};
};
// What a checker found.
struct SpotResult {
  std::uint64_t step = 0;
  Status status;                                      // not OK: nothing was compared, and why
  std::uint64_t input_digest = 0, output_digest = 0;  // of what the witnesses sent; 0: no witness
  // In norms of its own output, which it coded as the stage did: how far what the stage sent is
  // from that, and how far that is from the output. Not on the last stage.
  double difference = 0, coding_error = 0;
  model::StepLoss loss;  // last stage only
};

// Where a runner is that goes on without orders.
struct StepInProgress {
  std::uint64_t applied = 0;  // steps in the model's weights: the step that it is at
  std::uint64_t planned = 0;  // step of the first plan that it lacks
};

struct BoundaryChecksum {
  std::uint32_t boundary = 0;
  storage::BoundarySide side = storage::BoundarySide::kSender;
  std::uint64_t checksum = 0;
  std::uint64_t records = 0;  // committed by this step
};

// Of the tensors that crossed the boundaries of this peer, both together.
struct TransferStats {
  replica::KindBytes forward, backward;
  std::uint64_t delta_hits = 0, first_visits = 0, resends = 0;
  std::uint64_t prefetch_bytes = 0, staged_bytes = 0;  // m read ahead, m' not yet in the store
  compression::CodingStats forward_coding, backward_coding;  // of what was sent
  double encode_ms = 0, decode_ms = 0, store_ms = 0;         // beside compute, in total
};

// Of the operations of the running step.
struct ComputeStats {
  std::uint64_t step = 0;
  StepBounds bounds;
  std::uint32_t forwards = 0, backwards = 0, micro_batches = 0;
  std::uint64_t micro_batches_done = 0;  // since the generation began
};

struct RunnerStats : replica::ReplicaStats, TransferStats, ComputeStats {
  std::vector<BoundaryStats> boundaries;                  // the previous one first
  ActivityTimes time;                                     // of compute, since the links opened
  std::uint64_t state_bytes = 0, state_bytes_wanted = 0;  // of a shadow: here, and in all
  double codec_device_ms = 0;  // of the device's time, that codecs took, in total
  // What works on the host though values lie on a device (value_home.h), and what that costs.
  std::vector<std::string> on_host;
};

// All outlive the runner; model, store and control also what was posted to the other executors:
// after destroying a runner, drain those before destroying what they use. A task that has not begun
// by then does nothing.
struct RunnerResources {
  Executor* control = nullptr;
  Executor* compute = nullptr;
  Executor* codec = nullptr;
  Executor* store = nullptr;
  net::LinkHub* hub = nullptr;
  model::StageModel* model = nullptr;                 // compute thread only
  storage::DeltaStore* delta_store = nullptr;         // store thread only; null if codecs keep no m
  std::shared_ptr<const dataset::PreparedData> data;  // first and last stage; segmented: all
  std::shared_ptr<const compression::ValueHome> home = nullptr;  // of the model; null: the host
  KeptMemories* kept =
      nullptr;  // of the stage in earlier generations; null: none, and none is kept
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_RUNNER_TYPES_H_
