#include "scheduler/swarm/swarm_state_impl.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/log.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/swarm/plan_messages.h"

namespace shoal::scheduler {
namespace {

SampleOrder SampleOrderOf(const RunConfig& config) {
  return {config.seed, config.train_rows, config.micro_batches, config.micro_batch_rows,
          config.stages};
}

// The generation that a message is of; nothing: it is of none, or its reader looks at that itself.
std::optional<std::uint64_t> GenerationOf(const control::v1::PeerMessage& message) {
  if (message.has_plan_ready()) return message.plan_ready().generation();
  if (message.has_step_ready()) return message.step_ready().generation();
  if (message.has_sync_done()) return message.sync_done().generation();
  if (message.has_applied()) return message.applied().generation();
  if (message.has_spot_checked()) return message.spot_checked().generation();
  if (message.has_caught_up()) return message.caught_up().generation();
  return std::nullopt;
}

}  // namespace

SwarmStateImpl::SwarmStateImpl(const RunConfig& config, ArtefactMap initial)
    : config_(config),
      initial_(std::move(initial)),
      journal_(ConfigHash(config_, initial_), &reaction_),
      history_(journal_.history()),
      plan_(config_, &members_),
      lifecycle_(config_, &journal_, reaction_, this),
      newcomers_(config_, initial_, &members_, &plan_, &lifecycle_, &reaction_),
      membership_(config_, &journal_, &members_, &plan_, &lifecycle_, newcomers_.possible(),
                  &reaction_),
      faults_(config_, &members_, &journal_, &plan_, &lifecycle_, &reaction_),
      artefacts_(initial_, members_, plan_, &journal_, &lifecycle_, &reaction_),
      uploads_(config_, initial_, &members_, plan_, &journal_, &lifecycle_, &faults_, &reaction_),
      closing_(config_, initial_, plan_, history_, &lifecycle_, &uploads_, reaction_),
      held_(config_, &members_, &plan_, &journal_, &lifecycle_, &closing_, newcomers_.possible(),
            &reaction_),
      applied_(config_, plan_, history_, &lifecycle_, &uploads_, &faults_),
      spots_(config_, plan_, history_, &lifecycle_, &faults_, &reaction_),
      steps_(config_, plan_, &journal_, &lifecycle_, &faults_, &uploads_, &spots_, &reaction_),
      broken_(config_, history_, &plan_, &lifecycle_, &applied_, &steps_, &reaction_),
      view_({config_, history_, members_, plan_, lifecycle_, newcomers_, faults_, artefacts_,
             uploads_, applied_, spots_, steps_}) {}

std::vector<Action> SwarmStateImpl::Handle(const Event& event, TimePoint now) {
  reaction_.Begin(now);
  if (!history_.began()) journal_.Record(RunBegan{config_.run, ConfigHash(config_, initial_)});
  if (!history_.sample_order()) journal_.Record(SampleOrderOf(config_));
  // What its own disk lacks is found before anybody can reach the scheduler.
  const bool of_disk =
      std::holds_alternative<ArtefactsLost>(event) || std::holds_alternative<ArtefactHere>(event);
  if (!of_disk) journal_.StoreStart();
  const RunState before = lifecycle_.state();
  std::visit([this](const auto& e) { On(e); }, event);
  for (const PeerId& peer : members_.TakeMoved()) uploads_.OnMoved(peer);
  if (const auto whole = uploads_.Look()) OnCheckpointWhole(*whole);
  faults_.Look();
  spots_.Look();
  broken_.Look();
  held_.Look();
  if (const auto at = held_.TakeInProgress()) GoOn(*at);
  steps_.HoldPlans(newcomers_.AwaitsVerdict());
  steps_.ReduceIfReady();  // with any event what it waited for may be over
  TryPlan();
  const bool changed = lifecycle_.state() != before;
  if (changed || std::holds_alternative<Tick>(event)) ShowStatus(changed);
  return reaction_.Take();
}

Status SwarmStateImpl::Restore(std::string_view event, TimePoint at) {
  SHOAL_ASSIGN_OR_RETURN(const StoredEvent stored, journal_.Restore(event));
  if (const auto* const began = std::get_if<RunBegan>(&stored)) config_.run = began->run;
  lifecycle_.Restore(stored);
  faults_.Restore(stored, at);
  if (std::holds_alternative<PlanMade>(stored)) held_.Restored();
  return Status::Ok();
}

// ---- what comes in

void SwarmStateImpl::On(const PeerMessageReceived& event) {
  if (!membership_.MayTake(event)) return;
  if (event.message.has_hello()) return OnHello(event.connection, event.message.hello());
  if (Member* const member = membership_.Heard(event.connection)) OnMember(member, event.message);
}

void SwarmStateImpl::On(const AdminCommand& event) {
  switch (event.kind) {
    case AdminCommand::Kind::kStart:
      if (!history_.started()) journal_.Record(RunStarted{});
      if (history_.held()) OrderResume();
      break;
    case AdminCommand::Kind::kPause: lifecycle_.OrderPause(); break;
    case AdminCommand::Kind::kResume: OrderResume(); break;
  }
}

void SwarmStateImpl::On(const Tick&) {
  membership_.DropSilent();
  membership_.TellAddresses();
  uploads_.OnTick();
  newcomers_.Look();
  faults_.EndDoubtfulStep(steps_.times().seconds());
  faults_.EndQuarantines();
}

void SwarmStateImpl::OrderResume() {
  if (lifecycle_.CancelPause()) {
    const Member* going = nullptr;
    for (const Member* const member : plan_.Hosts()) {
      if (!member->wants_stage) going = member;
    }
    if (going != nullptr) lifecycle_.EndSoon(going->HandsOver());  // who wants to go still does
  }
  faults_.Forgive();
  applied_.Forgive();
  spots_.Forgive();
  uploads_.Forgive();
  lifecycle_.OrderResume();
}

void SwarmStateImpl::OnHello(ConnectionId connection, const control::v1::Hello& hello) {
  const Member* const member = membership_.Admit(connection, hello);
  if (member == nullptr) return;
  faults_.OnHello(member->peer);
  Welcome(*member);
  if (!member->quarantine.empty()) faults_.TellQuarantine(*member);
  if (lifecycle_.active() && member->placed() && !member->wants_stage) {
    const std::string cause = "lost " + member->LabelWithPosition() + ": its owner paused it";
    if (!lifecycle_.GoesOnWithout(member->peer, cause)) lifecycle_.Interrupt(cause);
  }
}

void SwarmStateImpl::Welcome(const Member& member) {
  control::v1::SchedulerMessage message;
  message.mutable_welcome()->set_run(config_.run.value);
  message.mutable_welcome()->set_run_name(config_.name);
  const auto ms = [](Duration duration) {
    return static_cast<std::uint32_t>(duration / std::chrono::milliseconds(1));
  };
  const Timeouts timeouts = TimeoutsOf(config_.peer_timeout);
  message.mutable_welcome()->set_heartbeat_ms(ms(timeouts.heartbeat_interval));
  message.mutable_welcome()->set_peer_timeout_ms(ms(timeouts.peer_timeout));
  reaction_.Send(member, message);
  *message.mutable_run_status() = view_.Message();
  reaction_.Send(member, message);
  artefacts_.AskFor(member);
  if (lifecycle_.state() == RunState::kFinished) {
    message.mutable_finished()->set_generation(history_.generation());
    message.mutable_finished()->set_steps(history_.step());
    reaction_.Send(member, message);
  }
}

void SwarmStateImpl::OnMember(Member* member, const control::v1::PeerMessage& message) {
  if (const auto generation = GenerationOf(message)) {
    // Who came back in the midst of it may have missed an order, and is lost to it.
    if (*generation != history_.generation() || !member->placed() || !member->told_plan) return;
    if (lifecycle_.active()) OnPlanMember(member, message);
    return;
  }
  using control::v1::PeerMessage;
  switch (message.kind_case()) {
    case PeerMessage::kHeartbeat: membership_.OnHeartbeat(member, message.heartbeat()); break;
    case PeerMessage::kPlanFailed: faults_.OnPlanFailed(*member, message.plan_failed()); break;
    case PeerMessage::kLinkBroken: faults_.OnLinkBroken(*member, message.link_broken()); break;
    case PeerMessage::kCheckpointDone: uploads_.OnDone(member, message.checkpoint_done()); break;
    case PeerMessage::kArtefactsOffered: OnOffered(member, message.artefacts_offered()); break;
    case PeerMessage::kPrepared:
      newcomers_.OnPrepared(member, message.prepared());
      newcomers_.Look();
      break;
    case PeerMessage::kLeaving: membership_.OnLeaving(*member, message.leaving().reason()); break;
    case PeerMessage::kHandingOver:
      membership_.OnHandingOver(member, message.handing_over().reason());
      break;
    default: break;  // taken or refused before
  }
}

void SwarmStateImpl::OnPlanMember(Member* member, const control::v1::PeerMessage& message) {
  if (message.has_plan_ready()) OnPlanReady(*member, message.plan_ready());
  if (message.has_step_ready()) {
    spots_.OnReady(*member, message.step_ready());
    if (lifecycle_.active()) steps_.OnReady(*member, message.step_ready());
  }
  if (message.has_spot_checked()) spots_.OnChecked(*member, message.spot_checked());
  if (message.has_sync_done()) steps_.OnSynced(*member, message.sync_done());
  if (message.has_caught_up()) OnCaughtUp(*member, message.caught_up());
  if (message.has_applied()) OnApplied(*member, message.applied());
}

void SwarmStateImpl::OnApplied(const Member& member, const control::v1::Applied& applied) {
  Status checked = applied_.OnApplied(member, applied);
  if (!checked.ok()) return membership_.Drop(member.connection, std::move(checked));
  if (applied.weight_checksum() == 0 || !lifecycle_.active()) return;
  newcomers_.OnChecksum(member, applied.step(), applied.weight_checksum());
  while (const std::optional<Newcomers::Verdict> verdict = newcomers_.Judge()) {
    if (verdict->in_step) {
      OnInStep(*verdict->shadow);
    } else {
      faults_.Misbehaved(*verdict->shadow, FaultKind::kWeights,
                         verdict->shadow->LabelWithPosition() +
                             " got its stage from its group, but computes something "
                             "else with it");
    }
  }
}

void SwarmStateImpl::OnCaughtUp(const Member& member, const control::v1::CaughtUp& caught_up) {
  // Nobody has made more than the run has.
  const std::uint64_t steps = std::min(caught_up.step(), history_.step());
  if (!newcomers_.OnCaughtUp(member, steps)) return;
  if (config_.without_weights) return OnInStep(member);  // there is nothing to compare
  steps_.CheckWeights();
}

void SwarmStateImpl::OnInStep(const Member& member) {
  SHOAL_LOG(kInfo, "scheduler", "newcomer.in_step", {"peer", member.LabelWithPosition()},
            {"step", history_.step()});
  plan_.MarkInStep(member.peer);
  members_.Find(member.peer)->shadow_losses = 0;
  steps_.OnInStep();
}

void SwarmStateImpl::OnPlanReady(const Member& member, const control::v1::PlanReady& ready) {
  if (lifecycle_.state() != RunState::kPreparing) return;
  plan_.AddReady(member, ready);
  if (plan_.ready() < plan_.placed()) return;
  if (plan_.LansMoved()) {
    // LANs are constant for a generation, and a stage knows its own when it is loaded.
    SHOAL_LOG(kInfo, "scheduler", "plan.lans", {"generation", history_.generation()});
    lifecycle_.PlanAgain(
        "the links are measured, and some peers share a LAN: they get a plan that says so");
    return plan_.PlanAgainForLans();
  }
  if (!lifecycle_.Enter(RunEvent::kAllReady)) return;
  plan_.Trains();
  faults_.PlanWorked();
  steps_.Begin();
}

// Request 0 is of what the server lost.
void SwarmStateImpl::OnOffered(Member* member, const control::v1::ArtefactsOffered& offered) {
  offered.request() == 0 ? artefacts_.OnOffered(*member) : uploads_.OnOffered(member, offered);
}

void SwarmStateImpl::On(const ArtefactHere& event) {
  artefacts_.OnFound(event.hash);
  uploads_.OnHere(event.hash);
}

void SwarmStateImpl::OnCheckpointWhole(std::uint64_t step) {
  if (!lifecycle_.active()) return;
  faults_.CheckpointWhole();
  if (step >= config_.steps) return Finish();
  lifecycle_.CheckpointWhole(step);
}

std::vector<control::v1::ArtefactRef> SwarmStateImpl::NeededArtefacts() const {
  std::vector<control::v1::ArtefactRef> needed = uploads_.Files();
  for (const auto& [name, artefact] : initial_) needed.push_back(artefact);
  for (const auto& [name, artefact] : artefacts_.Weights()) needed.push_back(artefact);
  return needed;
}

// ---- generations

void SwarmStateImpl::TryPlan() {
  if (!lifecycle_.MayPlan()) return;
  if (history_.checkpoint().step >= config_.steps) return Finish();
  if (auto plan = PlanInPlace()) return BeginGeneration(*std::move(plan), true);
  if (!artefacts_.MakeWhole()) return;
  auto positions = PlanFromCheckpoint();
  if (!positions || uploads_.AwaitNewer(steps_.times().seconds())) return;
  BeginGeneration({*std::move(positions), {}}, false);
}

// Of those who hold the newest steps, and who is ready to follow them.
std::optional<Regrouped> SwarmStateImpl::PlanInPlace() {
  std::vector<BoundPeer> peers = held_.Holders();
  if (peers.empty()) return std::nullopt;
  if (newcomers_.possible()) {
    const std::vector<BoundPeer> ready = newcomers_.Ready();
    peers.insert(peers.end(), ready.begin(), ready.end());
  }
  std::optional<Regrouped> plan = Regroup(peers, config_.stages, config_.pipelines);
  const bool same = plan && plan->positions == plan_.positions();
  if (!same && !plan_.may_shrink()) return std::nullopt;
  return plan;
}

// Of all pipelines; once the run has waited for that for a while, of fewer.
std::optional<PlacementPlan> SwarmStateImpl::PlanFromCheckpoint() {
  const std::uint32_t most = plan_.MostPipelines(reaction_.now());
  if (auto all = plan_.Propose(most)) return all;
  // A run that has not begun waits for all, unless somebody ordered it to start.
  if (!plan_.may_shrink() || !history_.started()) return std::nullopt;
  if (!too_few_since_) too_few_since_ = reaction_.now();
  const bool waits = reaction_.now() - *too_few_since_ < kFewerPipelinesAfter;
  if (waits && !held_.grows()) return std::nullopt;
  for (std::uint32_t pipelines = most - 1; pipelines > 0; --pipelines) {
    if (auto fewer = plan_.Propose(pipelines)) return fewer;
  }
  return std::nullopt;
}

void SwarmStateImpl::BeginGeneration(Regrouped plan, bool in_place) {
  if (!history_.started()) journal_.Record(RunStarted{});
  held_.BeginGeneration(in_place);
  too_few_since_.reset();
  plan_.Adopt(std::move(plan.positions), std::move(plan.shadows));
  journal_.StoreLosses();
  std::vector<PeerId> hosts;
  for (const auto& pipeline : plan_.positions()) {
    hosts.insert(hosts.end(), pipeline.begin(), pipeline.end());
  }
  Homes homes = HomesOf(history_.last_homes(), hosts, config_.stages, config_.pipelines);
  journal_.Record(PlanMade{history_.generation() + 1,
                           in_place ? held_.step() : history_.checkpoint().step, std::move(hosts),
                           std::move(homes)});
  if (plan_.Counting().size() < plan_.pipelines()) {
    journal_.Record(PipelinesCount{history_.step(), plan_.Counting()});
  }
  newcomers_.BeginGeneration(in_place);
  uploads_.BeginGeneration(in_place);
  applied_.BeginGeneration();
  spots_.BeginGeneration();
  steps_.BeginGeneration();
  const bool entered = lifecycle_.Enter(RunEvent::kPlanned);
  SHOAL_CHECK(entered);
  SendPlan(in_place);
}

void SwarmStateImpl::SendPlan(bool in_place) {
  const control::v1::Plan common =
      CommonPlan(config_, history_.generation(), history_.step(), plan_.positions(), plan_.lans(),
                 plan_.shadows(), members_);
  members_.AddressesPlanned();
  const ArtefactMap weights = artefacts_.Weights();
  for (const auto& [peer, member] : members_.all()) {
    if (!member.connected) continue;
    members_.Find(peer)->told_plan = true;
    control::v1::SchedulerMessage message;
    *message.mutable_plan() = common;
    message.mutable_plan()->set_in_place(in_place);
    if (member.placed() && !in_place) {
      const auto stage = static_cast<std::uint32_t>(member.stage);
      for (auto& artefact : StageArtefacts(config_, stage, weights, initial_)) {
        *message.mutable_plan()->add_artefacts() = std::move(artefact);
      }
    }
    reaction_.Send(member, std::move(message));
  }
}

// With the generation that was in progress when the scheduler before this one ended.
void SwarmStateImpl::GoOn(const HeldSteps::InProgress& at) {
  const bool entered = lifecycle_.GoOn();
  SHOAL_CHECK(entered);
  journal_.Record(GenerationGoesOn{at.step});
  newcomers_.BeginGeneration(true);
  uploads_.BeginGeneration(true);
  applied_.BeginGeneration();
  spots_.BeginGeneration();
  steps_.BeginGeneration();
  control::v1::SchedulerMessage message;
  message.mutable_go_on()->set_generation(history_.generation());
  reaction_.SendEach(plan_.Hosts(), message);
  for (const Member* const host : plan_.Hosts()) members_.Find(host->peer)->told_plan = true;
  steps_.GoOn(at.planned, at.reduce);
  // That it was to end is forgotten with the scheduler before; why is not.
  for (const Member* const host : plan_.Hosts()) {
    if (host->quarantine.empty()) continue;
    lifecycle_.EndSoon(host->LabelWithPosition() + " is in quarantine: " + host->quarantine,
                       {false});
  }
}

void SwarmStateImpl::GenerationEnded(const std::string& reason) {
  control::v1::SchedulerMessage message;
  message.mutable_abort()->set_generation(history_.generation());
  message.mutable_abort()->set_reason(reason);
  for (const Member* const member : plan_.Hosts()) {
    if (!member->connected) continue;
    control::v1::SchedulerMessage told = message;
    held_.Fill(*member, told.mutable_abort());
    if (told.abort().hold_step() == 0) members_.Find(member->peer)->follows = false;
    reaction_.Send(*member, std::move(told));
  }
  journal_.StoreLosses();
  uploads_.EndGeneration();
  faults_.GenerationEnded();
  broken_.GenerationEnded();
  steps_.EndGeneration();
}

void SwarmStateImpl::Finish() {
  if (!lifecycle_.Complete()) return;
  control::v1::SchedulerMessage message;
  message.mutable_finished()->set_generation(history_.generation());
  message.mutable_finished()->set_steps(history_.checkpoint().step);
  reaction_.SendEach(members_.Everybody(), message);
}

void SwarmStateImpl::ShowStatus(bool even_if_equal) {
  const control::v1::RunStatus status = view_.Message();
  if (!even_if_equal && status.SerializeAsString() == shown_.SerializeAsString()) return;
  shown_ = status;
  control::v1::SchedulerMessage message;
  *message.mutable_run_status() = status;
  reaction_.SendEach(members_.Everybody(), message);
}

std::unique_ptr<SwarmState> NewSwarmState(const RunConfig& config,
                                          std::map<std::string, control::v1::ArtefactRef> initial) {
  return std::make_unique<SwarmStateImpl>(config, std::move(initial));
}

}  // namespace shoal::scheduler
