#include "daemon/stage_host.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "compression/api/segment_count.h"
#include "daemon/kept_checkpoint.h"
#include "daemon/stage_messages.h"
#include "dataset/prepared_data.h"
#include "dataset/sampler.h"
#include "model/stage_model.h"
#include "model/synthetic_stage.h"
#include "replica/methods/replica_method.h"

namespace shoal::daemon {
namespace {

constexpr std::string_view kWeightSuffix = ".safetensors";
constexpr std::string_view kOptimizerSuffix = ".optimizer";
constexpr const char* kDataName = "data";
// What is not measured by then is far away, or the line is full.
constexpr Duration kRoundTripsWait = std::chrono::seconds(3);
constexpr Duration kRoundTripsLook = std::chrono::milliseconds(50);
constexpr char kStateFolder[] = "/stage-state";  // beside the checkpoints

bool EndsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

// What the run's codecs keep of a sample.
Result<storage::DeltaImages> ImagesOf(const pipeline::RunnerConfig& config) {
  const compression::SampleShape shape{config.row_tokens, config.hidden};
  SHOAL_ASSIGN_OR_RETURN(const auto forward,
                         compression::MakeCodec(config.forward_codec, config.hidden));
  SHOAL_ASSIGN_OR_RETURN(const auto backward,
                         compression::MakeCodec(config.backward_codec, config.hidden));
  const auto bytes = [&](const compression::MessageCodec& codec) {
    return compression::KeptBytes(codec, shape, config.micro_batch_rows, config.segment_bytes_min);
  };
  return storage::DeltaImages{.m = forward->keeps_m() ? bytes(*forward) : 0,
                              .residual = backward->keeps_residual() ? bytes(*backward) : 0};
}

}  // namespace

// What the store and compute threads made of the artefacts.
struct StageHost::Loaded {
  std::map<std::string, std::string> weight_files;
  std::map<std::string, std::string> optimizer_files;
  std::shared_ptr<const dataset::PreparedData> data;
  std::unique_ptr<model::StageModel> model;
  std::shared_ptr<const model::SyntheticMeter> meter;  // of a synthetic stage
};

struct StageHost::Saved {
  std::uint64_t step = 0;  // steps applied
  bool upload = false;
  std::vector<storage::ArtefactRef> files;
  std::vector<std::string> paths;
  std::vector<RunId> runs;  // that have checkpoints here
  std::size_t uploaded = 0;
};

StageHost::StageHost(const StageResources& resources, Owner* owner, control::v1::Plan plan,
                     control::v1::Position own)
    : resources_(resources),
      owner_(owner),
      plan_(std::move(plan)),
      own_(std::move(own)),
      alive_(std::make_shared<bool>(true)),
      steps_([this](control::v1::PeerMessage message) { owner_->Tell(std::move(message)); }),
      fetcher_(resources.control, resources.store, resources.content) {}

StageHost::~StageHost() {
  SHOAL_ASSERT_ON(*resources_.control);
  *alive_ = false;
  runner_.reset();
  if (loaded_) {
    // The model belongs to the compute thread; its memory must be free before the next is loaded.
    resources_.compute->Post("stage.free",
                             [loaded = std::move(loaded_)] { loaded->model.reset(); });
  }
}

template <typename T>
void StageHost::Run(Executor* executor, const char* name, std::function<T()> task,
                    std::function<void(T)> then) {
  executor->Post(name, [control = resources_.control, alive = alive_, name, task = std::move(task),
                        then = std::move(then)] {
    auto result = std::make_shared<T>(task());
    control->Post(name, [alive, result, then] {
      if (*alive) then(std::move(*result));
    });
  });
}

void StageHost::Start() {
  SHOAL_ASSERT_ON(*resources_.control);
  if (Status checked = CheckPlan(plan_); !checked.ok()) return FailPlan(checked);
  std::vector<storage::ArtefactRef> artefacts;
  for (const control::v1::ArtefactRef& proto : plan_.artefacts()) {
    Result<storage::ArtefactRef> ref = ToRef(proto);
    if (!ref.ok()) return FailPlan(ref.status());
    artefacts.push_back(std::move(*ref));
  }
  if (owner_->client() == nullptr) return FailPlan(Unavailable("not connected to the scheduler"));
  owner_->OnStageState(PeerState::kSyncing, "fetching weights and data");
  fetcher_.Start(owner_->client(), std::move(artefacts),
                 [this](Status status) { OnFetched(std::move(status)); });
}

void StageHost::OnFetched(Status status) {
  if (!status.ok()) return FailPlan(status);
  owner_->OnStageState(PeerState::kSyncing, "loading the stage");
  Run<Result<std::shared_ptr<Loaded>>>(
      resources_.store, "stage.find",
      [content = resources_.content, plan = plan_]() -> Result<std::shared_ptr<Loaded>> {
        auto loaded = std::make_shared<Loaded>();
        for (const control::v1::ArtefactRef& proto : plan.artefacts()) {
          SHOAL_ASSIGN_OR_RETURN(const storage::ArtefactRef ref, ToRef(proto));
          SHOAL_ASSIGN_OR_RETURN(const std::string path, content->PathOf(ref.hash));
          if (ref.name == kDataName) {
            SHOAL_ASSIGN_OR_RETURN(loaded->data, dataset::OpenPreparedData(path));
          } else if (EndsWith(ref.name, kOptimizerSuffix)) {
            const std::string part = ref.name.substr(0, ref.name.size() - kOptimizerSuffix.size());
            loaded->optimizer_files[part] = path;
          } else {
            loaded->weight_files[ref.name] = path;
          }
        }
        return loaded;
      },
      [this](Result<std::shared_ptr<Loaded>> loaded) {
        if (!loaded.ok()) return FailPlan(loaded.status());
        LoadStage(std::move(*loaded));
      });
}

void StageHost::LoadStage(std::shared_ptr<Loaded> loaded) {
  model::StageOptions options;
  const control::v1::RunConfig& run = plan_.config();
  options.range = {own_.first_layer(), own_.last_layer()};
  options.device = resources_.config->device;
  options.threads = static_cast<int>(resources_.config->threads);
  options.compute = run.compute();
  options.dropout = run.dropout();
  options.fresh_masks = run.dropout_masks() == "fresh";
  options.seed = run.seed();
  options.recompute = run.recompute();
  options.optimizer = {run.beta1(), run.beta2(), run.epsilon(), run.weight_decay(),
                       run.clip_norm()};
  // A single pipeline has nobody to share with, whatever the method.
  const auto method =
      replica::ParseReplicaMethod(run.pipelines() > 1 ? run.replica_method() : "average");
  if (!method.ok()) return FailPlan(method.status());
  if (method->traits.shards_moments) {
    options.held =
        method->traits.shards_parameters ? model::ZeroMode::kZero3 : model::ZeroMode::kZero1;
    options.state_folder = resources_.config->directory + kStateFolder;
  }
  Run<Result<std::shared_ptr<Loaded>>>(
      resources_.compute, "stage.load",
      [loaded = std::move(loaded), options, json = run.model_config_json(),
       synthetic = resources_.config->synthetic]() -> Result<std::shared_ptr<Loaded>> {
        SHOAL_ASSIGN_OR_RETURN(const storage::ModelConfig config,
                               storage::ParseModelConfig(json, "the run's config.json"));
        if (synthetic) {
          auto meter = std::make_shared<model::SyntheticMeter>();
          loaded->meter = meter;
          SHOAL_ASSIGN_OR_RETURN(loaded->model,
                                 model::NewSyntheticStage(config, options, *synthetic, meter));
        } else {
          SHOAL_ASSIGN_OR_RETURN(loaded->model, model::NewTorchGpt2Stage(config, options));
        }
        SHOAL_RETURN_IF_ERROR(loaded->model->Load(loaded->weight_files, loaded->optimizer_files));
        return loaded;
      },
      [this](Result<std::shared_ptr<Loaded>> result) { OnLoaded(std::move(result)); });
}

void StageHost::OnLoaded(Result<std::shared_ptr<Loaded>> loaded) {
  if (!loaded.ok()) return FailPlan(loaded.status().WithContext("loading the stage"));
  loaded_ = std::move(*loaded);
  device_name_ = loaded_->model->device_name();
  if (Status status = StartRunner(); !status.ok()) FailPlan(status);
}

Result<pipeline::RunnerConfig> StageHost::MakeRunnerConfig() const {
  const control::v1::RunConfig& run = plan_.config();
  pipeline::RunnerConfig config;
  config.run = RunId{run.run()};
  config.seed = run.seed();
  config.steps = run.steps();
  config.generation = plan_.generation();
  config.stage = own_.stage();
  config.stages = run.stages();
  config.pipeline = own_.pipeline();
  config.pipelines = run.pipelines();
  config.micro_batch_rows = run.micro_batch_rows();
  config.row_tokens = run.row_tokens();
  config.hidden = loaded_->model->config().hidden;
  config.forward_codec = run.forward_codec();
  config.backward_codec = run.backward_codec();
  config.replica_method = run.replica_method();
  config.lans = LansOf(plan_, config.stage);
  config.embedding_lans = EmbeddingLansOf(plan_);
  SHOAL_ASSIGN_OR_RETURN(config.schedule, pipeline::ParseSchedulePolicy(run.schedule()));
  config.in_flight_max = run.in_flight_max();
  config.activation_memory_bytes = resources_.config->activation_bytes;
  // A quarter of the store's memory, for two boundaries.
  config.prefetch_bytes = resources_.config->store_memory_bytes / 8;
  config.resume_step = plan_.resume_step();
  return config;
}

// Tells how much m and residuals this peer will keep, before the first step, against quota and free
// disk.
void StageHost::ShowDeltaSize(const pipeline::RunnerConfig& config,
                              const storage::DeltaImages& sample) {
  const control::v1::RunConfig& run = plan_.config();
  const std::uint64_t own = dataset::SamplesOfPipeline(run.train_rows(), run.micro_batches(),
                                                       config.pipeline, config.pipelines);
  const auto size = storage::ComputeDeltaSize(sample, run.train_rows(), own, config.stages);
  const std::uint64_t boundaries = (config.stage > 0) + (config.stage + 1 < config.stages);
  const std::uint64_t quota = resources_.config->delta_store_bytes;
  const bool tight = resources_.config->store_space == "tight";
  budget_.delta_sample_bytes = sample.m;
  budget_.residual_sample_bytes = sample.residual;
  budget_.delta_store_bytes =
      boundaries * size.boundary_bytes + (config.stage > 0 ? size.residual_bytes : 0);
  budget_.delta_disk_bytes = storage::DeltaDiskBytesMax(
      tight ? storage::StoreSpace::kTight : storage::StoreSpace::kDefault,
      quota == 0 ? budget_.delta_store_bytes : std::min(budget_.delta_store_bytes, quota));
  struct statvfs info {};
  if (::statvfs(resources_.config->directory.c_str(), &info) == 0) {
    budget_.disk_free_bytes = std::uint64_t{info.f_bavail} * info.f_frsize;
  }
  if (size.all_bytes == 0) return;
  SHOAL_LOG(kInfo, "daemon", "stage.m", {"per_sample", FormatBytes(sample.m)},
            {"per_boundary", FormatBytes(size.boundary_bytes)},
            {"residual_per_sample", FormatBytes(sample.residual)},
            {"residual_at_upper_end", FormatBytes(size.residual_bytes)},
            {"in_all", FormatBytes(budget_.delta_store_bytes)},
            {"files_up_to", FormatBytes(budget_.delta_disk_bytes)},
            {"quota", quota == 0 ? "none" : FormatBytes(quota)},
            {"disk_free", FormatBytes(budget_.disk_free_bytes)});
}

Status StageHost::StartRunner() {
  SHOAL_ASSIGN_OR_RETURN(const pipeline::RunnerConfig config, MakeRunnerConfig());
  const bool needs_data = config.stage == 0 || config.stage + 1 == config.stages;
  if (needs_data && loaded_->data == nullptr) {
    return InvalidArgument("the plan gives this stage no data");
  }
  if (needs_data && loaded_->data->info().row_tokens != config.row_tokens) {
    return InvalidArgument("the data's rows have " +
                           std::to_string(loaded_->data->info().row_tokens) +
                           " tokens, the run's have " + std::to_string(config.row_tokens));
  }
  if (needs_data && loaded_->data->info().vocabulary > loaded_->model->config().vocabulary) {
    return InvalidArgument("the data was prepared with another tokenizer: it has token ids up to " +
                           std::to_string(loaded_->data->info().vocabulary - 1) +
                           ", the model knows " +
                           std::to_string(loaded_->model->config().vocabulary) + " tokens");
  }
  SHOAL_ASSIGN_OR_RETURN(const storage::DeltaImages images, ImagesOf(config));
  const model::StageModel& model = *loaded_->model;
  budget_.state_bytes = model.StateBytes();
  budget_.micro_batch_bytes = model.MicroBatchBytes(config.micro_batch_rows, config.row_tokens);
  ShowDeltaSize(config, images);
  pipeline::StageRunner::Dependencies dependencies;
  dependencies.control = resources_.control;
  dependencies.compute = resources_.compute;
  dependencies.codec = resources_.codec;
  dependencies.store = resources_.store;
  dependencies.hub = resources_.hub;
  dependencies.model = loaded_->model.get();
  dependencies.delta_store = resources_.delta_store;
  dependencies.data = loaded_->data;
  dependencies.mediator = this;
  SHOAL_ASSIGN_OR_RETURN(runner_, pipeline::NewStageRunner(config, dependencies));
  owner_->OnStageState(PeerState::kSyncing, "connecting to neighbours");
  runner_->Start(MakeTargets());
  return Status::Ok();
}

net::LinkTarget StageHost::TargetOf(std::uint32_t pipeline, std::uint32_t stage,
                                    std::string channel) const {
  net::LinkTarget target;
  for (const control::v1::Position& position : plan_.positions()) {
    if (position.pipeline() != pipeline || position.stage() != stage) continue;
    target.peer = ToPeerId(position.peer());
    target.addresses.assign(position.addresses().begin(), position.addresses().end());
    target.run = RunId{plan_.config().run()};
    target.generation = plan_.generation();
    target.channel = std::move(channel);
    break;
  }
  return target;
}

pipeline::LinkTargets StageHost::MakeTargets() const {
  pipeline::LinkTargets targets;
  const std::uint32_t pipeline = own_.pipeline();
  const std::uint32_t stage = own_.stage();
  const std::uint32_t last = plan_.config().stages() - 1;
  const std::string p = std::to_string(pipeline);
  if (stage < last) {
    targets.next = TargetOf(pipeline, stage + 1, "boundary/" + p + "/" + std::to_string(stage));
  }
  if (stage > 0) {
    targets.previous =
        TargetOf(pipeline, stage - 1, "boundary/" + p + "/" + std::to_string(stage - 1));
  }
  if (last > 0 && (stage == 0 || stage == last) && loaded_->model->config().tied_head) {
    for (std::uint32_t other = 0; other < plan_.config().pipelines(); ++other) {
      const std::uint32_t low = stage == 0 ? pipeline : other, high = stage == 0 ? other : pipeline;
      const std::string ends = std::to_string(low) + "-" + std::to_string(high);
      targets.embedding.push_back(TargetOf(other, stage == 0 ? last : 0, "embedding/" + ends));
    }
  }
  for (std::uint32_t other = 0; other < plan_.config().pipelines(); ++other) {
    const std::string pair =
        std::to_string(std::min(other, pipeline)) + "-" + std::to_string(std::max(other, pipeline));
    targets.group.push_back(TargetOf(other, stage, "group/" + std::to_string(stage) + "/" + pair));
  }
  return targets;
}

void StageHost::OnStepPlan(const control::v1::StepPlan& plan) {
  SHOAL_ASSERT_ON(*resources_.control);
  if (!runner_ || static_cast<int>(own_.pipeline()) >= plan.pipelines_size()) return;
  runner_->OnStepPlan(ToStepPlan(plan, own_, plan_.config()));
}

void StageHost::OnReduce(const control::v1::Reduce& reduce) {
  if (!runner_) return;
  runner_->OnReduce(ToReduceOrder(reduce));
}

void StageHost::OnApply(const control::v1::Apply& apply) {
  if (!runner_) return;
  steps_.OnOrder(apply);
  runner_->OnApply({apply.step(), apply.global_norm(), apply.learning_rate(), apply.labels()});
}

void StageHost::OnFinished() {
  SHOAL_ASSERT_ON(*resources_.control);
  failed_ = true;  // nothing that comes now is worth a report
  if (runner_) runner_->OnFinished();
}

pipeline::RunnerStats StageHost::stats() const {
  return runner_ ? runner_->stats() : pipeline::RunnerStats{};
}

std::vector<net::LinkStats> StageHost::link_stats() const {
  return runner_ ? runner_->link_stats() : std::vector<net::LinkStats>{};
}

std::optional<double> StageHost::synthetic_cpu_ms() const {
  SHOAL_ASSERT_ON(*resources_.control);
  if (!loaded_ || !loaded_->meter) return std::nullopt;
  return static_cast<double>(loaded_->meter->cpu_ns.load(std::memory_order_relaxed)) * 1e-6;
}

void StageHost::OnReady() {
  const auto method = replica::ParseReplicaMethod(plan_.config().replica_method());
  const bool lans = method.ok() && method->traits.measures_lans && plan_.config().pipelines() > 1;
  if (!lans) return TellReady();
  owner_->OnStageState(PeerState::kSyncing, "measuring how far the other pipelines' peers are");
  AwaitRoundTrips(resources_.control->clock().Now() + kRoundTripsWait);
}

void StageHost::AwaitRoundTrips(TimePoint until) {
  const std::vector<net::LinkStats> links = link_stats();
  const bool all = std::all_of(links.begin(), links.end(), [](const net::LinkStats& link) {
    return link.pings >= net::kFirstPings || !IsGroupLink(link);
  });
  if (all || resources_.control->clock().Now() >= until) return TellReady();
  resources_.control->PostAfter("stage.round_trips", kRoundTripsLook,
                                [this, alive = alive_, until] {
                                  if (*alive && !failed_) AwaitRoundTrips(until);
                                });
}

void StageHost::TellReady() {
  const std::uint64_t shards = runner_->stats().shard_bytes;
  SHOAL_LOG(kInfo, "daemon", "stage.memory", {"state", FormatBytes(budget_.state_bytes + shards)},
            {"of_shards", FormatBytes(shards)},
            {"micro_batch", FormatBytes(budget_.micro_batch_bytes)}, {"device", device_name_});
  control::v1::PeerMessage message;
  message.mutable_plan_ready()->set_generation(plan_.generation());
  AddRoundTrips(link_stats(), message.mutable_plan_ready());
  owner_->Tell(std::move(message));
  owner_->OnStageState(PeerState::kTraining, "");
}

void StageHost::OnStepReady(const pipeline::StepReady& ready) {
  control::v1::PeerMessage message;
  control::v1::StepReady* proto = message.mutable_step_ready();
  proto->set_generation(plan_.generation());
  proto->set_step(ready.step);
  proto->set_micro_batches(ready.micro_batches);
  proto->set_labels(ready.labels);
  proto->set_loss_sum(ready.loss_sum);
  proto->set_squared_norm(ready.squared_norm);
  control::v1::StageTiming* timing = proto->mutable_timing();
  timing->set_forward_ms(ready.times.forward_ms);
  timing->set_backward_ms(ready.times.backward_input_ms + ready.times.backward_weights_ms);
  timing->set_backward_weights_ms(ready.times.backward_weights_ms);
  timing->set_round_trip_ms(ready.times.round_trip_ms);
  timing->set_send_forward_ms(ready.times.send_forward_ms);
  timing->set_send_backward_ms(ready.times.send_backward_ms);
  timing->set_micro_batch_bytes(ready.times.micro_batch_bytes);
  timing->set_pending_weights_bytes(ready.times.pending_weights_bytes);
  owner_->Tell(std::move(message));
}

void StageHost::OnSyncDone(std::uint64_t step, double squared_norm) {
  control::v1::PeerMessage message;
  control::v1::SyncDone* proto = message.mutable_sync_done();
  proto->set_generation(plan_.generation());
  proto->set_step(step);
  proto->set_squared_norm(squared_norm);
  const replica::ExactExchange exchange = runner_->stats().exchange;
  proto->set_exchange_ms(exchange.ms);
  proto->set_exact_values(exchange.values);
  proto->set_factor_values(exchange.factor_values);
  owner_->Tell(std::move(message));
}

void StageHost::OnApplied(std::uint64_t step,
                          const std::vector<pipeline::BoundaryChecksum>& places) {
  boundaries_ = places;
  control::v1::PeerMessage message;
  control::v1::Applied* proto = message.mutable_applied();
  proto->set_generation(plan_.generation());
  proto->set_step(step);
  for (const pipeline::BoundaryChecksum& place : places) {
    if (place.side == storage::BoundarySide::kResidual) continue;  // no other end to compare with
    control::v1::BoundaryChecksum* item = proto->add_boundaries();
    item->set_boundary(place.boundary);
    item->set_receiver(place.side == storage::BoundarySide::kReceiver);
    item->set_checksum(place.checksum);
    item->set_records(place.records);
  }
  steps_.OnApplied(step, std::move(message));
}

// Tasks of compute run in order, so that both see the weights before a further step changes them.
void StageHost::OnModelApplied(std::uint64_t step) {
  const control::v1::Apply* const order = steps_.Find(step);
  if (order == nullptr) return;
  Run<std::uint64_t>(
      resources_.compute, "stage.checksum",
      [loaded = loaded_] { return loaded->model->WeightChecksum(); },
      [this, step](std::uint64_t checksum) { steps_.OnChecksum(step, checksum); });
  if (order->checkpoint()) SaveCheckpoint(step + 1, order->upload());
}

void StageHost::SaveCheckpoint(std::uint64_t step, bool upload) {
  const RunId run{plan_.config().run()};
  const int keep = static_cast<int>(std::max(1u, plan_.config().checkpoint_keep()));
  using Outcome = Result<std::shared_ptr<Saved>>;
  Run<Outcome>(
      resources_.compute, "checkpoint.save",
      [loaded = loaded_, checkpoints = resources_.checkpoints, run, step, keep,
       upload]() -> Outcome {
        SHOAL_ASSIGN_OR_RETURN(
            const storage::Checkpoint checkpoint,
            checkpoints->Save(
                run, step,
                [&loaded](const std::string& folder) { return loaded->model->Save(folder); },
                keep));
        auto saved = std::make_shared<Saved>();
        saved->step = step;
        saved->upload = upload;
        for (const storage::StoredRun& kept : checkpoints->Runs()) saved->runs.push_back(kept.run);
        for (const storage::ArtefactRef& file : checkpoint.files) {
          if (!EndsWith(file.name, kWeightSuffix)) continue;
          storage::ArtefactRef ref = file;
          ref.name.resize(ref.name.size() - kWeightSuffix.size());
          saved->files.push_back(std::move(ref));
          saved->paths.push_back(checkpoint.folder + "/" + file.name);
        }
        return saved;
      },
      [this, step](const Outcome& saved) {
        steps_.OnSaved(step - 1, [this, step, saved] {
          if (saved.ok()) return OnSaved(*saved);
          Saved failed;
          failed.step = step;
          TellCheckpoint(failed, saved.status());
        });
      });
}

// The files become blobs of the content store too (hard links), so that resuming from this
// checkpoint fetches nothing.
void StageHost::OnSaved(std::shared_ptr<Saved> saved) {
  std::vector<storage::ContentHash> keep = previous_checkpoint_;
  previous_checkpoint_.clear();
  for (const storage::ArtefactRef& file : saved->files) {
    keep.push_back(file.hash);
    previous_checkpoint_.push_back(file.hash);
  }
  for (const control::v1::ArtefactRef& proto : plan_.artefacts()) {
    if (const auto ref = ToRef(proto); ref.ok()) keep.push_back(ref->hash);
  }
  Run<Status>(
      resources_.store, "checkpoint.link",
      [content = resources_.content, deltas = resources_.delta_store, saved,
       keep = std::move(keep)] {
        return KeepCheckpoint({saved->paths, keep, saved->runs}, content, deltas);
      },
      [this, saved](Status status) {
        if (!status.ok() || !saved->upload) return TellCheckpoint(*saved, status);
        UploadNext(saved);
      });
}

void StageHost::UploadNext(std::shared_ptr<Saved> saved) {
  if (saved->uploaded == saved->files.size()) return TellCheckpoint(*saved, Status::Ok());
  if (owner_->client() == nullptr) return;  // the run is being aborted
  const storage::ArtefactRef& file = saved->files[saved->uploaded];
  auto mapped = MappedFile::Open(saved->paths[saved->uploaded]);
  if (!mapped.ok()) return TellCheckpoint(*saved, mapped.status());
  const auto& digest = file.hash.digest;
  owner_->client()->Upload(
      std::string(reinterpret_cast<const char*>(digest.data()), digest.size()), file.size,
      [mapped = *mapped](std::uint64_t offset, std::size_t size) -> Result<std::string> {
        const auto bytes = mapped->bytes();
        if (offset > bytes.size()) return OutOfRange("upload behind the end of the file");
        const auto part = bytes.subspan(offset, std::min<std::size_t>(size, bytes.size() - offset));
        return std::string(reinterpret_cast<const char*>(part.data()), part.size());
      },
      [this, alive = alive_, saved](Status status) {
        if (!*alive) return;
        if (!status.ok()) return TellCheckpoint(*saved, status);
        ++saved->uploaded;
        UploadNext(saved);
      });
}

void StageHost::TellCheckpoint(const Saved& saved, const Status& status) {
  control::v1::PeerMessage message;
  control::v1::CheckpointDone* proto = message.mutable_checkpoint_done();
  proto->set_generation(plan_.generation());
  proto->set_step(saved.step);
  if (!status.ok()) {
    proto->set_error(status.ToString());
    SHOAL_LOG(kError, "daemon", "checkpoint.failed", {"step", saved.step},
              {"error", status.ToString()});
  } else if (saved.upload) {
    for (const storage::ArtefactRef& file : saved.files) {
      control::v1::ArtefactRef* ref = proto->add_files();
      ref->set_name(file.name);
      ref->set_hash(file.hash.digest.data(), file.hash.digest.size());
      ref->set_size(file.size);
    }
  }
  owner_->Tell(std::move(message));
}

void StageHost::OnFailed(Status status, const PeerId* peer) {
  if (peer == nullptr) return FailPlan(status);
  if (std::exchange(failed_, true)) return;
  SHOAL_LOG(kWarning, "daemon", "link.broken", {"peer", peer->ToShort()},
            {"error", status.ToString()});
  control::v1::PeerMessage message;
  control::v1::LinkBroken* proto = message.mutable_link_broken();
  proto->set_generation(plan_.generation());
  proto->set_peer(peer->key.data(), peer->key.size());
  proto->set_error(status.message());
  owner_->Tell(std::move(message));
  const std::string text = "the link to peer " + peer->ToShort() + " broke: " + status.message();
  owner_->OnLinkTrouble(text);
  owner_->OnStageState(PeerState::kWaiting, text);
}

void StageHost::FailPlan(const Status& status) {
  if (std::exchange(failed_, true)) return;
  SHOAL_LOG(kError, "daemon", "stage.failed", {"error", status.ToString()});
  control::v1::PeerMessage message;
  control::v1::PlanFailed* proto = message.mutable_plan_failed();
  proto->set_generation(plan_.generation());
  proto->set_error(status.ToString());
  owner_->Tell(std::move(message));
  owner_->OnStageState(PeerState::kWaiting, status.ToString());
}

}  // namespace shoal::daemon
