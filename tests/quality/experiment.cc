#include "tests/quality/experiment.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "common/file.h"
#include "compression/api/codec.h"
#include "dataset/sampler.h"
#include "model/init_weights.h"
#include "model/stage_model.h"
#include "net/base/wire_bytes.h"
#include "net/links/send_queue.h"
#include "replica/methods/replica_method.h"
#include "scheduler/config/run_config.h"
#include "tests/quality/byte_windows.h"
#include "tests/support/sim_swarm.h"

namespace shoal::quality {
namespace {

using test_support::SimSwarm;
using test_support::SwarmOptions;

constexpr std::uint64_t kTextBytesMax = 1ull << 30;
constexpr std::uint32_t kHidden = 128;
constexpr std::uint32_t kBatch = 16;
// Where tinyshakespeare is cut: base training, fine-tuning, held out.
constexpr std::uint64_t kFineTuneBegin = 557697, kHeldOutBegin = 1003854;
constexpr std::uint64_t kHeldOutRows = 128;

using Stages = std::vector<model::StageModel*>;

std::string ConfigJson(std::uint32_t layers) {
  return R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": )" +
         std::to_string(layers) +
         R"(, "n_embd": 128, "n_head": 4, "n_positions": 128, "vocab_size": 256,
"activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "initializer_range": 0.02,
"tie_word_embeddings": false})";
}

Result<Text> ReadText(const std::string& path, std::uint64_t bytes_min) {
  SHOAL_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kTextBytesMax));
  if (text.size() < bytes_min) {
    return InvalidArgument(path + " has " + std::to_string(text.size()) + " bytes, " +
                           std::to_string(bytes_min) + " are needed; is it the right file?");
  }
  return std::make_shared<const std::string>(std::move(text));
}

std::vector<Window> HeldOutWindows(const Text& shakespeare, std::uint64_t rows) {
  return SpacedWindows(shakespeare, kHeldOutBegin, shakespeare->size(), rows);
}

Result<std::unique_ptr<model::StageModel>> NewStage(const storage::ModelConfig& config,
                                                    model::StageOptions options,
                                                    const std::string& weights) {
  options.device = "cpu";
  options.threads = 1;
  SHOAL_ASSIGN_OR_RETURN(auto stage, model::NewTorchGpt2Stage(config, options));
  std::map<std::string, std::string> files;
  for (const std::string& part : stage->parts()) {
    files[part] = weights + "/" + part + ".safetensors";
  }
  SHOAL_RETURN_IF_ERROR(stage->Load(files, {}));
  return stage;
}

// Takes what a stage that is not the last gives for a micro-batch.
using TakeOutput = std::function<void(std::size_t stage, std::span<const float> output)>;

// Sends rows [first, first + count) through all stages, nothing compressed.
Status EvaluateRows(const Stages& stages, const dataset::PreparedData& data, std::uint64_t first,
                    std::uint64_t count, const TakeOutput& take, model::StepLoss* total) {
  model::MicroBatch micro_batch;
  micro_batch.tokens = kRowTokens;
  std::vector<std::int32_t> tokens, labels;
  for (std::uint64_t i = 0; i < count; ++i) {
    micro_batch.samples.push_back({first + i});
    SHOAL_RETURN_IF_ERROR(data.AppendRow(micro_batch.samples.back(), &tokens, &labels));
  }
  micro_batch.rows = static_cast<std::uint32_t>(count);
  micro_batch.token_ids = tokens;
  micro_batch.labels = labels;
  std::vector<float> input, output;
  model::StepLoss loss;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    output.resize(s + 1 == stages.size() ? 0 : tokens.size() * kHidden);
    SHOAL_RETURN_IF_ERROR(stages[s]->Evaluate(micro_batch, output, &loss));
    if (take && !output.empty()) take(s, output);
    input.swap(output);
    micro_batch.input = input;
    micro_batch.token_ids = {};
  }
  total->sum += loss.sum;
  total->labels += loss.labels;
  return Status::Ok();
}

// Mean loss of the validation rows of `data` through all stages, nothing compressed.
Result<double> HeldOutLoss(const Stages& stages, const dataset::PreparedData& data) {
  model::StepLoss total;
  const std::uint64_t first = data.info().train_rows, rows = data.info().validation_rows;
  for (std::uint64_t row = 0; row < rows; row += kBatch) {
    const std::uint64_t count = std::min<std::uint64_t>(kBatch, rows - row);
    SHOAL_RETURN_IF_ERROR(EvaluateRows(stages, data, first + row, count, {}, &total));
  }
  return total.sum / static_cast<double>(total.labels);
}

// What the first training rows look like at each boundary, and what changed since the call before.
class BoundaryWatch {
 public:
  Result<std::vector<BoundaryShape>> Look(const Stages& stages, const dataset::PreparedData& data) {
    std::vector<BoundaryShape> shapes;
    before_.resize(stages.size() - 1);
    model::StepLoss loss;
    const std::uint64_t rows = std::min<std::uint64_t>(kBatch, data.info().train_rows);
    const auto look = [&](std::size_t boundary, std::span<const float> x) {
      shapes.push_back(ShapeOf(x, before_[boundary], kHidden));
      before_[boundary].assign(x.begin(), x.end());
    };
    SHOAL_RETURN_IF_ERROR(EvaluateRows(stages, data, 0, rows, look, &loss));
    return shapes;
  }

 private:
  std::vector<std::vector<float>> before_;
};

std::function<double(std::uint64_t)> LearningRateRule(double rate, std::uint64_t warmup,
                                                      std::uint64_t steps,
                                                      const std::string& decay) {
  scheduler::RunConfig config;
  config.learning_rate = rate;
  config.warmup_steps = warmup;
  config.steps = steps;
  config.decay = decay;
  return [config](std::uint64_t step) { return scheduler::LearningRate(config, step); };
}

Status WhyFailed(SimSwarm* swarm) {
  for (const auto& peer : swarm->peers()) {
    if (peer->failure_) return peer->failure_->status;
  }
  if (swarm->held()) {
    return FailedPrecondition("a gradient is not finite in three steps in a row");
  }
  return Internal("the swarm stands still");
}

// One phase of base training: a swarm of one stage; rows in the order of `data`.
Status TrainPhase(std::unique_ptr<model::StageModel>* model,
                  std::shared_ptr<const ByteWindows> data, std::uint64_t steps,
                  std::function<double(std::uint64_t)> rate) {
  SwarmOptions options;
  options.stages = 1;
  options.micro_batches = 1;
  options.rows = kBatch;
  options.tied = false;
  options.random_delays = false;
  options.new_model = [model](std::uint32_t) { return std::move(*model); };
  options.data = data;
  options.learning_rate = std::move(rate);
  options.samples = [](std::uint64_t step) {
    dataset::MicroBatchSamples rows;
    for (std::uint32_t i = 0; i < kBatch; ++i) rows.samples.push_back({step * kBatch + i});
    return std::vector{rows};
  };
  SimSwarm swarm(options);
  bool ok = swarm.Open(0);
  for (std::uint64_t done = 0; ok && done < steps;) {
    done = std::min(done + 100, steps);
    ok = swarm.TrainTo(done);
    if (!ok) break;
    const double sum = std::accumulate(swarm.losses_.end() - 20, swarm.losses_.end(), 0.0);
    std::fprintf(stderr, "base: step %llu, loss %.4f\n", static_cast<unsigned long long>(done),
                 sum / 20);
  }
  if (!ok) return WhyFailed(&swarm);
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  *model = std::move(swarm.peers()[0]->model_);
  return Status::Ok();
}

model::StageOptions WholeModel(std::uint32_t layers, double beta2) {
  model::StageOptions options;
  options.range = {0, layers};
  options.optimizer.beta2 = beta2;
  return options;
}

// Writes fresh weights as part files to `folder`.
Status WriteInitialParts(const storage::ModelConfig& config, const std::string& folder) {
  const std::string config_path = folder + "/config.json", model_path = folder + "/model";
  SHOAL_RETURN_IF_ERROR(MakeDirectories(folder));
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(config_path, config.json));
  std::error_code error;
  std::filesystem::remove_all(model_path, error);
  SHOAL_RETURN_IF_ERROR(model::InitModelDirectory(config_path, model_path, 1));
  SHOAL_ASSIGN_OR_RETURN(const auto directory, storage::OpenModelDirectory(model_path));
  model::StageOptions options = WholeModel(config.layers, 0.99);
  options.device = "cpu";
  SHOAL_ASSIGN_OR_RETURN(auto stage, model::NewTorchGpt2Stage(config, options));
  SHOAL_RETURN_IF_ERROR(stage->LoadDirectory(*directory));
  return stage->Save(folder);
}

// Bytes that leave a peer, by direction of the pipeline.
struct WireCounter {
  std::uint64_t forward = 0, backward = 0, replica = 0, other = 0, values = 0;

  void Count(const net::Frame& frame) {
    const net::LinkLimits limits;
    net::SendQueue queue(limits.frame_bytes_max, limits.queue_bytes_max);
    const Status pushed = queue.Push(test_support::CopyOf(frame), {});
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

Result<std::vector<std::unique_ptr<model::StageModel>>> NewStages(
    const storage::ModelConfig& config, const RowSpec& spec) {
  std::vector<std::unique_ptr<model::StageModel>> models;
  for (std::uint32_t i = 0; i < spec.pipelines * spec.stages; ++i) {
    const std::uint32_t s = i % spec.stages;
    model::StageOptions options;
    options.range = {spec.layers * s / spec.stages, spec.layers * (s + 1) / spec.stages};
    options.dropout = spec.dropout;
    options.fresh_masks = spec.fresh_masks;
    options.seed = 1;
    SHOAL_ASSIGN_OR_RETURN(auto stage, NewStage(config, options, spec.weights));
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

std::shared_ptr<const ByteWindows> FineTuningData(const RowSpec& spec, const Text& shakespeare) {
  return std::make_shared<ByteWindows>(
      SpacedWindows(shakespeare, kFineTuneBegin, kHeldOutBegin, spec.rows),
      HeldOutWindows(shakespeare, spec.held_out_rows));
}

bool Reopen(SimSwarm* swarm, std::uint64_t step, const std::string& backward) {
  swarm->Close();
  swarm->Run(std::chrono::seconds(1));
  swarm->options_.backward = backward;
  return swarm->Open(step);
}

}  // namespace

Result<BaseFigures> TrainBase(const BaseSpec& spec) {
  SHOAL_ASSIGN_OR_RETURN(const Text wikitext, ReadText(spec.wikitext, 1 << 20));
  SHOAL_ASSIGN_OR_RETURN(const Text validation, ReadText(spec.wikitext_validation, 1 << 20));
  SHOAL_ASSIGN_OR_RETURN(const Text shakespeare, ReadText(spec.shakespeare, 1115394));
  const std::string json = ConfigJson(spec.layers);
  SHOAL_ASSIGN_OR_RETURN(const auto config, storage::ParseModelConfig(json, "the built-in model"));
  const std::string init = spec.folder + "/init", middle = spec.folder + "/wikitext";
  const std::string middle_done = middle + "/complete";
  const auto first = std::make_shared<ByteWindows>(
      RandomWindows(wikitext, 0, wikitext->size(), spec.first_steps * kBatch, 1),
      SpacedWindows(validation, 0, validation->size(), 256));
  if (!std::filesystem::exists(middle_done)) {
    SHOAL_RETURN_IF_ERROR(WriteInitialParts(config, init));
    SHOAL_ASSIGN_OR_RETURN(auto fresh, NewStage(config, WholeModel(spec.layers, 0.99), init));
    SHOAL_RETURN_IF_ERROR(TrainPhase(
        &fresh, first, spec.first_steps,
        LearningRateRule(spec.first_rate, spec.first_warmup, spec.first_steps, spec.first_decay)));
    SHOAL_RETURN_IF_ERROR(MakeDirectories(middle));
    SHOAL_RETURN_IF_ERROR(fresh->Save(middle));
    SHOAL_RETURN_IF_ERROR(WriteFileAtomic(middle_done, ""));
  }
  // The optimizer starts anew.
  SHOAL_ASSIGN_OR_RETURN(auto model, NewStage(config, WholeModel(spec.layers, 0.99), middle));
  BaseFigures figures;
  SHOAL_ASSIGN_OR_RETURN(figures.wikitext_loss, HeldOutLoss({model.get()}, *first));

  // Half of each step's windows from either text.
  const std::uint64_t half = spec.second_steps * kBatch / 2;
  const auto old_text = RandomWindows(wikitext, 0, wikitext->size(), half, 2);
  const auto new_text = RandomWindows(shakespeare, 0, kFineTuneBegin, half, 3);
  std::vector<Window> mixed;
  for (std::uint64_t i = 0; i < half; ++i) {
    mixed.push_back(old_text[i]);
    mixed.push_back(new_text[i]);
  }
  const auto second =
      std::make_shared<ByteWindows>(mixed, HeldOutWindows(shakespeare, kHeldOutRows));
  SHOAL_RETURN_IF_ERROR(TrainPhase(&model, second, spec.second_steps,
                                   LearningRateRule(spec.second_rate, spec.second_warmup,
                                                    spec.second_steps, spec.second_decay)));
  SHOAL_ASSIGN_OR_RETURN(figures.shakespeare_loss, HeldOutLoss({model.get()}, *second));
  SHOAL_RETURN_IF_ERROR(MakeDirectories(spec.folder + "/base"));
  SHOAL_RETURN_IF_ERROR(model->Save(spec.folder + "/base"));
  return figures;
}

Result<RowFigures> TrainRow(const RowSpec& spec) {
  SHOAL_RETURN_IF_ERROR(CheckRow(spec));
  SHOAL_ASSIGN_OR_RETURN(const Text shakespeare, ReadText(spec.shakespeare, 1115394));
  const std::string json = ConfigJson(spec.layers);
  SHOAL_ASSIGN_OR_RETURN(const auto config, storage::ParseModelConfig(json, "the built-in model"));
  const auto data = FineTuningData(spec, shakespeare);
  SHOAL_ASSIGN_OR_RETURN(const dataset::Sampler sampler,
                         dataset::Sampler::Make({spec.seed, spec.rows, spec.micro_batches,
                                                 kBatch / spec.micro_batches}));
  SHOAL_ASSIGN_OR_RETURN(auto models, NewStages(config, spec));
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
