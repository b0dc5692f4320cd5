#include "daemon/peer_daemon.h"

#include <sys/resource.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "common/process/machine_memory.h"
#include "common/version.h"
#include "daemon/stage_messages.h"
#include "model/torch_device.h"
#include "net/base/local_addresses.h"
#include "net/links/grpc_link_hub.h"

namespace shoal::daemon {
namespace {

constexpr int kStoreNice = 10;

constexpr std::size_t kLossesKept = 2000;
// A status has more bytes than the rest of a heartbeat; a little less than two heartbeats.
constexpr Duration kStatusInterval = std::chrono::milliseconds(1800);
constexpr const char* kPausing = "pausing as soon as the run has saved a checkpoint";
constexpr const char* kLeaving = "leaving as soon as the run has saved a checkpoint";
constexpr double kRateSmoothing = 0.2;
constexpr Duration kFarewell = std::chrono::seconds(1);
constexpr Duration kStopTimeout = std::chrono::seconds(10);

std::int64_t UnixMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Runs `task` on `executor` and waits for it; for start and stop on the main thread only.
template <typename Task>
auto RunOn(Executor* executor, Task task) {
  std::packaged_task<decltype(task())()> packaged(std::move(task));
  auto future = packaged.get_future();
  auto shared = std::make_shared<decltype(packaged)>(std::move(packaged));
  executor->Post("daemon.sync", [shared] { (*shared)(); });
  return future.get();
}

// That a stage may use at most; 0: unknown. Bounds what it takes.
Result<std::uint64_t> LimitStageMemory(const DaemonConfig& config) {
  SHOAL_ASSIGN_OR_RETURN(const model::TorchDevice device, model::ChooseDevice(config.device));
  SHOAL_ASSIGN_OR_RETURN(const std::uint64_t limit,
                         model::LimitDeviceMemory(device, config.device_memory_bytes));
  const std::uint64_t bytes = limit == 0 ? MachineMemoryBytes() : limit;
  SHOAL_LOG(kInfo, "daemon", "device", {"name", device.name}, {"memory", FormatBytes(bytes)},
            {"bounded", limit > 0 ? "yes" : "no"});
  return bytes;
}

std::uint64_t ResidentPeakBytes() {
  struct rusage usage {};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? std::uint64_t(usage.ru_maxrss) * 1024 : 0;
}

// Names are chosen by their owners: where two are alike, the id tells them apart.
void MakeDistinct(std::map<PeerId, std::string>* names) {
  std::map<std::string, int> count;
  for (const auto& [peer, name] : *names) ++count[name];
  for (auto& [peer, name] : *names) {
    if (count[name] > 1) name += " (" + peer.ToShort() + ")";
  }
}

}  // namespace

Result<std::unique_ptr<PeerDaemon>> PeerDaemon::Open(const DaemonConfig& config,
                                                     std::function<void(Status)> on_stop) {
  SHOAL_ASSIGN_OR_RETURN(const std::uint64_t memory_bytes, LimitStageMemory(config));
  std::unique_ptr<PeerDaemon> daemon(new PeerDaemon(config, memory_bytes, std::move(on_stop)));
  SHOAL_RETURN_IF_ERROR(daemon->OpenStores());
  SHOAL_RETURN_IF_ERROR(daemon->OpenNetwork());
  SHOAL_RETURN_IF_ERROR(daemon->OpenDoors());
  SHOAL_RETURN_IF_ERROR(RunOn(daemon->control_.get(), [&daemon] {
    daemon->Begin();
    return Status::Ok();
  }));
  return daemon;
}

PeerDaemon::PeerDaemon(const DaemonConfig& config, std::uint64_t memory_bytes,
                       std::function<void(Status)> on_stop)
    : config_(config),
      on_stop_(std::move(on_stop)),
      memory_bytes_(memory_bytes),
      upload_(std::make_shared<net::RateLimiter>(&SystemClock())),
      download_(std::make_shared<net::RateLimiter>(&SystemClock())),
      control_(NewThreadExecutor("control")),
      compute_(NewThreadExecutor("compute")),
      codec_(NewThreadPool("codec", static_cast<int>(config.codec_threads))),
      store_(NewThreadExecutor("store")),
      since_unix_ms_(UnixMs()) {
  // What a step wrote is committed while the next step's first micro-batches fill the pipeline:
  // they go first. Priorities of Linux are those of threads.
  store_->Post("store.priority", [] { (void)::setpriority(PRIO_PROCESS, 0, kStoreNice); });
}

Status PeerDaemon::OpenStores() {
  const std::string& directory = config_.directory;
  SHOAL_RETURN_IF_ERROR(MakeOwnFolder(directory));
  SHOAL_ASSIGN_OR_RETURN(identity_, net::LoadOrCreateIdentity(directory));
  SHOAL_ASSIGN_OR_RETURN(overlay_, ReadOverlay(directory + "/overlay.json"));
  SHOAL_ASSIGN_OR_RETURN(content_, storage::OpenFileContentStore(directory + "/content"));
  SHOAL_ASSIGN_OR_RETURN(checkpoints_, storage::OpenCheckpointStore(directory + "/checkpoints"));
  storage::DeltaStoreOptions options;
  options.path = directory + "/deltas";
  options.bytes_max = config_.delta_store_bytes;
  options.memory_bytes = config_.store_memory_bytes - config_.store_memory_bytes / 4;
  options.space =
      config_.store_space == "tight" ? storage::StoreSpace::kTight : storage::StoreSpace::kDefault;
  SHOAL_ASSIGN_OR_RETURN(delta_store_, storage::OpenRocksDeltaStoreOrNone(options));
  return Status::Ok();
}

Status PeerDaemon::OpenNetwork() {
  net::LinkHubOptions options;
  options.listen = config_.listen;
  options.identity = identity_;
  options.upload = upload_;
  options.download = download_;
  options.pacing = config_.pacing == "auto";
  SHOAL_ASSIGN_OR_RETURN(hub_, net::NewGrpcLinkHub(options, control_.get()));
  for (const std::string& said : SettleCaps(config_, &overlay_)) {
    SHOAL_LOG(kWarning, "daemon", "limits", {"text", said});
  }
  ApplyCaps();
  return Status::Ok();
}

Status PeerDaemon::OpenDoors() {
  // The bases are private: only members may see this object as an owner.
  SchedulerConnection::Owner* const owner = this;
  connection_ =
      std::make_unique<SchedulerConnection>(control_.get(), identity_, upload_, download_, owner);
  net::LocalHandlers handlers;
  handlers.on_status = [this](std::function<void(std::string)> reply) {
    SHOAL_ASSERT_ON(*control_);
    reply(StatusJson(Snapshot()));
  };
  handlers.on_command = [this](const std::string& name,
                               const std::map<std::string, std::string>& arguments,
                               std::function<void(Result<net::CommandResult>)> reply) {
    OnCommand(name, arguments, std::move(reply));
  };
  SHOAL_ASSIGN_OR_RETURN(local_, net::NewLocalServer(config_.directory + "/shoald.sock",
                                                     control_.get(), std::move(handlers)));
  net::HttpServerOptions options;
  options.listen = config_.status_listen;
  options.allow_remote = config_.status_allow_remote;
  SHOAL_ASSIGN_OR_RETURN(
      http_, net::NewHttpServer(options, control_.get(),
                                [this](const std::string& path) { return OnHttp(path); }));
  return WriteFileAtomic(config_.directory + "/status.addr", status_address() + "\n");
}

std::string PeerDaemon::status_address() const { return http_->address(); }

PeerDaemon::~PeerDaemon() {
  if (connection_) {
    std::promise<void> stopped;
    control_->Post("daemon.stop", [this, &stopped] {
      if (state_ != PeerState::kStopped) ChangeState(PeerState::kDraining, "stopping");
      control::v1::PeerMessage message;
      message.mutable_leaving()->set_reason("shoald was stopped");
      connection_->Tell(std::move(message));
      EndStage();
      offer_.reset();
      // A moment for the farewell to leave the machine.
      control_->PostAfter("daemon.stopped", std::chrono::milliseconds(50), [this, &stopped] {
        local_.reset();
        connection_->Close();
        ChangeState(PeerState::kStopped, "");
        stopped.set_value();
      });
    });
    stopped.get_future().wait_for(kStopTimeout);
  }
  http_.reset();
  local_.reset();
  if (control_ && connection_) {
    RunOn(control_.get(), [this] {
      ++heartbeat_round_;  // one whose time has come meanwhile has nobody to tell
      offer_.reset();      // the scheduler may have asked for artefacts in the last moment
      connection_.reset();
      return 0;
    });
  }
  hub_.reset();  // waits for the ends of streams, and control must not
  EndIfHanging();
  compute_.reset();  // ends what runs there, then the next in line
  codec_.reset();
  if (delta_store_) {
    const Status status = RunOn(store_.get(), [this] { return delta_store_->Flush(); });
    if (!status.ok()) {
      SHOAL_LOG(kError, "daemon", "flush.failed", {"error", status.ToString()});
    }
  }
  store_.reset();
  control_.reset();
}

void PeerDaemon::ChangeState(PeerState state, const std::string& reason) {
  SHOAL_ASSERT_ON(*control_);
  reasons_.clear();
  if (!reason.empty()) reasons_.push_back(reason);
  if (state == state_) return;
  SHOAL_CHECK(CanChange(state_, state));
  SHOAL_LOG(kInfo, "daemon", "state", {"from", PeerStateName(state_)}, {"to", PeerStateName(state)},
            {"reason", reason});
  state_ = state;
  since_unix_ms_ = UnixMs();
}

// ---- connection ----

std::vector<std::string> PeerDaemon::Addresses() const {
  return config_.advertise.empty() ? net::LocalAddresses() : config_.advertise;
}

control::v1::PeerMessage PeerDaemon::MakeHello() {
  SHOAL_ASSERT_ON(*control_);
  control::v1::PeerMessage message;
  control::v1::Hello* hello = message.mutable_hello();
  hello->set_protocol(net::kProtocolVersion);
  hello->set_version(kVersion);
  hello->set_name(config_.name);
  hello->set_join_secret(invite_.secret);
  hello->set_listen_port(hub_->port());
  for (const std::string& address : Addresses()) hello->add_addresses(address);
  hello->set_device(config_.device);
  hello->set_memory_bytes(memory_bytes_);
  hello->set_paused(rests());
  if (stage_ && stage_->held() && !stage_->shadow() && !stage_->prepares())
    AddHeld(hello->mutable_held());
  return message;
}

void PeerDaemon::OnWelcome(const control::v1::Welcome& welcome) {
  SHOAL_ASSERT_ON(*control_);
  // Only the answer to a hello counts: one that comes while stopping, or twice, changes nothing.
  if (state_ != PeerState::kJoining) return;
  run_id_ = RunId{welcome.run()}.ToHex();
  run_name_ = welcome.run_name();
  heartbeat_ = std::chrono::milliseconds(std::clamp(welcome.heartbeat_ms(), 100u, 60000u));
  const std::chrono::milliseconds told(welcome.peer_timeout_ms());
  timeouts_ = TimeoutsOf(told == told.zero() ? kPeerTimeoutDefault : told);
  hub_->SetTimeouts(timeouts_);
  ChangeState(rests() ? PeerState::kPaused : PeerState::kWaiting,
              rests() ? PauseReason() : "waiting for a stage");
  status_told_ = TimePoint{};
  SendHeartbeat(++heartbeat_round_);
}

void PeerDaemon::OnConnectionLost(const Status& status, Duration retry_in) {
  SHOAL_ASSERT_ON(*control_);
  offer_.reset();
  ++heartbeat_round_;
  if (state_ == PeerState::kDraining || state_ == PeerState::kStopped) return EndStage();
  if (handover_ != Handover::kNone || (stage_ && stage_->prepares())) EndStage();
  if (stage_) {
    stage_->OnDisconnected();
    HoldStage();
  }
  FinishHandover();  // there is nobody to hand over to
  ChangeState(PeerState::kJoining, "no connection to the scheduler (" + status.message() +
                                       "); next try in " + FormatDuration(retry_in));
  SHOAL_LOG(kWarning, "daemon", "scheduler.lost", {"reason", status.message()},
            {"next_try_in", FormatDuration(retry_in)});
}

void PeerDaemon::OnRefused(const Status& status) {
  SHOAL_ASSERT_ON(*control_);
  EndStage();
  SHOAL_LOG(kError, "daemon", "refused", {"error", status.ToString()});
  on_stop_(status.WithContext("the scheduler refused this peer"));
}

void PeerDaemon::SendHeartbeat(std::uint64_t round) {
  SHOAL_ASSERT_ON(*control_);
  if (round != heartbeat_round_) return;
  control::v1::PeerMessage message;
  control::v1::Heartbeat* heartbeat = message.mutable_heartbeat();
  if (stage_) heartbeat->set_generation(stage_->plan().generation());
  heartbeat->set_state(std::string(PeerStateName(state_)));
  const TimePoint now = control_->clock().Now();
  if (now - status_told_ >= kStatusInterval) {
    StatusSnapshot snapshot = Snapshot();
    snapshot.losses.clear();  // the scheduler has them
    snapshot.held_out.clear();
    heartbeat->set_status_json(StatusJson(snapshot));
    status_told_ = now;
  }
  const std::uint64_t cap = hub_->upload_cap().value, line = hub_->upload_line().value;
  heartbeat->mutable_line()->set_upload_bps(cap == 0 || line == 0 ? std::max(cap, line)
                                                                  : std::min(cap, line));
  heartbeat->mutable_line()->set_download_bps(hub_->download_cap().value);
  if (stage_ && stage_->shadow()) {
    const FetchProgress progress = stage_->fetch_progress();
    heartbeat->set_state_bytes(progress.bytes_done);
    heartbeat->set_state_bytes_wanted(progress.bytes_total);
  }
  connection_->Tell(std::move(message));
  control_->PostAfter("daemon.heartbeat", heartbeat_, [this, round] { SendHeartbeat(round); });
}

void PeerDaemon::OnSchedulerMessage(const control::v1::SchedulerMessage& message) {
  SHOAL_ASSERT_ON(*control_);
  const std::uint64_t generation = stage_ ? stage_->plan().generation() : 0;
  if (message.has_plan()) return OnPlan(message.plan());
  if (message.has_prepare()) return OnPrepare(message.prepare());
  if (message.has_want_artefacts()) return OnWantArtefacts(message.want_artefacts());
  if (message.has_run_status()) return OnRunStatus(message.run_status());
  if (message.has_abort()) {
    if (stage_ && message.abort().generation() == generation) OnAbort(message.abort());
    return;
  }
  if (message.has_finished()) {
    if (!stage_ || message.finished().generation() != generation) return;
    OnFinished(generation);
    return;
  }
  if (!stage_) return;
  if (message.has_step_plan() && message.step_plan().generation() == generation) {
    stage_->OnStepPlan(message.step_plan());
  } else if (message.has_reduce() && message.reduce().generation() == generation) {
    stage_->OnReduce(message.reduce());
  } else if (message.has_apply() && message.apply().generation() == generation) {
    OnApply(message.apply());
  }
}

// ---- run ----

void PeerDaemon::OnPlan(const control::v1::Plan& plan) {
  SHOAL_ASSERT_ON(*control_);
  // Sent before our hello, or our wish to go, was read.
  if (rests() || handover_ != Handover::kNone || state_ == PeerState::kDraining) return;
  names_.clear();
  const control::v1::Position* own = nullptr;
  std::vector<PeerId> peers;
  for (const control::v1::Position& position : plan.positions()) {
    PeerId peer;
    if (position.peer().size() != peer.key.size()) continue;
    std::copy(position.peer().begin(), position.peer().end(), peer.key.begin());
    names_[peer] = position.name();
    peers.push_back(peer);
    if (peer == identity_->id) own = &position;
  }
  MakeDistinct(&names_);
  if (own == nullptr && plan.in_place() && stage_ && stage_->prepares()) return;
  // What it holds may be what the plan goes on with; memory of two stages there is not.
  std::unique_ptr<StageHost> former = plan.in_place() && own ? std::move(stage_) : nullptr;
  if (former) AddRunner(former->stats(), former->link_stats(), &past_);
  EndStage();
  if (own == nullptr) {
    ChangeState(PeerState::kWaiting, "spare: all stages have a peer");
    return;
  }
  hub_->Admit(peers);
  ChangeState(PeerState::kSyncing, "");
  last_apply_ = TimePoint{};
  StageHost::Owner* const owner = this;
  stage_ = std::make_unique<StageHost>(Resources(), owner, plan, *own);
  plan.in_place() ? stage_->StartInPlace(std::move(former)) : stage_->Start();
}

StageResources PeerDaemon::Resources() {
  return {control_.get(), compute_.get(),     codec_.get(),       store_.get(), hub_.get(),
          content_.get(), delta_store_.get(), checkpoints_.get(), &config_,     timeouts_};
}

// Beside the steps of the others, in whose plan it has no place yet.
void PeerDaemon::OnPrepare(const control::v1::Prepare& prepare) {
  SHOAL_ASSERT_ON(*control_);
  if (rests() || handover_ != Handover::kNone || state_ != PeerState::kWaiting) return;
  EndStage();
  control::v1::Plan plan;
  *plan.mutable_config() = prepare.config();
  *plan.mutable_artefacts() = prepare.artefacts();
  StageHost::Owner* const owner = this;
  stage_ = std::make_unique<StageHost>(Resources(), owner, plan, prepare.position());
  reasons_ = {"preparing stage " + std::to_string(prepare.position().stage()) +
              ", which lacks a peer"};
  stage_->Prepare();
}

// The links stay a moment longer, so that no neighbour takes our end for a break.
void PeerDaemon::OnFinished(std::uint64_t generation) {
  SHOAL_ASSERT_ON(*control_);
  stage_->OnFinished();
  ChangeState(PeerState::kWaiting, "the run is finished");
  control_->PostAfter("daemon.finished", kFarewell, [this, generation] {
    if (stage_ && stage_->plan().generation() == generation) EndStage();
    FinishHandover();
  });
}

void PeerDaemon::EndStage() {
  SHOAL_ASSERT_ON(*control_);
  if (!stage_) return;
  AddRunner(stage_->stats(), stage_->link_stats(), &past_);
  stage_.reset();
  hub_->Admit({});
  samples_per_second_ = 0;
}

void PeerDaemon::OnStageState(PeerState state, const std::string& reason) {
  SHOAL_ASSERT_ON(*control_);
  // A failed stage waits for the scheduler's abort; a late report must not revive it.
  if (state_ == PeerState::kSyncing || state_ == PeerState::kTraining) ChangeState(state, reason);
  if (state == PeerState::kTraining) link_trouble_.clear();
}

void PeerDaemon::OnApply(const control::v1::Apply& apply) {
  SHOAL_ASSERT_ON(*control_);
  const control::v1::RunConfig& run = stage_->plan().config();
  const TimePoint now = control_->clock().Now();
  if (last_apply_ != TimePoint{} && now > last_apply_) {
    const double seconds = std::chrono::duration<double>(now - last_apply_).count();
    const double rate = run.micro_batches() * run.micro_batch_rows() / seconds;
    samples_per_second_ = samples_per_second_ == 0
                              ? rate
                              : samples_per_second_ + kRateSmoothing * (rate - samples_per_second_);
  }
  last_apply_ = now;
  step_ = apply.step() + 1;
  loss_ = apply.loss();
  losses_.emplace_back(apply.step(), apply.loss());
  if (losses_.size() > kLossesKept) losses_.pop_front();
  if (apply.has_held_out()) AddHeldOut(apply.held_out());
  stage_->OnApply(apply);
}

// Each once: the run's status repeats the newest, and a repeated step measures again.
void PeerDaemon::AddHeldOut(const control::v1::HeldOut& measured) {
  std::erase_if(held_out_, [&](const auto& known) { return known.first >= measured.step(); });
  held_out_.emplace_back(measured.step(), measured.loss());
  if (held_out_.size() > kLossesKept) held_out_.pop_front();
}

void PeerDaemon::OnWantArtefacts(const control::v1::WantArtefacts& want) {
  SHOAL_ASSERT_ON(*control_);
  std::vector<storage::ArtefactRef> artefacts;
  for (const control::v1::ArtefactRef& file : want.files()) {
    if (auto ref = ToRef(file); ref.ok()) artefacts.push_back(*std::move(ref));
  }
  offer_ = std::make_unique<ArtefactOffer>(control_.get(), store_.get(), content_.get());
  offer_->Start([this] { return connection_->client(); }, std::move(artefacts),
                [this] {
                  control::v1::PeerMessage message;
                  message.mutable_artefacts_offered();
                  connection_->Tell(std::move(message));
                });
}

void PeerDaemon::OnRunStatus(const control::v1::RunStatus& status) {
  SHOAL_ASSERT_ON(*control_);
  run_status_ = status;
  if (status.has_held_out()) AddHeldOut(status.held_out());
  if (!stage_ || stage_->prepares()) {
    step_ = status.step();
    loss_ = status.loss();
    if (!stage_ && state_ == PeerState::kWaiting && !status.reason().empty()) {
      reasons_ = {"the run is " + status.state() + ": " + status.reason()};
    }
  }
}

// ---- status ----

StatusSnapshot PeerDaemon::Snapshot() const {
  StatusSnapshot s;
  s.version = kVersion;
  s.peer_id = identity_->id.ToHex();
  s.name = config_.name;
  s.state = state_;
  s.state_reasons = reasons_;
  if (handover_ != Handover::kNone) {
    s.state_reasons.push_back(handover_ == Handover::kPause ? kPausing : kLeaving);
  }
  s.since_unix_ms = since_unix_ms_;
  s.time_unix_ms = UnixMs();
  s.run_id = run_id_;
  s.run_name = run_name_;
  s.run_state = run_status_.state();
  s.run_reason = run_status_.reason();
  s.step = step_;
  s.target_step = run_status_.steps();
  s.loss = loss_;
  s.losses.assign(losses_.begin(), losses_.end());
  s.held_out.assign(held_out_.begin(), held_out_.end());
  s.peers_up = run_status_.peers();
  s.peers_total = run_status_.peers_needed();
  s.device = config_.device;
  s.resident_peak_bytes = ResidentPeakBytes();
  s.scheduler = connection_->report();
  s.hang = hang_;
  s.link_trouble = link_trouble_;
  s.names = names_;
  s.totals = past_;
  s.control = connection_->stats();
  s.peer_timeout = timeouts_.peer_timeout;
  s.upload_cap = hub_->upload_cap();
  s.download_cap = hub_->download_cap();
  s.pacing = config_.pacing;
  s.upload_line = hub_->upload_line();
  const BitsPerSecond pace = hub_->upload_pace();
  if (s.upload_cap.value == 0 || pace.value < s.upload_cap.value) s.upload_pace = pace;
  s.delta_store = delta_store_->stats();
  s.store_memory_limit = config_.store_memory_bytes;
  s.content_bytes = content_->bytes();
  s.samples_per_second = samples_per_second_;
  if (stage_ && stage_->prepares()) s.fetch = stage_->fetch_progress();
  if (stage_ && !stage_->prepares()) AddStage(&s);
  return s;
}

void PeerDaemon::AddStage(StatusSnapshot* s) const {
  const control::v1::RunConfig& run = stage_->plan().config();
  s->has_stage = true;
  s->stage = stage_->position().stage();
  s->stages = run.stages();
  s->pipeline = stage_->position().pipeline();
  s->pipelines = run.pipelines();
  s->first_layer = stage_->position().first_layer();
  s->last_layer = stage_->position().last_layer();
  s->generation = stage_->plan().generation();
  s->forward_codec = run.forward_codec();
  s->backward_codec = run.backward_codec();
  s->replica_method = run.replica_method();
  s->lan = LanNeighbours(stage_->plan(), stage_->position());
  s->target_step = run.steps();
  if (run.train_rows() > 0) {
    const double step_epochs = static_cast<double>(run.micro_batches()) * run.micro_batch_rows() /
                               static_cast<double>(run.train_rows());
    s->epochs = step_epochs * static_cast<double>(s->step);
    s->target_epochs = step_epochs * static_cast<double>(s->target_step);
  }
  if (!stage_->device_name().empty()) s->device = stage_->device_name();
  s->budget = stage_->budget();
  s->synthetic_cpu_ms = stage_->synthetic_cpu_ms();
  s->fetch = stage_->fetch_progress();
  s->runner = stage_->stats();
  s->links = stage_->link_stats();
  s->boundaries = stage_->boundaries();
  AddRunner(s->runner, s->links, &s->totals);
}

net::HttpResponse PeerDaemon::OnHttp(const std::string& path) const {
  SHOAL_ASSERT_ON(*control_);
  if (path == "/api/v1/status") return {200, "application/json", StatusJson(Snapshot())};
  if (path == "/metrics") {
    return {200, "text/plain; version=0.0.4; charset=utf-8", MetricsText(Snapshot())};
  }
  if (path == "/healthz") return {200, "text/plain", "ok\n"};
  if (path == "/readyz") {
    const bool ready = state_ == PeerState::kTraining || state_ == PeerState::kWaiting ||
                       state_ == PeerState::kSyncing;
    std::string text(PeerStateName(state_));
    for (const std::string& reason : reasons_) text += ": " + reason;
    return {ready ? 200 : 503, "text/plain", text + "\n"};
  }
  return net::StatusPageOrNotFound(path);
}

}  // namespace shoal::daemon
