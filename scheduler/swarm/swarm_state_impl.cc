#include "scheduler/swarm/swarm_state_impl.h"

#include <utility>

namespace shoal::scheduler {

SwarmStateImpl::SwarmStateImpl(const RunConfig& config, ArtefactMap initial,
                               std::string join_secret)
    : config_(config),
      initial_(std::move(initial)),
      plan_(config_, &members_),
      journal_(ConfigHash(config, initial_), &reaction_),
      history_(journal_.history()),
      lifecycle_(config_, &journal_, reaction_, this),
      membership_(config_, std::move(join_secret), history_, &members_, &plan_, &lifecycle_,
                  &reaction_),
      faults_(members_, history_, reaction_, &plan_, &lifecycle_),
      artefacts_(initial_, members_, plan_, &journal_, &lifecycle_, &reaction_),
      uploads_(config_, plan_, &journal_, &lifecycle_, &faults_, &reaction_),
      applied_(config_, plan_, history_, &lifecycle_, &uploads_),
      steps_(config_, plan_, &journal_, &lifecycle_, &faults_, &uploads_, &reaction_) {}

std::vector<Action> SwarmStateImpl::Handle(const Event& event, TimePoint now) {
  reaction_.Begin(now);
  if (!history_.began()) journal_.Record(RunBegan{config_.run, ConfigHash(config_, initial_)});
  const RunState before = lifecycle_.state();
  std::visit([this](const auto& e) { On(e); }, event);
  steps_.ReduceIfReady();  // with any event what it waited for may be over
  TryPlan();
  if (lifecycle_.state() != before || std::holds_alternative<Tick>(event))
    ShowStatus(lifecycle_.state() != before);
  return reaction_.Take();
}

void SwarmStateImpl::On(const PeerMessageReceived& event) {
  if (!membership_.MayTake(event)) return;
  if (event.message.has_hello()) return OnHello(event.connection, event.message.hello());
  if (Member* member = membership_.Heard(event.connection)) OnMember(member, event.message);
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

void SwarmStateImpl::OrderResume() {
  if (lifecycle_.CancelPause()) {
    const Member* going = nullptr;
    for (const Member* member : plan_.Hosts()) {
      if (!member->wants_stage) going = member;
    }
    if (going != nullptr) lifecycle_.EndSoon(going->HandsOver());  // who wants to go still does
  }
  faults_.Forgive();
  applied_.Forgive();
  lifecycle_.OrderResume();
}

void SwarmStateImpl::On(const Tick&) {
  membership_.DropSilent();
  faults_.EndDoubtfulStep(steps_.times().seconds());
}

void SwarmStateImpl::GenerationEnded(const std::string& reason) {
  control::v1::SchedulerMessage message;
  message.mutable_abort()->set_generation(history_.generation());
  message.mutable_abort()->set_reason(reason);
  reaction_.SendEach(plan_.Hosts(), message);
  journal_.StoreLosses();
  uploads_.EndGeneration();
  faults_.GenerationEnded();
  steps_.EndGeneration();
}

Status SwarmStateImpl::Restore(std::string_view event) {
  SHOAL_ASSIGN_OR_RETURN(const StoredEvent stored, journal_.Restore(event));
  if (const auto* const began = std::get_if<RunBegan>(&stored)) config_.run = began->run;
  lifecycle_.Restore(stored);
  return Status::Ok();
}

bool SwarmStateImpl::IsMember(const PeerId& peer) const { return members_.Find(peer) != nullptr; }

std::unique_ptr<SwarmState> NewSwarmState(const RunConfig& config,
                                          std::map<std::string, control::v1::ArtefactRef> initial,
                                          std::string join_secret) {
  return std::make_unique<SwarmStateImpl>(config, std::move(initial), std::move(join_secret));
}

}  // namespace shoal::scheduler
