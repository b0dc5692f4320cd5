#include "daemon/churn/machine.h"

#include <algorithm>
#include <utility>

#include "common/version.h"
#include "daemon/churn/events.h"
#include "net/control/control.h"

namespace shoal::daemon {
namespace {

using control::v1::PeerMessage;
using control::v1::SchedulerMessage;

constexpr double kDiskBytesPerSecond = 5e8;  // saves
constexpr double kLoadBytesPerSecond = 1e9;  // from files into the card
constexpr Duration kLinkUp = std::chrono::milliseconds(400);
constexpr Duration kPrepareTime = std::chrono::seconds(2);
constexpr double kCaughtUpBytes = 1e6;  // that are nothing
constexpr std::size_t kCheckpointsKept = 2;
// Of a step of random weights; what a machine computes does not matter here.
constexpr double kLossPerLabel = 4;
constexpr std::uint32_t kTokensOfRow = 1024;

}  // namespace

PeerId ChurnPeerId(std::uint32_t number) {
  PeerId id;
  for (std::size_t i = 0; i < 4; ++i) id.key[i] = static_cast<std::uint8_t>(number >> (24 - 8 * i));
  id.key.back() = 1;
  return id;
}

ChurnMachine::ChurnMachine(std::uint32_t number, const TrainedModel& model,
                           const ChurnSettings& settings, Owner* owner)
    : number_(number),
      model_(model),
      settings_(settings),
      owner_(*owner),
      id_(ChurnPeerId(number)) {}

void ChurnMachine::Guarded(std::uint64_t work, const std::function<void()>& run) const {
  if (alive_ && work == work_) run();
}

void ChurnMachine::Later(Duration delay, std::function<void()> run) {
  owner_.After(delay, [this, work = work_, run = std::move(run)] { Guarded(work, run); });
}

// ---- its connection

void ChurnMachine::Connected() {
  connected_ = true;
  ++life_;
  PeerMessage message;
  control::v1::Hello* hello = message.mutable_hello();
  hello->set_protocol(net::kProtocolVersion);
  hello->set_version(kVersion);
  hello->set_name("machine" + std::to_string(number_));
  hello->set_listen_port(9000);
  if (holds_ && !shadow_) {
    control::v1::Held* held = hello->mutable_held();
    held->set_generation(generation_);
    held->set_step(applied_);
    held->set_pipeline(static_cast<std::uint32_t>(pipeline_));
    held->set_stage(static_cast<std::uint32_t>(stage_));
    held->set_first_loss(applied_);
    held->set_synced(synced_);
    if (last_apply_) *held->mutable_last_apply() = *last_apply_;
  }
  owner_.Say(this, std::move(message));
  Heartbeat();
}

void ChurnMachine::Disconnected() {
  connected_ = false;
  ++life_;
  StopUpload();
  EndWork();
}

void ChurnMachine::Gone() {
  StopUpload();
  EndWork();
  alive_ = connected_ = false;
  ++life_;
}

void ChurnMachine::Heartbeat() {
  PeerMessage message;
  message.mutable_heartbeat()->set_generation(generation_);
  message.mutable_heartbeat()->set_state("training");
  message.mutable_heartbeat()->mutable_line()->set_upload_bps(settings_.upload.value);
  message.mutable_heartbeat()->mutable_line()->set_download_bps(settings_.download.value);
  owner_.Say(this, std::move(message));
  owner_.After(heartbeat_every_, [this, life = life_] {
    if (life == life_ && connected_) Heartbeat();
  });
}

void ChurnMachine::On(const SchedulerMessage& message) {
  if (!connected_) return;
  switch (message.kind_case()) {
    case SchedulerMessage::kWelcome:
      heartbeat_every_ = std::chrono::milliseconds(message.welcome().heartbeat_ms());
      return;
    case SchedulerMessage::kPlan: return OnPlan(message.plan());
    case SchedulerMessage::kPrepare: return OnPrepare(message.prepare());
    case SchedulerMessage::kStepPlan:
      if (message.step_plan().generation() != generation_ || stage_ < 0) return;
      if (OnlyFollowersLeft(message.step_plan())) return;
      plans_[message.step_plan().step()] = message.step_plan();
      // What it has done of a step that is dealt out again counts on.
      if (message.step_plan().amendment() > 0 && message.step_plan().step() == applied_) {
        busy_ = synced_ = false;
      }
      return Work();
    case SchedulerMessage::kReduce: return OnReduce(message.reduce());
    case SchedulerMessage::kApply: return OnApply(message.apply());
    case SchedulerMessage::kAbort: return OnAbort(message.abort());
    case SchedulerMessage::kWantArtefacts: return OnWanted(message.want_artefacts());
    default: return;
  }
}

// ---- plans

// What it did for a plan ends.
void ChurnMachine::EndWork() {
  ++work_;
  busy_ = false;
  plans_.clear();
  double left = 0;
  for (const Lines::Flow flow : std::exchange(flows_, {})) left += owner_.Cancel(flow);
  if (shadow_ && missing_ > 0) missing_ = left;
  owner_.Rests(this);
}

void ChurnMachine::OnPlan(const control::v1::Plan& plan) {
  EndWork();
  const int former = stage_;
  const bool followed = shadow_ && holds_;
  generation_ = plan.generation();
  pipeline_ = stage_ = -1;
  shadow_ = false;
  for (const control::v1::Position& position : plan.positions()) {
    if (position.peer() != std::string(id_.key.begin(), id_.key.end())) continue;
    pipeline_ = static_cast<int>(position.pipeline());
    stage_ = static_cast<int>(position.stage());
    shadow_ = position.shadow();
  }
  applied_ = plan.resume_step();
  synced_ = false;
  missing_ = shadow_ ? missing_ : 0;
  last_apply_.reset();
  for (Visits& visits : visits_) {
    visits.BackTo(applied_);
    if (stage_ >= 0 && former >= 0 && stage_ != former) visits.Clear();
  }
  holds_ = plan.in_place() && stage_ >= 0;
  if (stage_ < 0) return;
  ++asked_;
  plan.in_place() ? Ready(false) : Load(plan);
  if (!shadow_) return;
  if (!followed || stage_ != former) missing_ = StateBytes();
  CatchUp();
}

// What never changes of a stage, beside the running steps.
void ChurnMachine::OnPrepare(const control::v1::Prepare& prepare) {
  double missing = 0;
  for (const auto& artefact : prepare.artefacts()) {
    if (content_.insert(artefact.hash()).second) missing += static_cast<double>(artefact.size());
  }
  const auto prepared = [this, stage = prepare.position().stage(), asked = ++asked_] {
    owner_.After(kPrepareTime, [this, stage, asked] {
      if (!connected_ || asked != asked_ || stage_ >= 0) return;
      PeerMessage message;
      message.mutable_prepared()->set_stage(stage);
      owner_.Say(this, std::move(message));
    });
  };
  if (missing == 0) return prepared();
  flows_.push_back(owner_.Fetch(this, missing, prepared));
}

// Gets its stage from its group, as long as the plan lasts; the next one may go on with that. Who
// is done with its part takes some of the others'.
void ChurnMachine::CatchUp() {
  if (missing_ > kCaughtUpBytes) {
    flows_ = owner_.CatchUp(this, missing_, [this, work = work_] {
      Guarded(work, [this] {
        missing_ = 0;
        for (const Lines::Flow flow : std::exchange(flows_, {})) missing_ += owner_.Cancel(flow);
        CatchUp();
      });
    });
    return;
  }
  missing_ = 0;
  PeerMessage message;
  message.mutable_caught_up()->set_generation(generation_);
  message.mutable_caught_up()->set_step(applied_);
  owner_.Say(this, std::move(message));
}

void ChurnMachine::CatchUpWithOthers() {
  if (!connected_ || !shadow_ || missing_ == 0 || flows_.empty()) return;
  missing_ = 0;
  for (const Lines::Flow flow : std::exchange(flows_, {})) missing_ += owner_.Cancel(flow);
  CatchUp();
}

// What it does not have yet it fetches.
void ChurnMachine::Load(const control::v1::Plan& plan) {
  double missing = 0;
  std::vector<std::string> hashes;
  for (const auto& artefact : plan.artefacts()) {
    if (content_.contains(artefact.hash())) continue;
    hashes.push_back(artefact.hash());
    missing += static_cast<double>(artefact.size());
  }
  if (hashes.empty()) return Ready(true);
  flows_.push_back(owner_.Fetch(this, missing, [this, work = work_, hashes] {
    Guarded(work, [&] {
      content_.insert(hashes.begin(), hashes.end());
      Ready(true);
    });
  }));
}

void ChurnMachine::Ready(bool loads) {
  const double seconds = loads ? StateBytes() / kLoadBytesPerSecond : 0;
  Later(FromSeconds(seconds) + kLinkUp, [this] {
    PeerMessage message;
    message.mutable_plan_ready()->set_generation(generation_);
    owner_.Say(this, std::move(message));
  });
}

void ChurnMachine::OnAbort(const control::v1::Abort& abort) {
  if (abort.generation() != generation_) return;
  const bool goes_on = holds_ && abort.hold_step() > 0;
  const bool synced = synced_;
  const auto plan = plans_;
  EndWork();
  holds_ = goes_on;
  if (!goes_on) {
    pipeline_ = stage_ = -1;
    shadow_ = false;
    missing_ = 0;
    return;
  }
  if (abort.has_apply() && synced && abort.apply().step() == applied_) {
    plans_ = plan;
    Apply(abort.apply());
    plans_.clear();
  }
  if (abort.save() && abort.hold_step() == applied_) Save(applied_);
}

// ---- steps

void ChurnMachine::Work() {
  const auto plan = plans_.find(applied_);
  if (busy_ || plan == plans_.end()) return;
  busy_ = true;
  owner_.BeginStep(this, plan->second);
}

void ChurnMachine::StepDone(std::uint64_t generation, std::uint64_t step, double seconds) {
  const auto plan = plans_.find(step);
  if (!connected_ || generation != generation_ || step != applied_ || plan == plans_.end()) return;
  PeerMessage message;
  control::v1::StepReady* ready = message.mutable_step_ready();
  ready->set_generation(generation);
  ready->set_step(step);
  const auto batches =
      static_cast<std::uint32_t>(plan->second.pipelines(pipeline_).micro_batches_size());
  ready->set_micro_batches(batches);
  ready->set_amendment(plan->second.amendment());
  if (static_cast<std::size_t>(stage_) + 1 == model_.stages.size()) {
    const std::uint64_t labels =
        std::uint64_t{batches} * model_.config.micro_batch_rows * kTokensOfRow;
    ready->set_labels(labels);
    ready->set_loss_sum(kLossPerLabel * static_cast<double>(labels));
  }
  const StageCosts& costs = model_.stages[static_cast<std::size_t>(stage_)];
  ready->mutable_timing()->set_forward_ms(costs.forward_ms);
  ready->mutable_timing()->set_backward_ms(costs.backward_input_ms + costs.backward_weights_ms);
  ready->mutable_timing()->set_backward_weights_ms(costs.backward_weights_ms);
  ready->mutable_timing()->set_round_trip_ms(1e3 * seconds);
  owner_.Say(this, std::move(message));
}

void ChurnMachine::OnReduce(const control::v1::Reduce& reduce) {
  if (reduce.generation() != generation_ || stage_ < 0 || reduce.step() != applied_) return;
  const auto plan = plans_.find(applied_);
  exchanged_ = plan == plans_.end() ? 0 : plan->second.amendment();
  owner_.BeginExchange(this, reduce);
}

void ChurnMachine::ExchangeDone(std::uint64_t generation, std::uint64_t step) {
  if (!connected_ || generation != generation_ || step != applied_) return;
  synced_ = true;
  PeerMessage message;
  message.mutable_sync_done()->set_generation(generation);
  message.mutable_sync_done()->set_step(step);
  message.mutable_sync_done()->set_amendment(exchanged_);
  message.mutable_sync_done()->set_squared_norm(4.0 + stage_);
  owner_.Say(this, std::move(message));
}

// Gradients become weights, and m of the step what the next visit builds on.
void ChurnMachine::Apply(const control::v1::Apply& apply) {
  if (const auto plan = plans_.find(apply.step()); plan != plans_.end()) {
    for (const auto& batch : plan->second.pipelines(pipeline_).micro_batches()) {
      for (const std::uint64_t sample : batch.samples()) {
        for (Visits& visits : visits_) visits.Set(sample, apply.step() + 1);
      }
    }
  }
  plans_.erase(apply.step());
  ++applied_;
  holds_ = true;
  synced_ = false;
  last_apply_ = apply;
  last_apply_->clear_checkpoint();
  last_apply_->clear_check_weights();
}

void ChurnMachine::OnApply(const control::v1::Apply& apply) {
  if (apply.generation() != generation_ || stage_ < 0 || apply.step() != applied_) return;
  Apply(apply);
  busy_ = false;
  PeerMessage message;
  control::v1::Applied* applied = message.mutable_applied();
  applied->set_generation(generation_);
  applied->set_step(apply.step());
  const auto stages = static_cast<int>(model_.stages.size());
  for (const int boundary : {stage_, stage_ - 1}) {
    if (boundary < 0 || boundary + 1 >= stages) continue;
    control::v1::BoundaryChecksum* checksum = applied->add_boundaries();
    checksum->set_boundary(static_cast<std::uint32_t>(boundary));
    checksum->set_receiver(boundary < stage_);
    checksum->set_checksum(1000 * apply.step() + static_cast<std::uint64_t>(boundary));
    checksum->set_records(1);
  }
  if (apply.check_weights() && missing_ == 0) applied->set_weight_checksum(99 + apply.step());
  owner_.Say(this, std::move(message));
  if (apply.checkpoint()) Save(applied_);
  Work();
}

// ---- checkpoints

std::vector<std::string> ChurnMachine::Parts() const {
  const std::vector<std::uint32_t>& cuts = model_.config.stage_first_layers;
  const auto stage = static_cast<std::size_t>(stage_);
  std::vector<std::string> parts;
  if (stage == 0) parts.push_back("embedding");
  for (std::uint32_t layer = cuts[stage]; layer < cuts[stage + 1]; ++layer) {
    parts.push_back("layer." + std::to_string(layer));
  }
  if (stage + 1 == model_.stages.size()) parts.push_back("head");
  return parts;
}

// Goes on when its generation ends.
void ChurnMachine::Save(std::uint64_t step) {
  owner_.After(FromSeconds(StateBytes() / kDiskBytesPerSecond),
               [this, generation = generation_, parts = Parts(), step] {
                 if (!alive_ || !connected_) return;
                 Keep(parts, step);
                 Saved(generation, parts, step);
               });
}

void ChurnMachine::Keep(const std::vector<std::string>& parts, std::uint64_t step) {
  for (const std::string& part : parts) {
    content_.insert(ArtefactHash(part, step));
    content_.insert(ArtefactHash(part + ".optimizer", step));
  }
  std::set<std::uint64_t> steps;
  for (const std::string& hash : content_) steps.insert(StepOfHash(hash));
  steps.erase(0);  // of the initial model
  while (steps.size() > kCheckpointsKept) {
    std::erase_if(content_, [oldest = *steps.begin()](const std::string& hash) {
      return StepOfHash(hash) == oldest;
    });
    steps.erase(steps.begin());
  }
}

void ChurnMachine::Saved(std::uint64_t generation, const std::vector<std::string>& parts,
                         std::uint64_t step) {
  PeerMessage message;
  control::v1::CheckpointDone* done = message.mutable_checkpoint_done();
  done->set_generation(generation);
  done->set_step(step);
  for (const std::string& part : parts) {
    const std::uint64_t weights = model_.part_bytes.at(part);
    for (const auto& [name, bytes] :
         {std::pair(part, weights), {part + ".optimizer", 2 * weights}}) {
      control::v1::ArtefactRef* file = done->add_files();
      file->set_name(name);
      file->set_hash(ArtefactHash(name, step));
      file->set_size(bytes);
    }
  }
  owner_.Say(this, std::move(message));
}

void ChurnMachine::OnWanted(const control::v1::WantArtefacts& want) {
  if (want.request() == 0) {  // a disk of the scheduler's that loses something is not simulated
    PeerMessage offered;
    offered.mutable_artefacts_offered();
    return owner_.Say(this, std::move(offered));
  }
  wanted_ = want;
  const bool goes_on = upload_ && std::ranges::any_of(want.files(), [this](const auto& file) {
                         return file.hash() == upload_->file.hash();
                       });
  if (goes_on) return;
  StopUpload();
  UploadNext();
}

// What has arrived stays there.
void ChurnMachine::StopUpload() {
  if (!upload_) return;
  const auto size = static_cast<double>(upload_->file.size());
  owner_.Arrived(upload_->file.hash(), size - owner_.Cancel(upload_->flow), size);
  upload_.reset();
}

void ChurnMachine::UploadNext() {
  for (const control::v1::ArtefactRef& file : wanted_.files()) {
    const auto size = static_cast<double>(file.size());
    const double left = size - owner_.BytesArrived(file.hash());
    if (!content_.contains(file.hash()) || left <= 0) continue;
    upload_ = FileUpload{file, 0};
    upload_->flow = owner_.Upload(this, left, [this, size, life = life_] {
      if (life != life_) return;
      const std::string hash = upload_->file.hash();
      upload_.reset();
      owner_.Arrived(hash, size, size);
      UploadNext();
    });
    return;
  }
  PeerMessage offered;
  offered.mutable_artefacts_offered()->set_request(wanted_.request());
  owner_.Say(this, std::move(offered));
}

}  // namespace shoal::daemon
