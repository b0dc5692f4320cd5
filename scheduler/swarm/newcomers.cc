#include "scheduler/swarm/newcomers.h"

#include <algorithm>
#include <string>

#include "common/log.h"
#include "common/text.h"
#include "replica/methods/replica_method.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/peers/peer_message_check.h"
#include "scheduler/swarm/plan_messages.h"

namespace shoal::scheduler {
namespace {

constexpr std::uint64_t kChecksumStepsKept = 8;

bool FollowsSteps(const RunConfig& config) {
  const auto method = replica::ParseReplicaMethod(config.replica_method);
  return config.pipelines > 1 && method.ok() && method->traits.follows_steps;
}

}  // namespace

Newcomers::Newcomers(const RunConfig& config, const ArtefactMap& initial, Members* members,
                     SwarmPlan* plan, Lifecycle* lifecycle, Reaction* reaction)
    : config_(config),
      initial_(initial),
      members_(*members),
      plan_(*plan),
      lifecycle_(*lifecycle),
      reaction_(*reaction),
      possible_(FollowsSteps(config)) {}

bool Newcomers::IsFree(const Member& member) const {
  return member.candidate() && !member.placed();
}

std::vector<BoundPeer> Newcomers::Ready() const {
  std::vector<BoundPeer> ready;
  for (const auto& [peer, member] : members_.all()) {
    if (!member.candidate()) continue;
    if (member.placed() && member.follows && plan_.IsShadow(peer)) {
      ready.push_back({peer, static_cast<std::uint32_t>(member.stage),
                       static_cast<std::uint32_t>(member.pipeline), false, member.joined});
    } else if (!member.placed() && member.preparation.ready) {
      ready.push_back({peer, *member.preparation.stage, std::nullopt, false, member.joined});
    }
  }
  return ready;
}

std::vector<std::size_t> Newcomers::MembersByStage() const {
  std::vector<std::size_t> counts(config_.stages);
  for (const auto& [peer, member] : members_.all()) {
    if (!member.candidate()) continue;
    if (member.placed()) {
      ++counts[static_cast<std::size_t>(member.stage)];
    } else if (member.preparation.stage) {
      ++counts[*member.preparation.stage];
    }
  }
  return counts;
}

// The one that it had last, if that lacks a member; else the one that lacks most.
std::optional<std::uint32_t> Newcomers::StageFor(const Member& member,
                                                 const std::vector<std::size_t>& counts) const {
  std::optional<std::uint32_t> best;
  for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
    const bool fits = member.memory_bytes == 0 || stage >= config_.stage_bytes.size() ||
                      member.memory_bytes >= config_.stage_bytes[stage];
    if (!fits || counts[stage] >= config_.pipelines) continue;
    if (member.last_stage == stage) return stage;
    if (!best || counts[stage] < counts[*best]) best = stage;
  }
  return best;
}

void Newcomers::AskToPrepare() {
  std::vector<std::size_t> counts = MembersByStage();
  const auto lacks = [this](std::size_t count) { return count < config_.pipelines; };
  if (std::ranges::none_of(counts, lacks)) return;  // whatever number of spares there is
  for (const auto& [peer, known] : members_.all()) {
    if (!IsFree(known) || known.preparation.stage ||
        reaction_.now() < known.preparation.not_before) {
      continue;
    }
    const std::optional<std::uint32_t> stage = StageFor(known, counts);
    if (!stage) continue;
    ++counts[*stage];
    members_.Find(peer)->preparation.stage = stage;
    members_.Find(peer)->preparation.asked = reaction_.now();
    SHOAL_LOG(kInfo, "scheduler", "newcomer.prepares", {"peer", known.Label()}, {"stage", *stage});
    control::v1::SchedulerMessage message;
    *message.mutable_prepare() = PrepareMessage(config_, *stage, initial_);
    reaction_.Send(known, std::move(message));
  }
}

// What those who are ready, and those who follow, would change: a whole pipeline more, or copies of
// stages. The latter wait for a while for those who get ready: each change costs the others a
// moment.
Newcomers::Change Newcomers::NextChange() const {
  std::vector<BoundPeer> peers = Ready();
  bool waits = false;
  const bool follows = plan_.whole() < plan_.pipelines();
  if ((peers.empty() && !follows) || plan_.whole() >= config_.pipelines) return Change::kNone;
  for (const auto& [peer, member] : members_.all()) {
    if (!member.candidate()) continue;
    const Member::Preparation& preparation = member.preparation;
    if (member.placed() && !plan_.IsShadow(peer)) {
      peers.push_back({peer, static_cast<std::uint32_t>(member.stage),
                       static_cast<std::uint32_t>(member.pipeline), true, member.joined});
    } else if (!member.placed() && preparation.stage && !preparation.ready) {
      waits = waits || reaction_.now() - preparation.asked < kCopiesWait;
    }
  }
  const auto plan = Regroup(peers, config_.stages, config_.pipelines);
  if (!plan) return Change::kNone;
  if (plan->Whole() > plan_.whole() || plan->Counting().size() > plan_.Counting().size()) {
    return Change::kPipeline;
  }
  const auto placed = [&](const BoundPeer& peer) {
    return !peer.pipeline && std::ranges::any_of(plan->positions, [&](const auto& pipeline) {
      return std::ranges::count(pipeline, peer.peer) > 0;
    });
  };
  if (std::ranges::none_of(peers, placed)) return Change::kNone;
  return waits ? Change::kNone : Change::kCopies;
}

// Whoever has no position counts, prepared or not. Who cannot save is replaced first: no checkpoint
// would come.
bool Newcomers::EnoughForOneMore() const {
  return plan_.MayGrowTo(plan_.whole() + 1, reaction_.now()) &&
         std::ranges::all_of(plan_.Hosts(),
                             [](const Member* host) { return host->save_error.empty(); });
}

void Newcomers::Look() {
  if (plan_.pipelines_differ() && lifecycle_.state() == RunState::kTraining &&
      !lifecycle_.ending() && EnoughForOneMore()) {
    lifecycle_.EndSoon("peers for a further pipeline are here");
  }
  if (!possible_ || !lifecycle_.active() || plan_.pipelines() == 0) return;
  AskToPrepare();
  if (lifecycle_.state() != RunState::kTraining) return;
  const Change change = NextChange();
  if (change == Change::kNone) return;
  lifecycle_.EndWithStep(change == Change::kPipeline
                             ? "peers for a further pipeline are here"
                             : "a peer is here for one more copy of its stage",
                         Lifecycle::Why::kGrows);
}

void Newcomers::BeginGeneration(bool in_place) {
  caught_up_.clear();
  unjudged_.clear();
  known_.clear();
  for (const auto& [peer, known] : members_.all()) {
    Member* const member = members_.Find(peer);
    member->follows = plan_.IsShadow(peer);
    if (member->placed()) member->last_stage = static_cast<std::uint32_t>(member->stage);
    // Who gets a position uses what it has prepared; others keep it as long as the plan is in
    // place.
    if (member->placed() || !in_place) {
      member->preparation = {std::nullopt, false, member->preparation.not_before, {}};
    }
  }
}

void Newcomers::OnPrepared(Member* member, const control::v1::Prepared& prepared) {
  Member::Preparation& preparation = member->preparation;
  if (member->placed() || preparation.stage != prepared.stage()) return;
  if (prepared.error().empty()) {
    preparation.ready = true;
    return;
  }
  SHOAL_LOG(kWarning, "scheduler", "newcomer.failed", {"peer", member->Label()},
            {"stage", prepared.stage()},
            {"error", CleanText(prepared.error(), kReasonCharactersMax)});
  preparation = {};
  preparation.not_before = reaction_.now() + kPrepareAgainAfter;
}

bool Newcomers::OnCaughtUp(const Member& member, std::uint64_t steps) {
  if (!plan_.IsShadow(member.peer)) return false;
  return caught_up_.emplace(member.peer, steps).second;
}

void Newcomers::OnChecksum(const Member& member, std::uint64_t step, std::uint64_t checksum) {
  if (plan_.shadows().empty()) return;
  if (plan_.IsShadow(member.peer)) {
    const auto found = caught_up_.find(member.peer);
    if (found != caught_up_.end() && step >= found->second)
      unjudged_[member.peer] = {step, checksum};
    return;
  }
  known_.emplace(std::pair(step, static_cast<std::uint32_t>(member.stage)), checksum);
  if (step >= kChecksumStepsKept) {
    known_.erase(known_.begin(), known_.lower_bound({step - kChecksumStepsKept, 0}));
  }
}

bool Newcomers::AwaitsVerdict() const {
  return std::ranges::any_of(caught_up_,
                             [this](const auto& entry) { return plan_.IsShadow(entry.first); });
}

std::optional<Newcomers::Verdict> Newcomers::Judge() {
  for (const auto& [peer, sum] : unjudged_) {
    const Member* const shadow = members_.Find(peer);
    if (shadow == nullptr || !shadow->placed()) continue;
    const auto group = known_.find({sum.step, static_cast<std::uint32_t>(shadow->stage)});
    if (group == known_.end()) continue;
    const Verdict verdict{shadow, group->second == sum.sum};
    caught_up_.erase(shadow->peer);
    unjudged_.erase(shadow->peer);
    return verdict;
  }
  return std::nullopt;
}

}  // namespace shoal::scheduler
