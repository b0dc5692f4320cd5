#include "daemon/stage_host.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "compression/device/device_values.h"
#include "daemon/stage_messages.h"
#include "daemon/stage_setup.h"
#include "dataset/prepared_data.h"
#include "model/families/adapter_config.h"
#include "model/families/family.h"
#include "model/families/trained_part.h"
#include "model/stage_model.h"
#include "model/synthetic_stage.h"
#include "replica/methods/replica_method.h"

namespace shoal::daemon {
namespace {

constexpr std::string_view kOptimizerSuffix = ".optimizer";
constexpr const char* kDataName = "data";
// What is not measured by then is far away, or the line is full.
constexpr Duration kRoundTripsWait = std::chrono::seconds(3);
constexpr Duration kRoundTripsLook = std::chrono::milliseconds(50);

bool EndsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

Result<model::ModelSpec> ModelOf(const std::string& json, const std::string& adapter) {
  SHOAL_ASSIGN_OR_RETURN(model::ModelSpec spec,
                         model::ParseModelSpec(json, "the run's config.json"));
  if (adapter.empty()) return spec;
  SHOAL_ASSIGN_OR_RETURN(const model::AdapterConfig config,
                         model::ParseAdapterConfig(adapter, "the run's adapter"));
  SHOAL_RETURN_IF_ERROR(model::Adapt(config, &spec).WithContext("the run's adapter"));
  return spec;
}

}  // namespace

// What the store and compute threads made of the artefacts.
struct StageHost::Loaded {
  std::map<std::string, std::string> weight_files;
  std::map<std::string, std::string> optimizer_files;
  std::map<std::string, std::string> base_files;
  std::shared_ptr<const dataset::PreparedData> data;
  // Of data and of weights that are not trained: no checkpoint has them, and a plan in place names
  // none of what was fetched.
  std::vector<storage::ContentHash> unchanging;
  std::unique_ptr<model::StageModel> model;
  std::shared_ptr<const compression::ValueHome> home;  // of the model's values; null: the host
  std::shared_ptr<const model::SyntheticMeter> meter;  // of a synthetic stage
  pipeline::KeptMemories kept;                         // that go with the weights in `model`

  Status MakeModel(const NewStage& new_stage, const model::ModelSpec& spec,
                   model::StageOptions options);
};

// Values stay on the device if there is one and this build has code for it.
Status StageHost::Loaded::MakeModel(const NewStage& new_stage, const model::ModelSpec& spec,
                                    model::StageOptions options) {
  options.values_on_device = true;
  SHOAL_ASSIGN_OR_RETURN(model, new_stage(spec, options));
  const std::shared_ptr<DeviceMemory> memory = model->values_memory();
  if (memory == nullptr) return Status::Ok();
  auto there = compression::CudaValues(memory);
  if (there.ok()) {
    home = std::move(there).value();
    return Status::Ok();
  }
  SHOAL_LOG(kWarning, "daemon", "values.on_host", {"reason", there.status().message()});
  options.values_on_device = false;
  model.reset();  // its memory first
  SHOAL_ASSIGN_OR_RETURN(model, new_stage(spec, options));
  return Status::Ok();
}

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
  steps_.ReportSaved();
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
  Status checked = prepares_ ? CheckRun(plan_.config()) : CheckPlan(plan_);
  if (!checked.ok()) return FailPlan(checked);
  std::vector<storage::ArtefactRef> artefacts;
  for (const control::v1::ArtefactRef& proto : plan_.artefacts()) {
    Result<storage::ArtefactRef> ref = ToRef(proto);
    if (!ref.ok()) return FailPlan(ref.status());
    artefacts.push_back(std::move(*ref));
  }
  if (owner_->client() == nullptr) return FailPlan(Unavailable("not connected to the scheduler"));
  owner_->OnStageState(PeerState::kSyncing, "fetching weights and data");
  fetcher_.Start([owner = owner_] { return owner->client(); }, std::move(artefacts),
                 [this](Status status) { OnFetched(std::move(status)); });
}

void StageHost::OnFetched(Status status) {
  SHOAL_ASSERT_ON(*resources_.control);
  if (settling_) return;
  if (!status.ok()) return FailPlan(status);
  owner_->OnStageState(PeerState::kSyncing, "loading the stage");
  Run<Result<std::shared_ptr<Loaded>>>(
      resources_.store, "stage.find",
      [content = resources_.content, plan = plan_]() -> Result<std::shared_ptr<Loaded>> {
        auto loaded = std::make_shared<Loaded>();
        for (const control::v1::ArtefactRef& proto : plan.artefacts()) {
          SHOAL_ASSIGN_OR_RETURN(const storage::ArtefactRef ref, ToRef(proto));
          SHOAL_ASSIGN_OR_RETURN(const std::string path, content->PathOf(ref.hash));
          if (ref.name == kDataName || EndsWith(ref.name, model::kBaseSuffix)) {
            loaded->unchanging.push_back(ref.hash);
          }
          if (ref.name == kDataName) {
            SHOAL_ASSIGN_OR_RETURN(loaded->data, dataset::OpenPreparedData(path));
          } else if (EndsWith(ref.name, kOptimizerSuffix)) {
            const std::string part = ref.name.substr(0, ref.name.size() - kOptimizerSuffix.size());
            loaded->optimizer_files[part] = path;
          } else if (EndsWith(ref.name, model::kBaseSuffix)) {
            const std::string part =
                ref.name.substr(0, ref.name.size() - model::kBaseSuffix.size());
            loaded->base_files[part] = path;
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
  if (settling_) return;
  Result<model::StageOptions> options = StageOptionsOf(plan_, own_, *resources_.config);
  if (!options.ok()) return FailPlan(options.status());
  Run<Result<std::shared_ptr<Loaded>>>(
      resources_.compute, "stage.load",
      [loaded = std::move(loaded), options = std::move(*options),
       json = plan_.config().model_config_json(), adapter = plan_.config().adapter_config_json(),
       prepares = prepares_, new_stage = resources_.new_stage,
       synthetic = resources_.config->synthetic]() -> Result<std::shared_ptr<Loaded>> {
        SHOAL_ASSIGN_OR_RETURN(const model::ModelSpec spec, ModelOf(json, adapter));
        if (synthetic) {
          auto meter = std::make_shared<model::SyntheticMeter>();
          loaded->meter = meter;
          SHOAL_ASSIGN_OR_RETURN(loaded->model,
                                 model::NewSyntheticStage(spec, options, *synthetic, meter));
        } else {
          SHOAL_RETURN_IF_ERROR(loaded->MakeModel(new_stage, spec, options));
        }
        SHOAL_RETURN_IF_ERROR(loaded->model->LoadBase(loaded->base_files));
        if (prepares) return loaded;  // the rest is zeros, until it comes from the group
        SHOAL_RETURN_IF_ERROR(loaded->model->Load(loaded->weight_files, loaded->optimizer_files));
        return loaded;
      },
      [this](Result<std::shared_ptr<Loaded>> result) { OnLoaded(std::move(result)); });
}

void StageHost::OnLoaded(Result<std::shared_ptr<Loaded>> loaded) {
  if (settling_) return;
  if (!loaded.ok()) return FailPlan(loaded.status().WithContext("loading the stage"));
  loaded_ = std::move(*loaded);
  device_name_ = loaded_->model->device_name();
  if (!loaded_->meter) device_name_ += ", " + loaded_->model->options().compute;
  if (prepares_) return TellPrepared(Status::Ok());
  if (Status status = StartRunner(); !status.ok()) FailPlan(status);
}

Status StageHost::StartRunner() {
  SHOAL_ASSIGN_OR_RETURN(pipeline::RunnerConfig config,
                         RunnerConfigOf(plan_, own_, loaded_->model->spec(), *resources_.config));
  config.missing = missing_;
  config.timeouts = resources_.timeouts;
  SHOAL_RETURN_IF_ERROR(CheckData(config, loaded_->data.get(), loaded_->model->spec().vocabulary));
  SHOAL_ASSIGN_OR_RETURN(budget_, BudgetOf(config, plan_.config(), *resources_.config));
  const model::StageModel& model = *loaded_->model;
  budget_.state_bytes = model.StateBytes();
  budget_.micro_batch_bytes = model.MicroBatchBytes(config.micro_batch_rows, config.row_tokens);
  pipeline::StageRunner::Dependencies dependencies;
  dependencies.control = resources_.control;
  dependencies.compute = resources_.compute;
  dependencies.codec = resources_.codec;
  dependencies.store = resources_.store;
  dependencies.hub = resources_.hub;
  dependencies.model = loaded_->model.get();
  dependencies.home = loaded_->home;
  dependencies.kept = &loaded_->kept;
  dependencies.delta_store = resources_.delta_store;
  dependencies.data = loaded_->data;
  dependencies.mediator = this;
  SHOAL_ASSIGN_OR_RETURN(runner_, pipeline::NewStageRunner(config, dependencies));
  owner_->OnStageState(PeerState::kSyncing, "connecting to neighbours");
  sharing_ = config.sharing;
  runner_->Start(LinkTargetsOf(plan_, own_, sharing_));
  return Status::Ok();
}

void StageHost::OnStepPlan(const control::v1::StepPlan& plan) {
  SHOAL_ASSERT_ON(*resources_.control);
  if (!runner_ || static_cast<int>(own_.pipeline()) >= plan.pipelines_size()) return;
  if (plan.amendment() > 0) ForgetReports();
  if (plan.lost_size() > 0) ShowTraining(whole_ && !LosesIn(plan, own_.pipeline()));
  runner_->OnStepPlan(ToStepPlan(plan, own_, plan_.config(), sharing_));
}

void StageHost::OnSpotCheck(const control::v1::SpotCheck& check) {
  SHOAL_ASSERT_ON(*resources_.control);
  if (!runner_) return;
  if (auto order = SpotOrderOf(plan_, own_, check)) runner_->OnSpotOrder(*std::move(order));
}

void StageHost::OnReduce(const control::v1::Reduce& reduce) {
  SHOAL_ASSERT_ON(*resources_.control);
  if (!runner_) return;
  if (last_reduce_ && last_reduce_->SerializeAsString() == reduce.SerializeAsString()) {
    if (last_sync_) owner_->Tell(*last_sync_);
    return;
  }
  last_reduce_ = reduce;
  runner_->OnReduce(ToReduceOrder(reduce));
}

void StageHost::OnApply(const control::v1::Apply& apply) {
  SHOAL_ASSERT_ON(*resources_.control);
  if (!runner_) return;
  ForgetReports();
  steps_.OnOrder(apply);
  last_apply_ = apply;
  last_apply_->clear_checkpoint();
  last_apply_->clear_check_weights();
  runner_->OnApply(ToApplyOrder(apply));
}

bool StageHost::synced() const {
  SHOAL_ASSERT_ON(*resources_.control);
  return runner_ != nullptr && runner_->synced();
}

void StageHost::ApplyHeld(const control::v1::Apply& apply) {
  SHOAL_ASSERT_ON(*resources_.control);
  if (!synced() || (held_ && held() != apply.step())) return;
  last_apply_ = apply;
  runner_->OnApply(ToApplyOrder(apply));
  held_.reset();
  settling_ = false;
  Settle();
}

void StageHost::OnFinished() {
  SHOAL_ASSERT_ON(*resources_.control);
  failed_ = true;  // nothing that comes now is worth a report
  if (runner_) runner_->OnFinished();
}

pipeline::RunnerStats StageHost::stats() const {
  SHOAL_ASSERT_ON(*resources_.control);
  return runner_ ? runner_->stats() : pipeline::RunnerStats{};
}

std::vector<net::LinkStats> StageHost::link_stats() const {
  SHOAL_ASSERT_ON(*resources_.control);
  return runner_ ? runner_->link_stats() : std::vector<net::LinkStats>{};
}

std::optional<double> StageHost::synthetic_cpu_ms() const {
  SHOAL_ASSERT_ON(*resources_.control);
  if (!loaded_ || !loaded_->meter) return std::nullopt;
  return static_cast<double>(loaded_->meter->cpu_ns.load(std::memory_order_relaxed)) * 1e-6;
}

void StageHost::OnReady() {
  SHOAL_ASSERT_ON(*resources_.control);
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
  ShowTraining(IsWhole(plan_, own_.pipeline()));
}

void StageHost::ShowTraining(bool whole) {
  whole_ = whole;
  owner_->OnStageState(PeerState::kTraining, FollowsText(own_.shadow() && !caught_up_, whole));
}

void StageHost::OnStepReady(const pipeline::StepReady& ready) {
  SHOAL_ASSERT_ON(*resources_.control);
  last_ready_ = StepReadyMessage(plan_.generation(), ready);
  owner_->Tell(*last_ready_);
}

void StageHost::OnSpotChecked(const pipeline::SpotResult& result) {
  SHOAL_ASSERT_ON(*resources_.control);
  owner_->Tell(SpotCheckedMessage(plan_.generation(), result));
}

void StageHost::OnSyncDone(std::uint64_t step, std::uint32_t amendment, double squared_norm) {
  SHOAL_ASSERT_ON(*resources_.control);
  last_sync_ =
      SyncDoneMessage(plan_.generation(), step, amendment, squared_norm, runner_->stats().exchange);
  owner_->Tell(*last_sync_);
}

void StageHost::OnApplied(std::uint64_t step,
                          const std::vector<pipeline::BoundaryChecksum>& boundaries) {
  SHOAL_ASSERT_ON(*resources_.control);
  boundaries_ = boundaries;
  steps_.OnApplied(step, AppliedMessage(plan_.generation(), step, boundaries));
}

// Tasks of compute run in order, so that both see the weights before a further step changes them.
void StageHost::OnModelApplied(std::uint64_t step) {
  SHOAL_ASSERT_ON(*resources_.control);
  const control::v1::Apply* const order = steps_.Find(step);
  if (order == nullptr) return;
  Run<std::uint64_t>(
      resources_.compute, "stage.checksum",
      [loaded = loaded_] { return loaded->model->WeightChecksum(); },
      [this, step](std::uint64_t checksum) { steps_.OnChecksum(step, checksum); });
  if (order->checkpoint()) SaveCheckpoint(step + 1);
}

CheckpointSaver::Order StageHost::SaveOrder(std::uint64_t step) {
  CheckpointSaver::Order order;
  order.run = RunId{plan_.config().run()};
  order.generation = plan_.generation();
  order.step = step;
  order.keep = static_cast<int>(std::max(1u, plan_.config().checkpoint_keep()));
  order.write = [loaded = loaded_](const std::string& folder) {
    return loaded->model->Save(folder);
  };
  order.blobs = blobs();
  order.told = [this, alive = alive_, step](bool saved) {
    if (*alive) OnSaveTold(step, saved);
  };
  return order;
}

void StageHost::SaveCheckpoint(std::uint64_t step) {
  CheckpointSaver::Order order = SaveOrder(step);
  order.written = [this, alive = alive_, step](std::function<void()> tell) {
    *alive ? steps_.OnSaved(step - 1, std::move(tell)) : tell();
  };
  resources_.saver->Save(std::move(order));
}

void StageHost::OnSaveTold(std::uint64_t step, bool saved) {
  if (!closing_ || closing_->step != step) return;
  closing_->saved = saved;
  if (closing_->told) std::exchange(closing_->told, nullptr)();
}

void StageHost::Close(std::uint64_t step, std::function<void()> told) {
  SHOAL_ASSERT_ON(*resources_.control);
  failed_ = true;  // nothing else is worth a report
  if (closing_ && closing_->step == step) {
    if (closing_->saved) resources_.saver->TellAgain(RunId{plan_.config().run()});
    return;
  }
  closing_ = Closing{step, false, std::move(told)};
  Settle();
}

void StageHost::Hold() {
  SHOAL_ASSERT_ON(*resources_.control);
  failed_ = true;
  Settle();
}

void StageHost::OnDisconnected() {
  SHOAL_ASSERT_ON(*resources_.control);
  closing_.reset();
}

bool StageHost::goes_on() const {
  SHOAL_ASSERT_ON(*resources_.control);
  return runner_ != nullptr && !failed_ && !own_.shadow() && runner_->goes_on();
}

std::optional<pipeline::StepInProgress> StageHost::in_progress() const {
  SHOAL_ASSERT_ON(*resources_.control);
  return goes_on() ? runner_->in_progress() : std::nullopt;
}

void StageHost::ForgetReports() {
  last_ready_.reset();
  last_reduce_.reset();
  last_sync_.reset();
}

void StageHost::TellAgain() {
  SHOAL_ASSERT_ON(*resources_.control);
  const bool fails = failed_ || !runner_ || !runner_->goes_on();
  if (fails && last_failure_) return owner_->Tell(*last_failure_);
  if (last_ready_) owner_->Tell(*last_ready_);
}

void StageHost::Settle() {
  if (held_) return OnSettled(Result<std::uint64_t>(*held_));
  if (std::exchange(settling_, true)) return;
  if (former_) return SettleAsFormer();
  if (runner_) {
    return runner_->Settle([this](const Result<std::uint64_t>& held) { OnSettled(held); });
  }
  OnSettled(loaded_ != nullptr && loaded_->model != nullptr
                ? Result<std::uint64_t>(plan_.resume_step())
                : FailedPrecondition("its stage was not loaded"));
}

void StageHost::OnSettled(const Result<std::uint64_t>& held) {
  held_ = held;
  if (on_settled_) std::exchange(on_settled_, nullptr)();
  if (!closing_ || closing_->saved || !closing_->told) return;
  const std::uint64_t step = closing_->step;
  if (!held.ok()) return resources_.saver->Fail(SaveOrder(step), held.status());
  if (*held != step) {
    return resources_.saver->Fail(
        SaveOrder(step), FailedPrecondition("its stage is that of " + std::to_string(*held) +
                                            " steps, not of " + std::to_string(step)));
  }
  resources_.saver->Save(SaveOrder(step));
}

std::vector<storage::ContentHash> StageHost::blobs() const {
  SHOAL_ASSERT_ON(*resources_.control);
  std::vector<storage::ContentHash> needed = resources_.saver->blobs();
  for (const control::v1::ArtefactRef& proto : plan_.artefacts()) {
    if (const auto ref = ToRef(proto); ref.ok()) needed.push_back(ref->hash);
  }
  if (loaded_) needed.insert(needed.end(), loaded_->unchanging.begin(), loaded_->unchanging.end());
  return needed;
}

void StageHost::OnFailed(Status status, const PeerId* peer) {
  SHOAL_ASSERT_ON(*resources_.control);
  if (peer == nullptr && status.code() != StatusCode::kDeadlineExceeded) return FailPlan(status);
  if (std::exchange(failed_, true)) return;
  if (peer == nullptr) return owner_->OnStageHangs(status.message());
  control::v1::PeerMessage message = LinkBrokenMessage(plan_.generation(), status, *peer);
  message.mutable_link_broken()->set_ended(true);
  owner_->OnStageState(PeerState::kWaiting, TellLinkBroken(std::move(message), status));
}

void StageHost::OnPeerLost(const Status& status, const PeerId& peer, bool halted) {
  SHOAL_ASSERT_ON(*resources_.control);
  control::v1::PeerMessage message = LinkBrokenMessage(plan_.generation(), status, peer);
  message.mutable_link_broken()->set_halted(halted);
  TellLinkBroken(std::move(message), status);
}

// Returns it for people.
std::string StageHost::TellLinkBroken(control::v1::PeerMessage message, const Status& status) {
  PeerId peer;
  std::ranges::copy(message.link_broken().peer(), peer.key.begin());
  SHOAL_LOG(kWarning, "daemon", "link.broken", {"peer", peer.ToShort()},
            {"error", status.ToString()});
  last_failure_ = message;
  const std::string text = LinkBrokenText(message.link_broken(), peer);
  owner_->Tell(std::move(message));
  owner_->OnLinkTrouble(text);
  return text;
}

void StageHost::FailPlan(const Status& status) {
  if (std::exchange(failed_, true)) return;
  if (prepares_) return TellPrepared(status);
  SHOAL_LOG(kError, "daemon", "stage.failed", {"error", status.ToString()});
  control::v1::PeerMessage message;
  control::v1::PlanFailed* proto = message.mutable_plan_failed();
  proto->set_generation(plan_.generation());
  proto->set_error(status.ToString());
  last_failure_ = message;
  owner_->Tell(std::move(message));
  owner_->OnStageState(PeerState::kWaiting, status.ToString());
}

}  // namespace shoal::daemon
