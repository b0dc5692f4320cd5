#include "daemon/peer_node.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/log.h"
#include "common/version.h"
#include "daemon/stage_messages.h"
#include "net/relay/relay_address.h"

namespace shoal::daemon {
namespace {

constexpr std::size_t kLossesKept = 2000;
// A status has more bytes than the rest of a heartbeat; a little less than two heartbeats.
constexpr Duration kStatusInterval = std::chrono::milliseconds(1800);
// Of a peer whose transfer budget is used up.
constexpr Duration kSpentStatusInterval = std::chrono::minutes(10);
constexpr const char* kPausing = "pausing as soon as the run has saved a checkpoint";
constexpr const char* kShrinking =
    "handing its stage, which takes more than device_memory, over as soon as the run has saved a "
    "checkpoint";
constexpr const char* kLeaving = "leaving as soon as the run has saved a checkpoint";
constexpr const char* kFinishing =
    "stopping as soon as the run has saved a checkpoint; it stays a member";
constexpr const char* kTrainingRun = "training";  // as the scheduler names the state
constexpr double kRateSmoothing = 0.2;
constexpr Duration kFarewell = std::chrono::seconds(1);

std::int64_t UnixMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
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

std::vector<std::string> RelaysOf(const net::Invite& invite) {
  std::vector<std::string> texts;
  for (const net::RelayAddress& relay : net::RelaysAmong(invite.addresses)) {
    texts.push_back(net::FormatRelayAddress(relay));
  }
  return texts;
}

}  // namespace

PeerNode::PeerNode(PeerParts parts, std::function<void(Status)> on_stop)
    : config_(*parts.config),
      on_stop_(std::move(on_stop)),
      identity_(std::move(parts.identity)),
      control_(parts.control),
      compute_(parts.compute),
      codec_(parts.codec),
      store_(parts.store),
      content_(parts.content),
      delta_store_(parts.delta_store),
      checkpoints_(parts.checkpoints),
      hub_(parts.hub),
      new_stage_(std::move(parts.new_stage)),
      network_(config_.advertise, std::move(parts.local_addresses)),
      members_(std::move(parts.members)),
      saver_(
          {control_, compute_, store_, content_, delta_store_, checkpoints_},
          [this](control::v1::PeerMessage message) { connection_->Tell(std::move(message)); },
          [this] { return stage_ ? stage_->blobs() : std::vector<storage::ContentHash>(); }),
      overlay_(std::move(parts.overlay)),
      since_unix_ms_(UnixMs()) {
  hub_->SetCaps(overlay_.upload.value_or(config_.upload),
                overlay_.download.value_or(config_.download));
  // The bases are private: only members may see this object as an owner.
  SchedulerConnection::Owner* const owner = this;
  connection_ = std::make_unique<SchedulerConnection>(control_, identity_,
                                                      std::move(parts.new_client), owner);
  TermsKeeper::Owner* const terms_owner = this;
  terms_ = std::make_unique<TermsKeeper>(control_, store_, config_.directory + "/usage.json",
                                         parts.machine, std::move(parts.ledger), terms_owner);
  history_ = std::make_unique<storage::HistoryKeeper>(
      control_, store_, config_.directory + "/history.bin", std::move(parts.history));
  disk_ = std::make_unique<DiskKeeper>(
      control_, store_, KeptStores{config_.directory, content_, delta_store_, checkpoints_});
  GpuWatch::Owner* const gpu_owner = this;
  gpu_ = std::make_unique<GpuWatch>(control_, std::move(parts.gpu), parts.machine, gpu_owner);
  StageMemory::Owner* const memory_owner = this;
  memory_ = std::make_unique<StageMemory>(control_, compute_, parts.memory, parts.memory_asked,
                                          parts.memory_bytes, memory_owner);
}

PeerNode::~PeerNode() = default;

void PeerNode::Stop(std::function<void()> stopped) {
  SHOAL_ASSERT_ON(*control_);
  if (state_ != PeerState::kStopped) ChangeState(PeerState::kDraining, "stopping");
  control::v1::PeerMessage message;
  message.mutable_leaving()->set_reason("shoald was stopped");
  connection_->Tell(std::move(message));
  EndStage();
  offer_.reset();
  lost_offer_.reset();
  terms_->Save();
  history_->Save();
  // A moment for the farewell to leave the machine.
  control_->PostAfter("daemon.stopped", std::chrono::milliseconds(50),
                      [this, stopped = std::move(stopped)] {
                        if (connection_ == nullptr) return;  // Close came first
                        connection_->Close();
                        ChangeState(PeerState::kStopped, "");
                        stopped();
                      });
}

void PeerNode::Close() {
  SHOAL_ASSERT_ON(*control_);
  terms_->Close();
  gpu_.reset();  // what it sees later has nobody to tell
  memory_.reset();
  disk_.reset();
  ++heartbeat_round_;  // one whose time has come meanwhile has nobody to tell
  offer_.reset();
  lost_offer_.reset();
  saver_.Close();
  stage_.reset();
  connection_.reset();
}

void PeerNode::ChangeState(PeerState state, const std::string& reason) {
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

// Which steps the stage holds.
bool PeerNode::ReadyForHello() const {
  SHOAL_ASSERT_ON(*control_);
  return !stage_ || (!stage_->settling() && (!stage_->goes_on() || stage_->in_progress()));
}

control::v1::PeerMessage PeerNode::MakeHello() {
  SHOAL_ASSERT_ON(*control_);
  control::v1::PeerMessage message;
  control::v1::Hello* hello = message.mutable_hello();
  hello->set_protocol(net::kProtocolVersion);
  hello->set_version(kVersion);
  hello->set_name(config_.name);
  hello->set_listen_port(hub_->port());
  for (const std::string& address : network_.Tell(RelaysOf(invite_))) hello->add_addresses(address);
  hello->set_device(config_.device);
  memory_told_ = memory_->bytes();
  hello->set_memory_bytes(memory_told_);
  hello->set_paused(rests_told_ = rests());
  const bool holds = stage_ && (stage_->held() || stage_->in_progress());
  if (holds && !stage_->shadow() && !stage_->prepares()) AddHeld(hello->mutable_held());
  return message;
}

void PeerNode::OnWelcome(const control::v1::Welcome& welcome) {
  SHOAL_ASSERT_ON(*control_);
  // Only the answer to a hello counts: one that comes while stopping, or twice, changes nothing.
  if (state_ != PeerState::kJoining) return;
  scheduler_trouble_.clear();
  run_id_ = RunId{welcome.run()}.ToHex();
  run_name_ = welcome.run_name();
  quarantine_ = {};
  TakeMembership(welcome.membership());
  heartbeat_ = std::chrono::milliseconds(std::clamp(welcome.heartbeat_ms(), 100u, 60000u));
  const std::chrono::milliseconds told(welcome.peer_timeout_ms());
  timeouts_ = TimeoutsOf(told == told.zero() ? kPeerTimeoutDefault : told);
  hub_->SetTimeouts(timeouts_);
  ChangeState(rests() ? PeerState::kPaused : PeerState::kWaiting,
              rests() ? PauseReason() : "waiting for a stage");
  saver_.TellAgain(RunId{welcome.run()});
  status_told_ = TimePoint{};
  SendHeartbeat(++heartbeat_round_);
  if (rests() == rests_told_) return;
  control_->Post("daemon.rejoin", [this] { Rejoin(rests() ? "pausing" : "resuming"); });
}

void PeerNode::TakeMembership(const std::string& bytes) {
  SHOAL_ASSERT_ON(*control_);
  if (!members_) return;
  const Status taken =
      members_->Renew(bytes, invite_.scheduler, identity_->id, control_->clock().Now());
  if (taken.ok()) return;
  SHOAL_LOG(kWarning, "daemon", "membership.not_taken", {"error", taken.message()});
}

void PeerNode::OnConnectionLost(const Status& status, Duration retry_in) {
  SHOAL_ASSERT_ON(*control_);
  offer_.reset();
  lost_offer_.reset();
  closed_ = 0;
  ++heartbeat_round_;
  if (state_ == PeerState::kDraining || state_ == PeerState::kStopped) return EndStage();
  if (handover_ != Handover::kNone || (stage_ && stage_->prepares())) EndStage();
  if (stage_) {
    stage_->OnDisconnected();
    GoOnAlone();
  }
  FinishHandover();  // there is nobody to hand over to
  const bool goes_on = stage_ && stage_->goes_on();
  ChangeState(PeerState::kJoining, "no connection to the scheduler (" + status.message() +
                                       "); next try in " + FormatDuration(retry_in) +
                                       (goes_on ? "; the step at hand goes on" : ""));
  // Not with each of the tries, two a second.
  if (std::exchange(scheduler_trouble_, status.message()) == status.message()) return;
  SHOAL_LOG(kWarning, "daemon", "scheduler.lost", {"reason", status.message()},
            {"next_try_in", FormatDuration(retry_in)});
}

void PeerNode::OnRefused(const Status& status) {
  SHOAL_ASSERT_ON(*control_);
  EndStage();
  SHOAL_LOG(kError, "daemon", "refused", {"error", status.ToString()});
  on_stop_(status.WithContext("the scheduler refused this peer"));
}

void PeerNode::SendHeartbeat(std::uint64_t round) {
  SHOAL_ASSERT_ON(*control_);
  if (round != heartbeat_round_) return;
  control::v1::PeerMessage message;
  control::v1::Heartbeat* heartbeat = message.mutable_heartbeat();
  if (stage_) heartbeat->set_generation(stage_->plan().generation());
  heartbeat->set_state(std::string(PeerStateName(state_)));
  const TimePoint now = control_->clock().Now();
  const bool spent = ruled_ && terms_->allowed().pause == PauseRule::kBudget;
  if (now - status_told_ >= (spent ? kSpentStatusInterval : kStatusInterval)) {
    StatusSnapshot snapshot = ForOthers(Snapshot());
    heartbeat->set_status_json(StatusJson(snapshot));
    status_told_ = now;
  }
  const std::uint64_t cap = hub_->upload_cap().value, line = hub_->upload_line().value;
  heartbeat->mutable_line()->set_upload_bps(cap == 0 || line == 0 ? std::max(cap, line)
                                                                  : std::min(cap, line));
  heartbeat->set_mapped_address(hub_->mapping().address);
  if (const auto* const addresses = network_.TellNew(RelaysOf(invite_))) {
    heartbeat->mutable_addresses()->Assign(addresses->begin(), addresses->end());
  }
  heartbeat->mutable_line()->set_download_bps(hub_->download_cap().value);
  if (stage_ && stage_->shadow()) {
    const FetchProgress progress = stage_->fetch_progress();
    heartbeat->set_state_bytes(progress.bytes_done);
    heartbeat->set_state_bytes_wanted(progress.bytes_total);
  }
  connection_->Tell(std::move(message));
  control_->PostAfter("daemon.heartbeat", heartbeat_, [this, round] { SendHeartbeat(round); });
}

void PeerNode::OnSchedulerMessage(const control::v1::SchedulerMessage& message) {
  SHOAL_ASSERT_ON(*control_);
  const std::uint64_t generation = stage_ ? stage_->plan().generation() : 0;
  if (message.has_plan()) return OnPlan(message.plan());
  if (message.has_renewal()) return TakeMembership(message.renewal().membership());
  if (message.has_prepare()) return OnPrepare(message.prepare());
  if (message.has_want_artefacts()) return OnWantArtefacts(message.want_artefacts());
  if (message.has_run_status()) return OnRunStatus(message.run_status());
  if (message.has_quarantine()) return OnQuarantine(message.quarantine());
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
  } else if (message.has_spot_check() && message.spot_check().generation() == generation) {
    stage_->OnSpotCheck(message.spot_check());
  } else if (message.has_reduce() && message.reduce().generation() == generation) {
    stage_->OnReduce(message.reduce());
  } else if (message.has_apply() && message.apply().generation() == generation) {
    OnApply(message.apply());
  } else if (message.has_new_addresses() && message.new_addresses().generation() == generation) {
    stage_->OnNewAddresses(message.new_addresses());
  } else if (message.has_go_on() && message.go_on().generation() == generation) {
    OnGoOn();
  }
}

// ---- run ----

void PeerNode::OnPlan(const control::v1::Plan& plan) {
  SHOAL_ASSERT_ON(*control_);
  // Sent before our hello, or our wish to go, was read.
  if (rests() || handover_ != Handover::kNone) return;
  if (state_ == PeerState::kDraining || state_ == PeerState::kJoining) return;
  names_.clear();
  closed_ = 0;
  if (!plan.in_place()) saver_.Forget();
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
  hold_until_.reset();
  ChangeState(PeerState::kSyncing, "");
  last_apply_ = TimePoint{};
  StageHost::Owner* const owner = this;
  stage_ = std::make_unique<StageHost>(Resources(), owner, plan, *own);
  plan.in_place() ? stage_->StartInPlace(std::move(former)) : stage_->Start();
}

StageResources PeerNode::Resources() {
  return {control_,     compute_, codec_,   store_,    hub_,      content_,
          delta_store_, &saver_,  &config_, timeouts_, new_stage_};
}

// Beside the steps of the others, in whose plan it has no place yet.
void PeerNode::OnPrepare(const control::v1::Prepare& prepare) {
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
void PeerNode::OnFinished(std::uint64_t generation) {
  SHOAL_ASSERT_ON(*control_);
  stage_->OnFinished();
  ChangeState(PeerState::kWaiting, "the run is finished");
  control_->PostAfter("daemon.finished", kFarewell, [this, generation] {
    if (stage_ && stage_->plan().generation() == generation) EndStage();
    FinishHandover();
  });
}

void PeerNode::EndStage() {
  SHOAL_ASSERT_ON(*control_);
  if (!stage_) return;
  AddRunner(stage_->stats(), stage_->link_stats(), &past_);
  stage_.reset();
  memory_->OnStageEnds();
  hub_->Admit({});
  samples_per_second_ = 0;
}

void PeerNode::OnStageState(PeerState state, const std::string& reason) {
  SHOAL_ASSERT_ON(*control_);
  // A failed stage waits for the scheduler's abort; a late report must not revive it.
  if (state_ == PeerState::kSyncing || state_ == PeerState::kTraining) ChangeState(state, reason);
  // It went on alone, and nobody is there to say what becomes of it.
  if (state_ == PeerState::kJoining && state == PeerState::kWaiting) HoldStage();
  if (state == PeerState::kTraining) link_trouble_.clear();
}

void PeerNode::OnApply(const control::v1::Apply& apply) {
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
void PeerNode::AddHeldOut(const control::v1::HeldOut& measured) {
  std::erase_if(held_out_, [&](const auto& known) { return known.first >= measured.step(); });
  held_out_.emplace_back(measured.step(), measured.loss());
  if (held_out_.size() > kLossesKept) held_out_.pop_front();
}

void PeerNode::OnWantArtefacts(const control::v1::WantArtefacts& want) {
  SHOAL_ASSERT_ON(*control_);
  std::vector<storage::ArtefactRef> artefacts;
  for (const control::v1::ArtefactRef& file : want.files()) {
    if (auto ref = ToRef(file); ref.ok()) artefacts.push_back(*std::move(ref));
  }
  auto& offer = want.request() == 0 ? lost_offer_ : offer_;
  if (!offer) offer = std::make_unique<ArtefactOffer>(control_, store_, content_);
  offer->Start([this] { return connection_->client(); }, std::move(artefacts),
               [this, request = want.request()](const Status& status) {
                 control::v1::PeerMessage message;
                 message.mutable_artefacts_offered()->set_request(request);
                 if (!status.ok()) {
                   message.mutable_artefacts_offered()->set_error(status.ToString());
                 }
                 connection_->Tell(std::move(message));
                 if (closed_ > 0 && !Closes()) FinishHandover();
               });
}

void PeerNode::OnRunStatus(const control::v1::RunStatus& status) {
  SHOAL_ASSERT_ON(*control_);
  run_status_ = status;
  if (status.has_held_out()) AddHeldOut(status.held_out());
  if (!stage_ || stage_->prepares()) {
    step_ = status.step();
    loss_ = status.loss();
    if (!stage_ && state_ == PeerState::kWaiting) {
      const std::string why = status.reason().empty() ? "" : ": " + status.reason();
      reasons_ = {"the run is " + status.state() +
                  (status.state() == kTrainingRun ? "; this peer is a spare" : why)};
    }
  }
}

// ---- status ----

StatusSnapshot PeerNode::Snapshot() const {
  SHOAL_ASSERT_ON(*control_);
  StatusSnapshot s;
  s.version = kVersion;
  s.peer_id = identity_->id.ToHex();
  s.name = config_.name;
  s.state = state_;
  s.state_reasons = reasons_;
  if (handover_ != Handover::kNone) {
    s.state_reasons.push_back(handover_ == Handover::kPause    ? kPausing
                              : handover_ == Handover::kShrink ? kShrinking
                              : handover_ == Handover::kFinish ? kFinishing
                                                               : kLeaving);
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
  if (terms_->now_ms() < quarantine_.until_ms) {
    s.quarantine = quarantine_;
    s.state_reasons.insert(s.state_reasons.begin(), quarantine_.Text());
  }
  s.link_trouble = link_trouble_;
  s.names = names_;
  s.totals = past_;
  s.control = connection_->stats();
  s.peer_timeout = timeouts_.peer_timeout;
  AddTerms(&s);
  s.upload_cap = hub_->upload_cap();
  s.download_cap = hub_->download_cap();
  s.pacing = config_.pacing;
  s.upload_line = hub_->upload_line();
  const BitsPerSecond pace = hub_->upload_pace();
  if (s.upload_cap.value == 0 || pace.value < s.upload_cap.value) s.upload_pace = pace;
  s.relays = hub_->relays();
  s.mapping = hub_->mapping();
  s.listen_port = hub_->port();
  s.delta_store = delta_store_->stats();
  s.store_memory_limit = config_.store_memory_bytes;
  s.content_bytes = content_->bytes();
  s.disk_free_bytes = disk_->free_bytes();
  s.samples_per_second = samples_per_second_;
  if (stage_ && stage_->prepares()) s.fetch = stage_->fetch_progress();
  if (stage_ && !stage_->prepares()) AddStage(&s);
  return s;
}

void PeerNode::AddStage(StatusSnapshot* s) const {
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

}  // namespace shoal::daemon
