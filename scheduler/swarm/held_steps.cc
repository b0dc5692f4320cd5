#include "scheduler/swarm/held_steps.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "common/log.h"
#include "replica/methods/replica_method.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/plan/regroup.h"
#include "scheduler/swarm/plan_messages.h"

namespace shoal::scheduler {
namespace {

bool MayKeepAnyStep(const RunConfig& config) {
  if (config.pipelines == 1) return true;
  const auto method = replica::ParseReplicaMethod(config.replica_method);
  return method.ok() && (!method->traits.prepares_checkpoints || method->traits.pipelines_differ);
}

// Whether a scheduler that was started again knows all that it has to, to go on with a generation.
// Which stages exchange exactly is measured and decided once in each.
bool MayGoOn(const RunConfig& config) {
  const auto method = replica::ParseReplicaMethod(config.replica_method);
  return config.pipelines == 1 || (method.ok() && !method->StageChoiceStart());
}

// Whether it is the order that led to so many applied steps.
bool Knows(const control::v1::Apply& apply, std::uint64_t step) {
  return apply.labels() > 0 && apply.step() + 1 == step;
}

}  // namespace

HeldSteps::HeldSteps(const RunConfig& config, Members* members, SwarmPlan* plan,
                     RunJournal* journal, Lifecycle* lifecycle, ClosingCheckpoint* closing,
                     bool in_place, Reaction* reaction)
    : config_(config),
      members_(*members),
      plan_(*plan),
      journal_(*journal),
      history_(journal->history()),
      lifecycle_(*lifecycle),
      closing_(*closing),
      reaction_(*reaction),
      possible_(MayKeepAnyStep(config)),
      in_place_(in_place),
      may_shrink_(in_place || plan->pipelines_differ()) {}

// Who is one step behind has only not heard its Apply.
bool HeldSteps::Holds(const Member* member, std::uint32_t pipeline, std::uint32_t stage) const {
  if (member == nullptr || !member->connected) return false;
  const control::v1::Held& held = member->held;
  const bool behind = held.synced() && held.step() + 1 == step_ && Knows(last_apply_, step_);
  return held.generation() == history_.generation() && (held.step() == step_ || behind) &&
         held.pipeline() == pipeline && held.stage() == stage;
}

// A member of the stage lost its connection, but perhaps not its process.
bool HeldSteps::MayReturn(std::uint32_t stage) const {
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
    const Member* const member = plan_.At(p, stage);
    if (member != nullptr && !member->connected) return true;
  }
  return false;
}

// Where only a whole pipeline can go on.
HeldSteps::Coverage HeldSteps::CoveredByPipelines() const {
  Coverage covered{true, false, false, false};
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
    bool stays = true, saves = true, possible = true;
    for (std::uint32_t s = 0; s < config_.stages; ++s) {
      const Member* const member = plan_.At(p, s);
      const bool holds = Holds(member, p, s);
      stays = stays && holds && member->may_host();
      saves = saves && holds && member->save_error.empty();
      possible = possible && (holds || (member != nullptr && !member->connected));
    }
    covered.all = covered.all && stays;
    covered.whole += stays ? 1 : 0;
    covered.every_stage = covered.every_stage || saves;
    covered.possible = covered.possible || possible;
  }
  covered.stays = covered.whole > 0;
  return covered;
}

HeldSteps::Coverage HeldSteps::Covered() const {
  if (plan_.pipelines_differ()) return CoveredByPipelines();
  Coverage covered{true, true, true, true};
  for (std::uint32_t s = 0; s < config_.stages; ++s) {
    bool any = false, stays = false, held = false;
    for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
      const Member* const member = plan_.At(p, s);
      const bool holds = Holds(member, p, s);
      covered.all = covered.all && holds && member->may_host();
      stays = stays || (holds && member->may_host());
      any = any || (holds && member->save_error.empty());
      held = held || holds;
    }
    covered.stays = covered.stays && stays;
    covered.every_stage = covered.every_stage && any;
    // A run that is held is resumed when its disks have space.
    covered.possible = covered.possible && (any || MayReturn(s) || (held && AwaitsResume()));
  }
  return covered;
}

StepsFate HeldSteps::Begin(const Keep& keep, double step_seconds) {
  phase_ = Phase::kNone;
  grows_ = false;
  step_ = history_.step();
  step_seconds_ = step_seconds;
  until_ = reaction_.now() + kReturnGrace;
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
    for (std::uint32_t s = 0; s < config_.stages; ++s) {
      Member* const member = plan_.At(p, s);
      // Who has come back since said itself what it holds.
      if (member == nullptr || (member->connected && !member->told_plan)) continue;
      member->held.Clear();
      if (!member->connected || member->peer == keep.without) continue;
      if (plan_.IsShadow(member->peer)) continue;
      member->held.set_generation(history_.generation());
      member->held.set_step(step_);
      member->held.set_pipeline(p);
      member->held.set_stage(s);
    }
  }
  if (!possible_ || !keep.steps || step_ == 0) return StepsFate::kTrainedAgain;
  held_next_ = keep.until_resumed;
  const StepsFate fate = Decide();
  held_next_ = false;
  return fate;
}

// Whether the next generation can have those who hold the step as they are: all positions, or at
// least every stage, or a whole pipeline, where members may come and go.
bool HeldSteps::MayGoOnInPlace(const Coverage& covered) const {
  const bool left = step_ < config_.steps;  // else there is only a checkpoint to be made
  const bool some = may_shrink_ && covered.stays;
  return left && (covered.all || some) && !history_.held() && !grows_;
}

// Whether there is a checkpoint of the step, with which alone more pipelines than are whole can
// train.
bool HeldSteps::GrowsFromCheckpoint(const Coverage& covered) const {
  return plan_.pipelines_differ() && step_ == history_.checkpoint().step &&
         plan_.MayGrowTo(covered.whole + 1, reaction_.now());
}

// Members keep what they hold for longer than a run that is held waits.
bool HeldSteps::MayWait(const Coverage& covered) const {
  const Duration more = AwaitsResume() ? kHeldWait : Duration::zero();
  return covered.possible && reaction_.now() < until_ + more;
}

StepsFate HeldSteps::Decide() {
  phase_ = Phase::kNone;
  const Coverage covered = Covered();
  grows_ = GrowsFromCheckpoint(covered);
  const bool tried = tries_.step == step_ && tries_.members == HolderIds();
  const std::uint32_t tries = tried ? tries_.count : 0;
  if (MayGoOnInPlace(covered) && tries < (may_shrink_ ? kInPlaceTries : 1)) {
    phase_ = Phase::kKept;
    return StepsFate::kKept;
  }
  if (step_ <= history_.checkpoint().step) return StepsFate::kTrainedAgain;  // there is none
  if (covered.every_stage) {
    return closing_.Begin(step_, step_seconds_) ? StepsFate::kBeingSaved : StepsFate::kTrainedAgain;
  }
  if (!MayWait(covered)) return StepsFate::kTrainedAgain;
  phase_ = Phase::kAwaiting;
  return StepsFate::kAwaited;
}

void HeldSteps::Fill(const Member& member, control::v1::Abort* abort) const {
  if (phase_ == Phase::kNone && !closing_.saving()) return;
  // A shadow keeps what it has got so far.
  const bool shadow = in_place_ && phase_ != Phase::kNone && plan_.IsShadow(member.peer);
  if (member.held.generation() != history_.generation() && !shadow) return;
  abort->set_hold_step(step_);
  if (Knows(last_apply_, step_)) *abort->mutable_apply() = last_apply_;
  closing_.Fill(member, abort);
}

// Members that are one step behind, which they are told of next.
std::set<PeerId> HeldSteps::CatchUp() {
  std::set<PeerId> behind;
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
    for (std::uint32_t s = 0; s < config_.stages; ++s) {
      Member* const member = plan_.At(p, s);
      if (!Holds(member, p, s) || member->held.step() == step_) continue;
      member->held.set_step(step_);
      behind.insert(member->peer);
    }
  }
  return behind;
}

// What they hold they keep, and save if that is decided.
void HeldSteps::Tell(const std::set<PeerId>& behind) {
  control::v1::SchedulerMessage message;
  message.mutable_abort()->set_generation(history_.generation());
  message.mutable_abort()->set_reason(lifecycle_.cause());
  for (const Member* const member : plan_.Hosts()) {
    if (!member->connected) continue;
    control::v1::SchedulerMessage told = message;
    Fill(*member, told.mutable_abort());
    const bool news = told.abort().save() || behind.contains(member->peer);
    if (news && told.abort().hold_step() > 0) reaction_.Send(*member, std::move(told));
  }
}

void HeldSteps::Look() {
  if (restored_) return LookRestored();
  if (phase_ == Phase::kNone) closing_.Look();
  // What is saved its holders may load again; they have some time to finish that themselves.
  if (saving_ && !closing_.saving()) release_at_ = reaction_.now() + kReleaseAfter;
  saving_ = closing_.saving();
  if (release_at_ && reaction_.now() >= *release_at_ && !lifecycle_.active()) Release();
  if (phase_ == Phase::kNone) return;
  const Coverage covered = Covered();
  const bool stays =
      phase_ == Phase::kKept ? MayGoOnInPlace(covered) : !covered.every_stage && MayWait(covered);
  const std::set<PeerId> behind =
      stays && phase_ == Phase::kAwaiting ? std::set<PeerId>() : CatchUp();
  if (stays) {  // who came back behind the others is to hold what they do when the plan comes
    if (!behind.empty()) Tell(behind);
    return;
  }
  const StepsFate fate = Decide();
  lifecycle_.SetStepsFate(fate, "");
  fate == StepsFate::kTrainedAgain ? Release() : Tell(behind);
}

// A run may wait for a peer for long: nobody's memory is kept for it meanwhile.
void HeldSteps::Release() {
  release_at_.reset();
  control::v1::SchedulerMessage message;
  message.mutable_abort()->set_generation(history_.generation());
  message.mutable_abort()->set_reason(lifecycle_.cause());
  for (const Member* const host : plan_.Hosts()) {
    Member* const member = members_.Find(host->peer);
    if (member->connected) reaction_.Send(*member, message);
    member->held.Clear();
    member->follows = false;
  }
}

std::vector<PeerId> HeldSteps::HolderIds() const {
  std::vector<PeerId> ids;
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
    for (std::uint32_t s = 0; s < config_.stages; ++s) {
      const Member* const member = plan_.At(p, s);
      if (Holds(member, p, s)) ids.push_back(member->peer);
    }
  }
  std::ranges::sort(ids);
  return ids;
}

std::vector<BoundPeer> HeldSteps::Holders() const {
  std::vector<BoundPeer> holders;
  if (phase_ != Phase::kKept) return holders;
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
    const std::size_t before = holders.size();
    for (std::uint32_t s = 0; s < config_.stages; ++s) {
      const Member* const member = plan_.At(p, s);
      if (!Holds(member, p, s) || !member->may_host()) continue;
      holders.push_back({member->peer, s, p, true, member->joined});
    }
    const bool whole = holders.size() - before == config_.stages;
    if (plan_.pipelines_differ() && !whole) holders.resize(before);
  }
  return holders;
}

void HeldSteps::BeginGeneration(bool in_place) {
  phase_ = Phase::kNone;
  restored_ = false;
  release_at_.reset();
  if (!in_place) return;
  std::vector<PeerId> members = HolderIds();
  const bool again = tries_.step == step_ && tries_.members == members;
  tries_ = {step_, std::move(members), again ? tries_.count + 1 : 1};
}

// ---- after a restart of the scheduler

// Whom the newest plan gives a position.
std::size_t HeldSteps::PlacesLeft() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(history_.hosts(), [](const PeerId& host) { return host != PeerId{}; }));
}

// Whether somebody is not back who may hold steps that no checkpoint has.
bool HeldSteps::AwaitsHosts() const {
  return std::ranges::any_of(history_.hosts(), [this](const PeerId& host) {
    const Member* const member = members_.Find(host);
    return host != PeerId{} && (member == nullptr || !member->connected);
  });
}

// Whether a peer that came back holds so many steps, or all but their last Apply. One that has left
// the plan may have agreed on that step with others, before it was dealt out again.
bool HeldSteps::Counts(const Member& member, std::uint64_t step) const {
  const control::v1::Held& held = member.held;
  if (held.stage() >= config_.stages) return false;
  const std::size_t place = std::size_t{held.pipeline()} * config_.stages + held.stage();
  const std::vector<PeerId>& hosts = history_.hosts();  // nobody else is believed
  return place < hosts.size() && hosts[place] == member.peer && member.connected &&
         held.generation() == history_.generation() &&
         (held.step() == step || (held.synced() && held.step() + 1 == step));
}

// The most steps that peers which came back hold together: at all positions, or of every stage.
std::optional<std::uint64_t> HeldSteps::StepOfReturned(bool all) const {
  std::set<std::uint64_t, std::greater<>> steps;
  for (const auto& [peer, member] : members_.all()) steps.insert(member.held.step());
  for (const std::uint64_t step : steps) {
    if (step <= history_.checkpoint().step || step > config_.steps) continue;
    std::set<std::pair<std::uint32_t, std::uint32_t>> places;
    std::set<std::uint32_t> stages;
    std::map<std::uint32_t, std::uint32_t> by_pipeline;
    for (const auto& [peer, member] : members_.all()) {
      if (!Counts(member, step)) continue;
      places.emplace(member.held.stage(), member.held.pipeline());
      stages.insert(member.held.stage());
      ++by_pipeline[member.held.pipeline()];
    }
    const bool covered =
        plan_.pipelines_differ()
            ? std::ranges::any_of(by_pipeline,
                                  [this](const auto& of) { return of.second == config_.stages; })
            : stages.size() == config_.stages;
    if (all ? places.size() == PlacesLeft() : covered) return step;
  }
  return std::nullopt;
}

// Losses of steps that were not stored, and the last Apply: as all holders know them, if they
// agree.
bool HeldSteps::TakeLosses(std::uint64_t step) {
  std::vector<double> losses;
  const control::v1::Apply* apply = nullptr;
  for (const auto& [peer, member] : members_.all()) {
    const control::v1::Held& held = member.held;
    if (!Counts(member, step) || held.step() != step) continue;
    std::vector<double> own;
    for (std::uint64_t t = history_.step(); t < step; ++t) {
      const std::uint64_t at = t - held.first_loss();
      if (t < held.first_loss() || at >= static_cast<std::uint64_t>(held.losses_size())) break;
      own.push_back(held.losses(static_cast<int>(at)));
    }
    if (own.size() != step - std::min(step, history_.step())) return false;
    const bool first = apply == nullptr;
    if (!first &&
        (own != losses || held.last_apply().SerializeAsString() != apply->SerializeAsString())) {
      return false;
    }
    losses = std::move(own);
    apply = &held.last_apply();
  }
  const bool fits = apply != nullptr && std::isfinite(apply->global_norm()) &&
                    apply->step() + 1 == step &&
                    apply->learning_rate() == LearningRate(config_, apply->step());
  last_apply_ = fits ? *apply : control::v1::Apply();
  for (const double loss : losses) journal_.AddLoss(loss);
  journal_.StoreLosses();
  return true;
}

// Whoever holds the step is at its place again.
void HeldSteps::Adopt(std::uint64_t step) {
  PlacementPlan positions(history_.hosts().size() / config_.stages,
                          std::vector<PeerId>(config_.stages));
  for (const auto& [peer, member] : members_.all()) {
    if (Counts(member, step)) positions[member.held.pipeline()][member.held.stage()] = peer;
  }
  plan_.Adopt(std::move(positions));
  step_ = step;
}

// Nothing: one of them has ended its part, is at another step than the others, or was told
// something else of what follows than this scheduler would do.
std::optional<HeldSteps::InProgress> HeldSteps::AllAtWork() const {
  const std::vector<PeerId>& hosts = history_.hosts();
  const PipelinesCount& counting = history_.counting();
  if (hosts.empty() || history_.held() || history_.ended() || !MayGoOn(config_)) {
    return std::nullopt;
  }
  const std::size_t pipelines = hosts.size() / config_.stages;
  // Fewer than run.toml has are only where members, or pipelines, may come and go.
  if (may_shrink_ ? pipelines > config_.pipelines : pipelines != config_.pipelines) {
    return std::nullopt;
  }
  const std::size_t whole = WholePipelines(hosts, config_.stages);
  const bool all = counting.pipelines.empty() || counting.pipelines.size() == whole;
  const auto somebody =
      std::ranges::find_if(hosts, [](const PeerId& host) { return host != PeerId{}; });
  const Member* const first = somebody == hosts.end() ? nullptr : members_.Find(*somebody);
  if (!all || first == nullptr) return std::nullopt;
  InProgress at{first->held.step(), first->held.planned()};
  // One that was to be skipped nobody has heard of: a new generation may make it well.
  const bool skips = !history_.skipped().empty() && history_.skipped().back() >= at.step;
  if (skips || at.step < std::max(history_.step(), counting.anew()) || at.step >= config_.steps ||
      at.planned < at.step || at.planned > at.step + kStepPlansAhead) {
    return std::nullopt;
  }
  const std::uint64_t config = PlanConfigHash(config_, pipelines);
  for (const PeerId& host : hosts) {
    if (host == PeerId{}) continue;  // a gap
    const Member* const member = members_.Find(host);
    if (member == nullptr || !member->may_host() || !Counts(*member, at.step)) return std::nullopt;
    const control::v1::Held& held = member->held;
    if (!held.runs() || held.step() != at.step || held.planned() != at.planned ||
        held.config_hash() != config) {
      return std::nullopt;
    }
    if (!held.has_reduce()) continue;
    if (!at.reduce) at.reduce = held.reduce();
    if (at.reduce->SerializeAsString() != held.reduce().SerializeAsString()) return std::nullopt;
  }
  const bool of_step = !at.reduce || (at.reduce->step() == at.step &&
                                      at.reduce->generation() == history_.generation());
  return of_step ? std::optional(at) : std::nullopt;
}

// Whether the generation does.
bool HeldSteps::GoesOn() {
  const std::optional<InProgress> at = AllAtWork();
  if (!at || !TakeLosses(at->step)) return false;
  SHOAL_LOG(kInfo, "scheduler", "steps.go_on", {"step", at->step}, {"planned", at->planned});
  Adopt(at->step);
  in_progress_ = at;
  return true;
}

void HeldSteps::LookRestored() {
  if (lifecycle_.state() != RunState::kPaused) {
    restored_ = false;
    phase_ = Phase::kNone;
    return;
  }
  const bool any = std::ranges::any_of(members_.all(), [&](const auto& entry) {
    return Counts(entry.second, entry.second.held.step());
  });
  // Whoever is back first may hold nothing, and be enough for a plan.
  const bool first = members_.connected() > 0 && AwaitsHosts();
  if (!any && !returning_since_ && !first) return;
  if (!returning_since_) returning_since_ = reaction_.now();
  const bool late = reaction_.now() - *returning_since_ >= kRestartGrace || !AwaitsHosts();
  if (GoesOn()) {
    restored_ = false;
    phase_ = Phase::kNone;
    return;
  }
  std::optional<std::uint64_t> step = possible_ ? StepOfReturned(true) : std::nullopt;
  if (possible_ && !step && late) step = StepOfReturned(false);
  if (!step && !late) {  // said once, not with every event
    if (std::exchange(phase_, Phase::kAwaiting) == Phase::kNone) {
      lifecycle_.SetStepsFate(StepsFate::kAwaited, "");
    }
    return;
  }
  restored_ = false;
  phase_ = Phase::kNone;
  until_ = reaction_.now();
  StepsFate fate = StepsFate::kTrainedAgain;
  std::set<PeerId> behind;
  if (step && TakeLosses(*step)) {
    SHOAL_LOG(kInfo, "scheduler", "steps.returned", {"step", *step},
              {"checkpoint", history_.checkpoint().step});
    Adopt(*step);
    behind = CatchUp();
    fate = Decide();
  }
  lifecycle_.SetStepsFate(fate, "");
  fate == StepsFate::kTrainedAgain ? Release() : Tell(behind);
}

}  // namespace shoal::scheduler
