#include "daemon/churn/simulation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/churn/arrived_files.h"
#include "daemon/churn/events.h"
#include "daemon/churn/lines.h"
#include "daemon/churn/machine.h"
#include "daemon/churn/step_clock.h"
#include "daemon/churn/step_ledger.h"
#include "daemon/churn/swarm_phase.h"
#include "daemon/churn/visits.h"
#include "replica/state/state_share.h"
#include "scheduler/swarm/swarm_state.h"

namespace shoal::daemon {
namespace {

using control::v1::SchedulerMessage;
using scheduler::ConnectionId;

constexpr Duration kTickEvery = std::chrono::milliseconds(500);
constexpr int kConnectRoundTrips = 3;
constexpr auto kFilePercent = static_cast<std::uint32_t>(100 * (1 - kFileShare) + 0.5);
constexpr std::size_t kNobody = ~std::size_t{0};
// The organiser's: a run that is held for a person's decision waits so long for it.
constexpr Duration kResumeAfter = std::chrono::minutes(5);
constexpr Duration kReconnectAfter = std::chrono::seconds(1);
// The sum of the parts is that of doubles.
constexpr double kBalanceTolerance = 1e-6;

// Something that several machines do together: it begins when all are there.
struct Together {
  std::uint64_t generation = 0, step = 0;
  std::vector<ChurnMachine*> begun;
  std::vector<ChurnMachine*> followers;  // shadows, which only get what comes out
  bool broken = false;                   // one of them is gone, or it begins again
  std::vector<std::uint32_t> pipelines;  // of an exchange: that count
  // Of a step that was dealt out again: how often, what was begun before, and when that is done.
  std::uint32_t amendment = 0;
  int micro_batches = 0;
  TimePoint until{};
};

class ChurnSimulation final : public ChurnMachine::Owner {
 public:
  ChurnSimulation(const ChurnTrace& trace, const ChurnSettings& settings, TrainedModel model,
                  StepLedger ledger)
      : trace_(trace),
        settings_(settings),
        model_(std::move(model)),
        lines_(&events_),
        clock_(model_, settings_),
        ledger_(std::move(ledger)),
        state_(scheduler::NewSwarmState(model_.config, model_.initial)),
        phase_(model_.stages.size(), &account_) {
    const auto rate = static_cast<double>(settings.scheduler.value);
    scheduler_node_ = lines_.Add(rate, rate);
  }

  Result<ChurnResult> Run(BalanceCheck check);

 private:
  // ---- machines
  void Come(std::uint32_t number);
  void Go(std::uint32_t number);
  void Connect(ChurnMachine* machine);
  void Say(ChurnMachine* machine, control::v1::PeerMessage message) override;
  void After(Duration delay, std::function<void()> run) override {
    events_.After(delay, std::move(run));
  }
  Lines::Flow Fetch(ChurnMachine* machine, double bytes, std::function<void()> done) override {
    return lines_.Start(scheduler_node_, nodes_[machine->number()], bytes, FlowKind::kFile,
                        std::move(done));
  }
  Lines::Flow Upload(ChurnMachine* machine, double bytes, std::function<void()> done) override {
    return lines_.Start(nodes_[machine->number()], scheduler_node_, bytes, FlowKind::kFile,
                        std::move(done));
  }
  void Arrived(const std::string& hash, double bytes, double of) override;
  double BytesArrived(const std::string& hash) const override { return arrived_.BytesOf(hash); }
  std::vector<Lines::Flow> CatchUp(ChurnMachine* machine, double bytes,
                                   std::function<void()> done) override;
  double Cancel(Lines::Flow flow) override { return lines_.Cancel(flow); }
  void BeginStep(ChurnMachine* machine, const control::v1::StepPlan& plan) override;
  void BeginExchange(ChurnMachine* machine, const control::v1::Reduce& reduce) override;
  void Rests(ChurnMachine* machine) override { lines_.Reserve(nodes_[machine->number()], 0); }

  // ---- steps
  void RunStep(const std::shared_ptr<Together>& run, const control::v1::StepPlan& plan,
               int pipeline);
  PipelineWork WorkOf(const Together& run, const control::v1::PipelinePlan& plan, bool ever) const;
  void Applied(const control::v1::Apply& apply);
  void BeginPlan(const control::v1::Plan& plan);
  void Leave(const control::v1::StepPlan& plan);
  void TellPlaced();
  void Break(const ChurnMachine& machine);

  // ---- the scheduler
  void Feed(const scheduler::Event& event);
  void Take(const scheduler::Action& action);
  void Note(const ChurnMachine* to, const SchedulerMessage& message);
  void Ticks();
  void MayBegin();
  void TellPhase();
  void Fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  Status Check();
  ChurnResult Outcome();

  const ChurnTrace& trace_;
  const ChurnSettings settings_;
  const TrainedModel model_;
  EventQueue events_;
  Lines lines_;
  StepClock clock_;
  StepLedger ledger_;
  Account account_;
  std::unique_ptr<scheduler::SwarmState> state_;
  SwarmPhase phase_;
  Lines::Node scheduler_node_ = 0;

  std::map<std::uint32_t, std::unique_ptr<ChurnMachine>> machines_;
  std::map<std::uint32_t, Lines::Node> nodes_;
  std::map<PeerId, ChurnMachine*> by_id_;
  std::map<ConnectionId, ChurnMachine*> connections_;  // as the scheduler knows them
  ArrivedFiles arrived_;                               // of checkpoints
  std::map<const ChurnMachine*, ConnectionId> connection_of_;
  ConnectionId last_connection_ = 0;
  bool ticking_ = false;

  struct Place {
    int pipeline = 0, stage = 0;
    bool shadow = false;
  };
  std::uint64_t generation_ = 0;
  std::map<std::uint32_t, Place> places_;                 // by machine
  std::map<std::uint64_t, control::v1::StepPlan> plans_;  // of the generation, by step
  std::map<int, std::shared_ptr<Together>> pipelines_, groups_;
  // Of the step in progress, by pipeline: without churn, and with the first visits that are due to
  // it.
  struct PipelineStep {
    double seconds = 0, with_first_s = 0;
    std::uint64_t visits = 0, deltas = 0;  // as ChurnResult has them
    std::vector<std::uint32_t> percent{};  // of uploads, beside checkpoints
  };
  std::map<int, PipelineStep> running_;
  Visits ever_;  // what somebody had m of

  TimePoint origin_{};
  std::optional<TimePoint> begun_;
  ChurnResult result_;
  Status status_;
};

// ---- machines

void ChurnSimulation::Come(std::uint32_t number) {
  auto machine = std::make_unique<ChurnMachine>(number, model_, settings_, this);
  nodes_[number] = lines_.Add(static_cast<double>(settings_.upload.value),
                              static_cast<double>(settings_.download.value));
  by_id_[machine->id()] = machine.get();
  ++result_.comings;
  phase_.Come(number, events_.now());
  ChurnMachine* const connects = machine.get();
  machines_[number] = std::move(machine);
  After(2 * kConnectRoundTrips * settings_.latency, [this, connects] { Connect(connects); });
}

void ChurnSimulation::Connect(ChurnMachine* machine) {
  if (!machine->alive()) return;
  const ConnectionId connection = ++last_connection_;
  connections_[connection] = machine;
  connection_of_[machine] = connection;
  Feed(scheduler::PeerConnected{connection, machine->id(), "10.0.0.1"});
  machine->Connected();
  if (!std::exchange(ticking_, true)) Ticks();
}

void ChurnSimulation::Go(std::uint32_t number) {
  ChurnMachine* const machine = machines_.at(number).get();
  ++result_.deaths;
  Break(*machine);
  machine->Gone();
  phase_.Go(number, events_.now());
  if (settings_.silent || !connection_of_.contains(machine)) return;
  After(settings_.latency, [this, connection = connection_of_[machine]] {
    if (connections_.erase(connection) > 0) {
      Feed(scheduler::PeerDisconnected{connection, "connection reset"});
    }
  });
}

void ChurnSimulation::Say(ChurnMachine* machine, control::v1::PeerMessage message) {
  After(settings_.latency,
        [this, connection = connection_of_[machine], message = std::move(message)] {
          if (connections_.contains(connection)) {
            Feed(scheduler::PeerMessageReceived{connection, message});
          }
        });
}

// What it does with others comes to no end.
void ChurnSimulation::Break(const ChurnMachine& machine) {
  for (auto* const runs : {&pipelines_, &groups_}) {
    for (auto& [index, run] : *runs) {
      const bool member =
          runs == &pipelines_ ? index == machine.pipeline() : index == machine.stage();
      if (member) run->broken = true;
    }
  }
}

// From all members of the stage that have it, to equal parts.
std::vector<Lines::Flow> ChurnSimulation::CatchUp(ChurnMachine* machine, double bytes,
                                                  std::function<void()> done) {
  std::vector<Lines::Node> from;
  for (const auto& [number, place] : places_) {
    if (place.stage == machine->stage() && !place.shadow && machines_.at(number)->alive()) {
      from.push_back(nodes_[number]);
    }
  }
  std::vector<Lines::Flow> flows;
  flows.reserve(from.size());
  for (const Lines::Node node : from) {
    flows.push_back(lines_.Start(node, nodes_[machine->number()],
                                 bytes / static_cast<double>(from.size()), FlowKind::kState, done));
  }
  return flows;
}

// ---- steps

void ChurnSimulation::BeginStep(ChurnMachine* machine, const control::v1::StepPlan& plan) {
  const int pipeline = machine->pipeline();
  if (plan.pipelines(pipeline).micro_batches().empty()) {
    return After(Duration::zero(), [machine, generation = plan.generation(), step = plan.step()] {
      machine->StepDone(generation, step, 0);
    });
  }
  std::shared_ptr<Together>& run = pipelines_[pipeline];
  const bool same =
      run && run->generation == plan.generation() && run->step == plan.step() && !run->broken;
  if (!same || run->amendment != plan.amendment()) {
    auto next = std::make_shared<Together>();
    next->generation = plan.generation();
    next->step = plan.step();
    next->amendment = plan.amendment();
    if (same) {  // what it has done of it counts on
      next->micro_batches = run->micro_batches;
      next->until = run->until;
      run->broken = true;
    }
    run = std::move(next);
  }
  run->begun.push_back(machine);
  if (run->begun.size() == model_.stages.size()) RunStep(run, plan, pipeline);
}

// A sample's m counts if both ends have that of the same step; `ever`: if anybody ever had it.
PipelineWork ChurnSimulation::WorkOf(const Together& run, const control::v1::PipelinePlan& plan,
                                     bool ever) const {
  PipelineWork work;
  work.micro_batches = static_cast<std::uint32_t>(plan.micro_batches_size());
  work.first_visits.resize(model_.stages.size() - 1);
  for (std::size_t b = 0; b + 1 < model_.stages.size(); ++b) {
    for (const auto& batch : plan.micro_batches()) {
      for (const std::uint64_t sample : batch.samples()) {
        const std::uint32_t sent = run.begun[b]->upper().Of(sample);
        const bool known =
            ever ? ever_.Of(sample) > 0 : sent > 0 && sent == run.begun[b + 1]->lower().Of(sample);
        if (!known) ++work.first_visits[b];
      }
    }
  }
  return work;
}

void ChurnSimulation::RunStep(const std::shared_ptr<Together>& run,
                              const control::v1::StepPlan& plan, int pipeline) {
  std::ranges::sort(run->begun, {}, [](const ChurnMachine* machine) { return machine->stage(); });
  control::v1::PipelinePlan rest = plan.pipelines(pipeline);
  rest.mutable_micro_batches()->DeleteSubrange(0, run->micro_batches);
  const Duration before = std::max(run->until - events_.now(), Duration::zero());
  PipelineWork work = WorkOf(*run, rest, false);
  PipelineWork usual = WorkOf(*run, plan.pipelines(pipeline), true);
  for (const ChurnMachine* machine : run->begun) {
    usual.percent.push_back(machine->uploads_checkpoint() ? kFilePercent : 100);
  }
  work.percent = usual.percent;
  PipelineWork whole = WorkOf(*run, plan.pipelines(pipeline), false);
  whole.percent = usual.percent;
  running_[pipeline] = {clock_.TimesOf(usual).seconds, clock_.TimesOf(whole).seconds,
                        usual.Deltas(model_.config.micro_batch_rows),
                        whole.Deltas(model_.config.micro_batch_rows), usual.percent};
  run->micro_batches = plan.pipelines(pipeline).micro_batches_size();
  if (rest.micro_batches().empty()) {
    return After(before, [run] {
      for (ChurnMachine* const machine : run->begun) {
        if (!run->broken && machine->alive()) machine->StepDone(run->generation, run->step, 0);
      }
    });
  }
  for (std::size_t s = 0; s < run->begun.size(); ++s) {
    work.percent[s] = lines_.StepPercent(nodes_[run->begun[s]->number()]);
  }
  const PipelineTimes times = clock_.TimesOf(work);
  run->until = events_.now() + before + FromSeconds(times.seconds);
  const auto members = static_cast<std::uint32_t>(std::ranges::count_if(
      plan.pipelines(), [](const auto& p) { return p.micro_batches_size() > 0; }));
  for (std::size_t s = 0; s < run->begun.size(); ++s) {
    ChurnMachine* const machine = run->begun[s];
    const auto stage = static_cast<std::uint32_t>(s);
    const double period = clock_.PeriodSeconds(times.seconds, members);
    lines_.Reserve(nodes_[machine->number()], clock_.SentBits(work, stage, members) / period);
    After(before + FromSeconds(times.done_seconds[s]), [run, machine, seconds = times.seconds] {
      if (!run->broken && machine->alive()) machine->StepDone(run->generation, run->step, seconds);
    });
  }
}

void ChurnSimulation::BeginExchange(ChurnMachine* machine, const control::v1::Reduce& reduce) {
  const int stage = machine->stage();
  std::shared_ptr<Together>& run = groups_[stage];
  const std::vector<std::uint32_t> pipelines(reduce.pipelines().begin(), reduce.pipelines().end());
  if (!run || run->generation != reduce.generation() || run->step != reduce.step() ||
      run->pipelines != pipelines) {
    if (run) run->broken = true;
    run = std::make_shared<Together>();
    run->generation = reduce.generation();
    run->step = reduce.step();
    run->pipelines = pipelines;
  }
  const bool counts = std::ranges::count(reduce.pipelines(), machine->pipeline()) > 0;
  (counts ? run->begun : run->followers).push_back(machine);
  std::uint32_t shadows = 0;
  for (const auto& [number, place] : places_) {
    shadows += place.stage == stage && std::ranges::count(reduce.pipelines(), place.pipeline) == 0;
  }
  const auto members = static_cast<std::uint32_t>(reduce.pipelines_size());
  if (run->begun.size() != members || run->followers.size() != shadows) return;
  const double seconds =
      clock_.ExchangeSeconds(static_cast<std::uint32_t>(stage), members, shadows);
  After(FromSeconds(seconds), [run] {
    if (run->broken) return;
    for (const auto* group : {&run->begun, &run->followers}) {
      for (ChurnMachine* member : *group) member->ExchangeDone(run->generation, run->step);
    }
  });
}

void ChurnSimulation::Applied(const control::v1::Apply& apply) {
  const auto plan = plans_.find(apply.step());
  if (plan == plans_.end()) return Fail(Internal("a step was applied without its plan"));
  if (Status status = ledger_.Applied(plan->second); !status.ok()) return Fail(std::move(status));
  StepWorth worth;
  worth.step = apply.step();
  std::uint32_t pipelines = 0, first = 0;
  const PipelineStep* slowest = nullptr;
  double with_first_s = 0;
  for (int p = 0; p < plan->second.pipelines_size(); ++p) {
    const auto& batches = plan->second.pipelines(p).micro_batches();
    if (batches.empty()) continue;
    ++pipelines;
    worth.micro_batches += static_cast<std::uint32_t>(batches.size());
    const PipelineStep& ran = running_[p];
    if (slowest == nullptr || ran.seconds > slowest->seconds) slowest = &ran;
    with_first_s = std::max(with_first_s, ran.with_first_s);
    result_.visits += ran.visits;
    result_.deltas += ran.deltas;
    for (const auto& batch : batches) {
      for (const std::uint64_t sample : batch.samples()) {
        first += ever_.Of(sample) == 0 ? 1 : 0;
        ever_.Set(sample, apply.step() + 1);
      }
    }
  }
  const auto stages = static_cast<double>(model_.stages.size());
  worth.useful_s = stages * settings_.pipelines * clock_.UsualSeconds(first, slowest->percent);
  worth.first_s = stages * pipelines * (with_first_s - slowest->seconds);
  account_.Applied(worth, events_.now());
  plans_.erase(plans_.begin(), std::next(plan));
  MayBegin();
}

void ChurnSimulation::BeginPlan(const control::v1::Plan& plan) {
  generation_ = plan.generation();
  plans_.clear();
  places_.clear();
  for (const control::v1::Position& position : plan.positions()) {
    PeerId peer;
    std::ranges::copy(position.peer(), peer.key.begin());
    places_[by_id_.at(peer)->number()] = {static_cast<int>(position.pipeline()),
                                          static_cast<int>(position.stage()), position.shadow()};
  }
  ++result_.plans;
  if (plan.in_place()) ++result_.plans_in_place;
  if (plan.resume_step() > ledger_.steps()) return Fail(Internal("a plan resumes at a later step"));
  ledger_.BackTo(plan.resume_step());
  account_.BackTo(plan.resume_step());
  TellPlaced();
}

// Who is left of their pipelines follows.
void ChurnSimulation::Leave(const control::v1::StepPlan& plan) {
  if (plan.lost().empty()) return;
  std::erase_if(places_, [&](const auto& entry) {
    const auto pipeline = static_cast<std::uint32_t>(entry.second.pipeline);
    const auto stage = static_cast<std::uint32_t>(entry.second.stage);
    return std::ranges::any_of(plan.lost(), [&](const control::v1::Position& at) {
      return at.pipeline() == pipeline && at.stage() == stage;
    });
  });
  TellPlaced();
  for (const auto& [number, place] : places_) {
    if (place.shadow) machines_.at(number)->CatchUpWithOthers();
  }
}

void ChurnSimulation::TellPlaced() {
  std::set<std::size_t> placed;
  std::map<int, std::size_t> members, shadows;  // by stage
  for (const auto& [number, place] : places_) {
    placed.insert(number);
    ++members[place.stage];
    shadows[place.stage] += place.shadow ? 1 : 0;
  }
  phase_.Placed(std::move(placed));
  for (const auto& [number, place] : places_) {
    const std::size_t lack = shadows[place.stage];
    if (lack == 0) continue;
    lines_.ShareState(nodes_[number], replica::StateShareOf(members[place.stage] - lack, lack));
  }
}

// ---- the scheduler

// What the scheduler says is noted when it says it, once, whoever it says it to.
void ChurnSimulation::Note(const ChurnMachine* to, const SchedulerMessage& message) {
  switch (message.kind_case()) {
    case SchedulerMessage::kPlan:
      if (message.plan().generation() > generation_) BeginPlan(message.plan());
      return;
    case SchedulerMessage::kStepPlan:
      if (!OnlyFollowersLeft(message.step_plan())) {
        plans_[message.step_plan().step()] = message.step_plan();
      }
      return Leave(message.step_plan());
    case SchedulerMessage::kApply:
      if (message.apply().step() == ledger_.steps()) Applied(message.apply());
      return;
    case SchedulerMessage::kAbort:
      return phase_.Aborted(to == nullptr ? kNobody : to->number(), message.abort());
    default: return;
  }
}

void ChurnSimulation::Take(const scheduler::Action& action) {
  if (const auto* send = std::get_if<scheduler::SendTo>(&action)) {
    const auto to = connections_.find(send->connection);
    Note(to == connections_.end() ? nullptr : to->second, send->message);
    After(settings_.latency, [this, send = *send] {
      const auto found = connections_.find(send.connection);
      if (found != connections_.end() && found->second->alive()) found->second->On(send.message);
    });
  } else if (std::holds_alternative<scheduler::CheckpointComplete>(action)) {
    ++result_.checkpoints;
    phase_.Saved();
    arrived_.KeepOnly(state_->NeededArtefacts());
  } else if (std::holds_alternative<scheduler::ArtefactsUnneeded>(action)) {
    arrived_.KeepOnly(state_->NeededArtefacts());
  } else if (const auto* want = std::get_if<scheduler::WantArtefacts>(&action)) {
    for (const auto& file : want->files) {
      if (BytesArrived(file.hash()) < static_cast<double>(file.size())) continue;
      After({}, [this, hash = file.hash()] { Feed(scheduler::ArtefactHere{hash}); });
    }
  } else if (const auto* dropped = std::get_if<scheduler::Disconnect>(&action)) {
    const auto found = connections_.find(dropped->connection);
    if (found == connections_.end()) return;
    ChurnMachine* const machine = found->second;
    connections_.erase(found);
    if (!machine->alive()) return;
    machine->Disconnected();
    After(kReconnectAfter, [this, machine] { Connect(machine); });
  }
}

void ChurnSimulation::Arrived(const std::string& hash, double bytes, double of) {
  arrived_.Set(hash, bytes);
  if (bytes >= of) After({}, [this, hash] { Feed(scheduler::ArtefactHere{hash}); });
}

void ChurnSimulation::Feed(const scheduler::Event& event) {
  const scheduler::RunState before = state_->run_state();
  const std::vector<scheduler::Action> actions = state_->Handle(event, events_.now());
  for (const scheduler::Action& action : actions) Take(action);
  const scheduler::RunState after = state_->run_state();
  if (before == scheduler::RunState::kTraining && after != before) {
    account_.Unfinished(events_.now());
  }
  if (after == scheduler::RunState::kFailed) Fail(Internal(state_->View(events_.now()).reason));
  if (after == scheduler::RunState::kTraining) TellPhase();
  phase_.Look(after, events_.now());
  if (after == scheduler::RunState::kTraining && before != after) MayBegin();
}

// Who has micro-batches in the step in progress.
void ChurnSimulation::TellPhase() {
  const auto plan = plans_.find(ledger_.steps());
  if (plan == plans_.end()) return;
  std::set<std::size_t> counting;
  for (const auto& [number, place] : places_) {
    if (!plan->second.pipelines(place.pipeline).micro_batches().empty()) counting.insert(number);
  }
  phase_.Counts(std::move(counting));
}

void ChurnSimulation::Ticks() {
  if (connections_.empty()) {
    ticking_ = false;
    return;
  }
  Feed(scheduler::Tick{});
  if (phase_.Stuck(kResumeAfter, events_.now())) {
    ++result_.resumed;
    Feed(scheduler::AdminCommand{scheduler::AdminCommand::Kind::kResume});
  }
  After(kTickEvery, [this] { Ticks(); });
}

// What comes before the first step does not count: it would be the same without churn. Nor does
// what comes before the last step that begins while the trace warms up.
void ChurnSimulation::MayBegin() {
  if (begun_ && events_.now() > origin_ + trace_.measured_from) return;
  begun_ = events_.now();
  account_.Begin(ledger_.steps(), events_.now());
  result_ = {};
}

Status ChurnSimulation::Check() {
  const Balance balance = account_.At(events_.now());
  const double off = std::abs(balance.Parts() - balance.all);
  if (off <= kBalanceTolerance * std::max(balance.all, 1.0)) return Status::Ok();
  return Internal("the parts of the time differ from all of it by " + std::to_string(off) + " s");
}

ChurnResult ChurnSimulation::Outcome() {
  result_.balance = account_.At(events_.now());
  result_.presence = account_.Presence(events_.now());
  result_.measured_seconds = Seconds(origin_ + trace_.length - begun_.value_or(origin_));
  result_.step_seconds = clock_.UsualSeconds(0, {});
  result_.goodput = result_.balance.Share(result_.balance.useful);
  return result_;
}

Result<ChurnResult> ChurnSimulation::Run(BalanceCheck check) {
  origin_ = events_.now();
  // Or it would wait until there are machines for all pipelines.
  Feed(scheduler::AdminCommand{scheduler::AdminCommand::Kind::kStart});
  for (const ChurnEvent& event : trace_.events) {
    events_.At(origin_ + event.at,
               [this, event] { event.comes ? Come(event.machine) : Go(event.machine); });
  }
  std::uint64_t checked = 0;
  while (events_.RunNext(origin_ + trace_.length)) {
    if (!status_.ok()) return status_;
    const bool stepped = std::exchange(checked, ledger_.steps()) != ledger_.steps();
    if (stepped || check == BalanceCheck::kAfterEachEvent) {
      SHOAL_RETURN_IF_ERROR(Check());
    }
  }
  events_.AdvanceTo(origin_ + trace_.length);
  SHOAL_RETURN_IF_ERROR(Check());
  return Outcome();
}

}  // namespace

Result<ChurnResult> SimulateChurn(const ChurnTrace& trace, const ChurnSettings& settings,
                                  BalanceCheck check) {
  SHOAL_ASSIGN_OR_RETURN(TrainedModel model, MakeGpt2Xl(settings));
  const dataset::SamplerOptions samples{settings.seed, settings.train_rows,
                                        model.config.micro_batches, model.config.micro_batch_rows};
  SHOAL_ASSIGN_OR_RETURN(StepLedger ledger, StepLedger::Make(samples));
  return ChurnSimulation(trace, settings, std::move(model), std::move(ledger)).Run(check);
}

}  // namespace shoal::daemon
