#include "scheduler/swarm/swarm_state_impl.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/units.h"
#include "net/control/control.h"
#include "replica/methods/replica_method.h"
#include "scheduler/swarm/peer_message_check.h"

namespace shoal::scheduler {
namespace {

constexpr const char* kHowToResume = "continue with: shoal swarm resume";
constexpr const char* kStartedAgain = "the scheduler was started again";

std::uint32_t LocalSteps(const RunConfig& config) {
  const auto method = replica::ParseReplicaMethod(config.replica_method);
  return method.ok() && config.pipelines > 1 ? method->local.steps : 0;
}

}  // namespace

SwarmStateImpl::SwarmStateImpl(const RunConfig& config, ArtefactMap initial,
                               std::string join_secret)
    : config_(config),
      initial_(std::move(initial)),
      join_secret_(std::move(join_secret)),
      local_steps_(LocalSteps(config)),
      plan_(config_, &members_),
      journal_(ConfigHash(config, initial_), &reaction_),
      history_(journal_.history()),
      account_(config.stages, config.pipelines),
      stage_choice_(config.replica_method, config.stages, config.pipelines),
      line_rates_(config.pipelines, config.stages),
      consistency_(config.pipelines),
      plausibility_(config.stages) {
  auto sampler = dataset::Sampler::Make(
      {config.seed, config.train_rows, config.micro_batches, config.micro_batch_rows});
  if (sampler.ok()) {
    sampler_ = std::move(sampler).value();
  } else {
    Fail(sampler.status().message());
  }
}

std::vector<Action> SwarmStateImpl::Handle(const Event& event, TimePoint now) {
  reaction_.Begin(now);
  if (!history_.began()) journal_.Record(RunBegan{config_.run, ConfigHash(config_, initial_)});
  const RunState before = state_;
  std::visit([this](const auto& e) { On(e); }, event);
  TryPlan();
  if (state_ != before || std::holds_alternative<Tick>(event)) ShowStatus(state_ != before);
  return reaction_.Take();
}

void SwarmStateImpl::On(const PeerConnected& event) {
  if (members_.connections() >= net::kControlConnectionsMax) {
    reaction_.Add(Disconnect{
        event.connection,
        ResourceExhausted("the scheduler serves " + std::to_string(net::kControlConnectionsMax) +
                          " connections and takes no more; try again later")});
    return;
  }
  members_.Open(event.connection, event.peer, event.address, reaction_.now());
}

void SwarmStateImpl::On(const PeerMessageReceived& event) {
  if (members_.FindConnection(event.connection) == nullptr) return;  // dropped meanwhile
  if (Status checked = CheckPeerMessage(event.message, config_); !checked.ok()) {
    Drop(event.connection, std::move(checked));
    return;
  }
  if (event.message.has_hello()) {
    OnHello(event.connection, event.message.hello());
    return;
  }
  Member* member = members_.Of(event.connection);
  if (member == nullptr) {
    Drop(event.connection, FailedPrecondition("the first message must be a hello"));
    return;
  }
  member->last_heard = reaction_.now();
  OnMember(member, event.message);
}

void SwarmStateImpl::On(const PeerDisconnected& event) {
  Member* member = members_.Of(event.connection);
  members_.Close(event.connection);
  if (member != nullptr) Lost(member, event.reason);
}

void SwarmStateImpl::On(const AdminCommand& event) {
  switch (event.kind) {
    case AdminCommand::Kind::kStart:
      if (!history_.started()) journal_.Record(RunStarted{});
      if (history_.held()) OrderResume();
      break;
    case AdminCommand::Kind::kPause: OrderPause(); break;
    case AdminCommand::Kind::kResume: OrderResume(); break;
  }
}

void SwarmStateImpl::OrderPause() {
  if (state_ == RunState::kFinished || state_ == RunState::kFailed) return;
  const std::string cause = std::string("paused by the organiser; ") + kHowToResume;
  if (state_ == RunState::kTraining && history_.step() < config_.steps) {
    // The next step ends with a checkpoint, so that no work is lost; a second order joins the
    // first.
    if (ending_ && ending_->hold) return;
    ending_ = Ending{cause, ending_ ? ending_->from : history_.step(), true};
    journal_.Store(RunHeld{cause});  // survives a restart before that checkpoint is whole
    return;
  }
  Hold(cause, nullptr);
}

void SwarmStateImpl::OrderResume() {
  if (ending_ && ending_->hold) {
    ending_.reset();
    journal_.Record(RunReleased{});
    for (const Member* member : plan_.Hosts()) {  // who wants to go still does
      if (!member->wants_stage) ending_ = Ending{HandsOver(*member), history_.step(), false};
    }
    MaybeReduce();
  }
  backoff_.Reset(reaction_.now());
  refusals_.clear();
  replaced_.clear();
  complaints_.Clear();
  weight_repairs_.clear();
  if (!history_.held()) return;
  cause_ = "the organiser ordered to resume";
  journal_.Record(RunReleased{});
}

void SwarmStateImpl::On(const Tick&) {
  for (const ConnectionId id :
       members_.Silent(reaction_.now(), config_.peer_timeout, kHelloTimeout)) {
    Drop(id, DeadlineExceeded("nothing was heard of it for " +
                              FormatDuration(members_.Of(id) != nullptr ? config_.peer_timeout
                                                                        : kHelloTimeout)));
  }
  for (const PeerId& peer : members_.ForgetAway(reaction_.now(), kAwayLimit, kAbsentMax)) {
    plan_.ForgetRoundTrips(peer);
  }
  DoubtedForLong();
}

bool SwarmStateImpl::Enter(RunEvent event) {
  const auto next = NextState(state_, event);
  if (next) state_ = *next;
  return next.has_value();
}

void SwarmStateImpl::EndGeneration(const std::string& cause, const Member* lost) {
  const bool was_active = active();
  if (!Enter(RunEvent::kInterrupted)) return;
  cause_ = cause + StepsUndone();
  ending_.reset();
  if (!was_active) return;
  control::v1::SchedulerMessage message;
  message.mutable_abort()->set_generation(history_.generation());
  message.mutable_abort()->set_reason(cause_);
  for (const Member* member : plan_.Hosts()) {
    if (member != lost && member->connected) reaction_.Send(*member, message);
  }
  journal_.StoreLosses();
  rounds_.Clear();
  doubt_.reset();
  step_times_.Reset();
}

// Whether it is to try again: an order to pause that came before holds the run.
bool SwarmStateImpl::EndOrHold(const std::string& cause, const Member* lost) {
  if (!active()) return false;
  const bool ordered = ending_ && ending_->hold;
  EndGeneration(cause, lost);
  if (ordered) {
    Hold(cause + "; a pause was ordered before that: " + kHowToResume, nullptr);
  }
  return !ordered;
}

void SwarmStateImpl::Interrupt(const std::string& cause, const Member* lost) {
  if (EndOrHold(cause, lost)) CountFailure(cause);
}

void SwarmStateImpl::InterruptUncounted(const std::string& cause) {
  if (EndOrHold(cause, nullptr)) backoff_.Wait(reaction_.now());
}

void SwarmStateImpl::CountFailure(const std::string& cause) {
  backoff_.CountFailure(history_.step(), reaction_.now());
  if (backoff_.exhausted()) {
    Hold(cause + "; this was interruption " + std::to_string(backoff_.failures()) +
             " in a row without progress, so the run stays paused: mend the cause, then " +
             kHowToResume,
         nullptr);
  }
}

void SwarmStateImpl::Hold(const std::string& cause, const Member* lost) {
  if (state_ == RunState::kFinished || state_ == RunState::kFailed) return;
  EndGeneration(cause, lost);
  journal_.Record(RunHeld{cause_});
}

void SwarmStateImpl::Fail(const std::string& cause) {
  if (active()) EndGeneration(cause, nullptr);
  if (Enter(RunEvent::kImpossible)) {
    cause_ = cause + "; correct run.toml and start shoal-scheduler again";
  }
}

Status SwarmStateImpl::Restore(std::string_view event) {
  SHOAL_ASSIGN_OR_RETURN(const StoredEvent stored, journal_.Restore(event));
  if (const auto* const began = std::get_if<RunBegan>(&stored)) {
    config_.run = began->run;
  } else if (std::holds_alternative<PlanMade>(stored)) {
    if (Enter(RunEvent::kInterrupted) && !history_.held()) cause_ = kStartedAgain;
  } else if (const auto* const held = std::get_if<RunHeld>(&stored)) {
    Enter(RunEvent::kInterrupted);
    cause_ = held->reason;
  } else if (std::holds_alternative<RunReleased>(stored)) {
    cause_ = kStartedAgain;
  } else if (const auto* const finished = std::get_if<RunFinished>(&stored)) {
    // With more steps in run.toml than before, the run goes on from its last checkpoint.
    if (finished->steps >= config_.steps) Enter(RunEvent::kCompleted);
  }
  return Status::Ok();
}

ArtefactMap SwarmStateImpl::CurrentWeights() const {
  if (history_.checkpoint().step > 0) return history_.checkpoint().files;
  ArtefactMap weights = initial_;
  weights.erase("data");
  return weights;
}

bool SwarmStateImpl::IsMember(const PeerId& peer) const { return members_.Find(peer) != nullptr; }

std::unique_ptr<SwarmState> NewSwarmState(const RunConfig& config,
                                          std::map<std::string, control::v1::ArtefactRef> initial,
                                          std::string join_secret) {
  return std::make_unique<SwarmStateImpl>(config, std::move(initial), std::move(join_secret));
}

}  // namespace shoal::scheduler
