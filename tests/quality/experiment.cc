#include "tests/quality/experiment.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <utility>

#include "compression/api/codec.h"
#include "dataset/sampler.h"
#include "model/stage_model.h"
#include "net/base/wire_bytes.h"
#include "net/links/send_queue.h"
#include "replica/methods/replica_method.h"
#include "tests/quality/experiment_model.h"
#include "tests/quality/text_windows.h"
#include "tests/support/sim_swarm.h"

namespace shoal::quality {
namespace {

using test_support::SimSwarm;
using test_support::SwarmOptions;

// What the first training rows look like at each boundary, and what changed since the call before.
class BoundaryWatch {
 public:
  Result<std::vector<BoundaryShape>> Look(const Stages& stages, const dataset::PreparedData& data) {
    std::vector<BoundaryShape> shapes;
    before_.resize(stages.size() - 1);
    model::StepLoss loss;
    const std::uint64_t rows = std::min<std::uint64_t>(kBatch, data.info().train_rows);
    const std::uint32_t hidden = stages[0]->spec().hidden;
    const auto look = [&](std::size_t boundary, std::span<const float> x) {
      shapes.push_back(ShapeOf(x, before_[boundary], hidden));
      before_[boundary].assign(x.begin(), x.end());
    };
    SHOAL_RETURN_IF_ERROR(EvaluateRows(stages, data, 0, rows, look, &loss));
    return shapes;
  }

 private:
  std::vector<std::vector<float>> before_;
};

// Bytes that leave a peer, by direction of the pipeline.
struct WireCounter {
  std::uint64_t forward = 0, backward = 0, replica = 0, other = 0, values = 0;

  void Count(const net::Frame& frame) {
    const net::LinkLimits limits;
    net::SendQueue queue(limits.frame_bytes_max, limits.queue_bytes_max);
    const Status pushed = queue.Push(net::CopyOf(frame), {});
    SHOAL_CHECK(pushed.ok());
    std::uint64_t bytes = 0;
    while (const auto chunk = queue.Next(limits.chunk_bytes)) {
      bytes += net::WireBytes(chunk->bytes());
    }
    if (frame.kind == net::FrameKind::kActivation) {
      forward += bytes;
      values += std::uint64_t{frame.tokens} * frame.hidden * frame.samples.size();
    } else if (frame.kind == net::FrameKind::kGradient) {
      backward += bytes;
    } else {
      (frame.kind == net::FrameKind::kGroup ? replica : other) += bytes;
    }
  }
};

Result<std::vector<std::unique_ptr<model::StageModel>>> NewStages(const BuiltModel& model,
                                                                  const RowSpec& spec) {
  std::vector<std::unique_ptr<model::StageModel>> models;
  for (std::uint32_t i = 0; i < spec.pipelines * spec.stages; ++i) {
    const std::uint32_t s = i % spec.stages;
    model::StageOptions options;
    const std::uint32_t layers = spec.model.layers;
    options.range = {layers * s / spec.stages, layers * (s + 1) / spec.stages};
    options.compute = spec.compute;
    options.threads = spec.model.threads;
    options.dropout = spec.dropout;
    options.fresh_masks = spec.fresh_masks;
    options.seed = 1;
    SHOAL_ASSIGN_OR_RETURN(auto stage, NewStage(model, options, spec.weights));
    models.push_back(std::move(stage));
  }
  return models;
}

// What the senders counted since the call before, over all boundaries.
class CodingCounter {
 public:
  // The runners are new and count from zero.
  void Restart() { forward_ = backward_ = {}; }

  void Read(SimSwarm* swarm, EpochFigures* epoch) {
    compression::CodingStats forward, backward;
    for (const auto& peer : swarm->peers()) {
      const pipeline::RunnerStats stats = peer->runner_->stats();
      forward.Add(stats.forward_coding);
      backward.Add(stats.backward_coding);
      if (peer->stage_ + 1 < swarm->options_.stages) {
        const auto mode = stats.boundaries.back().mode;  // the next boundary's
        epoch->delta_modes.emplace_back(
            compression::DeltaModeName(mode.value_or(compression::DeltaMode::kDelta)));
      }
    }
    const compression::CodingStats sent = Since(forward, &forward_);
    const compression::CodingStats returned = Since(backward, &backward_);
    if (sent.changes.tokens() > 0) epoch->delta_norm = sent.changes.median();
    if (sent.values > 0) epoch->received_error = sent.relative_error();
    if (returned.values > 0) epoch->gradient_error = returned.relative_error();
  }

 private:
  static compression::CodingStats Since(const compression::CodingStats& now,
                                        compression::CodingStats* before) {
    const compression::CodingStats was = std::exchange(*before, now);
    return {now.values - was.values, now.errors - was.errors, now.changes.Since(was.changes)};
  }
  compression::CodingStats forward_, backward_;
};

// Of the running generation, over the ends that send gradients.
void ReadLowRank(SimSwarm* swarm, EpochFigures* epoch) {
  std::uint64_t low_rank = 0, all = 0;
  double correlation = 0, lazy = 0, ends = 0;
  for (const auto& peer : swarm->peers()) {
    if (peer->stage_ == 0) continue;  // it sends none
    const auto seen = peer->runner_->stats().boundaries.front().low_rank;
    if (!seen) return;
    low_rank += seen->low_rank.messages;
    all += seen->low_rank.messages + seen->others.messages;
    correlation += seen->correlation.value_or(0);
    lazy += seen->lazy.value_or(false) ? 1 : 0;
    ++ends;
  }
  if (all == 0) return;
  epoch->low_rank_part = static_cast<double>(low_rank) / static_cast<double>(all);
  epoch->correlation = correlation / ends;
  epoch->lazy = lazy / ends;
}

std::uint64_t RawReplicaBytes(const SimSwarm& swarm) {
  std::uint64_t bytes = 0;
  for (const auto& peer : swarm.peers()) bytes += peer->runner_->stats().replica.raw_sent;
  return bytes;
}

// The last `steps` steps, and what `counter` saw of them.
EpochFigures TrainedEpoch(const SimSwarm& swarm, std::uint64_t steps, const WireCounter& counter) {
  EpochFigures epoch;
  epoch.train_loss = std::accumulate(swarm.losses_.end() - static_cast<std::ptrdiff_t>(steps),
                                     swarm.losses_.end(), 0.0) /
                     static_cast<double>(steps);
  epoch.forward_bytes = counter.forward;
  epoch.backward_bytes = counter.backward;
  epoch.other_bytes = counter.other;
  epoch.replica_bytes = counter.replica;
  epoch.values = counter.values;
  return epoch;
}

SwarmOptions RowOptions(const RowSpec& spec, const dataset::Sampler& sampler) {
  SwarmOptions options;
  options.stages = spec.stages;
  options.pipelines = spec.pipelines;
  options.micro_batches = spec.micro_batches;
  options.rows = kBatch / spec.micro_batches;
  options.tied = false;
  options.random_delays = false;
  options.forward = spec.forward;
  options.samples = [sampler](std::uint64_t step) { return sampler.Step(step); };
  const std::uint64_t epoch = sampler.steps_per_epoch();
  options.run_steps = epoch * spec.epochs;
  options.replica = spec.replica;
  if (const auto method = replica::ParseReplicaMethod(spec.replica); method.ok()) {
    // As a plan does: the variance is frozen behind the rate's warm-up, which is the first epoch.
    options.replica = method->SpecOfRun(options.run_steps, epoch);
    if (method->local.steps > 0) options.sync_every = method->local.steps;
  }
  options.learning_rate =
      LearningRateRule(spec.learning_rate, epoch, epoch * spec.epochs, "linear");
  return options;
}

Status CheckRow(const RowSpec& spec) {
  if (spec.stages == 0 || spec.pipelines == 0 || spec.pipelines > spec.micro_batches) {
    return InvalidArgument("a row needs stages, and a micro-batch for each pipeline");
  }
  if (spec.micro_batches > 0 && kBatch % spec.micro_batches == 0) return Status::Ok();
  return InvalidArgument("a step of " + std::to_string(kBatch) + " samples has no " +
                         std::to_string(spec.micro_batches) + " equal micro-batches");
}

std::uint64_t MismatchesOf(const SimSwarm& swarm) {
  std::uint64_t mismatches = 0;
  for (const auto& [step, count] : swarm.checksum_mismatches_) {
    mismatches += static_cast<std::uint64_t>(count);
  }
  return mismatches;
}

Result<std::shared_ptr<const TextWindows>> FineTuningData(const RowSpec& spec,
                                                          const BuiltModel& model) {
  SHOAL_ASSIGN_OR_RETURN(const Shakespeare plays, ReadShakespeare(spec.shakespeare, model));
  return std::make_shared<const TextWindows>(model.spec.vocabulary,
                                             SpacedWindows(plays.fine_tuning, spec.rows),
                                             SpacedWindows(plays.held_out, spec.held_out_rows));
}

bool Reopen(SimSwarm* swarm, std::uint64_t step, const std::string& backward) {
  swarm->Close();
  swarm->Run(std::chrono::seconds(1));
  swarm->options_.backward = backward;
  return swarm->Open(step);
}

}  // namespace

Result<RowFigures> TrainRow(const RowSpec& spec) {
  SHOAL_RETURN_IF_ERROR(CheckRow(spec));
  SHOAL_ASSIGN_OR_RETURN(const BuiltModel model, BuildModel(spec.model));
  SHOAL_ASSIGN_OR_RETURN(const auto data, FineTuningData(spec, model));
  SHOAL_ASSIGN_OR_RETURN(const dataset::Sampler sampler,
                         dataset::Sampler::Make({spec.seed, spec.rows, spec.micro_batches,
                                                 kBatch / spec.micro_batches}));
  SHOAL_ASSIGN_OR_RETURN(auto models, NewStages(model, spec));
  Stages stages;
  for (std::uint32_t s = 0; s < spec.stages; ++s) stages.push_back(models[s].get());
  SwarmOptions options = RowOptions(spec, sampler);
  // Asked for pipeline by pipeline, stage by stage.
  options.new_model = [&models, next = std::size_t{0}](std::uint32_t) mutable {
    return std::move(models[next++]);
  };
  options.data = data;
  SimSwarm swarm(options);
  WireCounter counter;
  swarm.network_.tap = [&counter](const PeerId&, const PeerId&, net::Frame* frame) {
    counter.Count(*frame);
    return 1;
  };

  RowFigures figures;
  figures.device = stages[0]->device_name();
  CodingCounter coding;
  BoundaryWatch watch;
  const auto count_visits = [&] {
    for (const auto& peer : swarm.peers()) {
      const pipeline::RunnerStats stats = peer->runner_->stats();
      figures.delta_hits += stats.delta_hits;
      figures.first_visits += stats.first_visits;
      figures.resends += stats.resends;
    }
  };
  SHOAL_ASSIGN_OR_RETURN(figures.held_out_before, HeldOutLoss(stages, *data));
  SHOAL_RETURN_IF_ERROR(watch.Look(stages, *data).status());
  const std::uint64_t steps = sampler.steps_per_epoch();
  std::uint64_t replica_raw = 0;  // of the generation, up to the epoch
  for (std::uint64_t epoch = 0; epoch < spec.epochs; ++epoch) {
    // The first epoch may have its own gradient codec: the next one is a new generation then.
    const bool own_codec = !spec.first_epoch_backward.empty();
    if (epoch == 0 || (epoch == 1 && own_codec)) {
      if (epoch > 0) count_visits();
      const bool first = epoch == 0 && own_codec;
      if (!Reopen(&swarm, epoch * steps, first ? spec.first_epoch_backward : spec.backward)) {
        return WhyFailed(&swarm);
      }
      coding.Restart();
      replica_raw = 0;
    }
    counter = {};
    if (!swarm.TrainTo((epoch + 1) * steps)) return WhyFailed(&swarm);
    EpochFigures now = TrainedEpoch(swarm, steps, counter);
    SHOAL_ASSIGN_OR_RETURN(now.held_out_loss, HeldOutLoss(stages, *data));
    SHOAL_ASSIGN_OR_RETURN(now.boundaries, watch.Look(stages, *data));
    now.replica_raw_bytes = RawReplicaBytes(swarm) - replica_raw;
    replica_raw += now.replica_raw_bytes;
    coding.Read(&swarm, &now);
    ReadLowRank(&swarm, &now);
    figures.epochs.push_back(now);
    std::fprintf(stderr, "epoch %llu: train %.4f, held out %.4f\n",
                 static_cast<unsigned long long>(epoch + 1), now.train_loss, now.held_out_loss);
  }
  count_visits();
  figures.mismatches = MismatchesOf(swarm);
  return figures;
}

}  // namespace shoal::quality
