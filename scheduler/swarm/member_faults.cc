#include "scheduler/swarm/member_faults.h"

#include <algorithm>

#include "common/log.h"
#include "common/text.h"
#include "common/units.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/peers/peer_message_check.h"

namespace shoal::scheduler {
namespace {

std::string RefusalText(const Member& by, const Member& of, const std::string& error) {
  return by.LabelWithPosition() + " refuses what " + of.LabelWithPosition() + " sent: " + error;
}

}  // namespace

MemberFaults::MemberFaults(const RunConfig& config, Members* members, RunJournal* journal,
                           SwarmPlan* plan, Lifecycle* lifecycle, Reaction* reaction)
    : timeouts_(TimeoutsOf(config.peer_timeout)),
      members_(*members),
      journal_(*journal),
      history_(journal->history()),
      reaction_(*reaction),
      plan_(*plan),
      lifecycle_(*lifecycle),
      quarantine_(config.quarantine_after) {}

void MemberFaults::OnPlanFailed(const Member& member, const control::v1::PlanFailed& failed) {
  if (failed.generation() != history_.generation() || !member.placed()) return;
  const std::string error = CleanText(failed.error(), kReasonCharactersMax);
  std::string cause = member.LabelWithPosition() + " cannot do its part: " + error;
  // Some peers may be ill, or lie; if all that are here call the plan invalid, the configuration
  // is. Only before the first step: what has trained once is not invalid.
  const bool invalid = error.starts_with(StatusCodeName(StatusCode::kInvalidArgument)) ||
                       error.starts_with(StatusCodeName(StatusCode::kUnimplemented));
  if (invalid) refusals_.insert(member.peer);
  if (history_.losses().empty() && AllRefuse()) return lifecycle_.Fail(cause);
  if (lifecycle_.state() == RunState::kTraining) cause += AddFailure(member, cause);
  if (lifecycle_.GoesOnWithout(member.peer, cause)) {
    replaced_.insert(member.peer);
  } else if (lifecycle_.active()) {
    Replace(member, cause);
  }
}

bool MemberFaults::AllRefuse() const {
  const std::vector<PlacementPeer> candidates = members_.Candidates();
  return candidates.size() >= plan_.needed() &&
         std::all_of(candidates.begin(), candidates.end(),
                     [&](const PlacementPeer& peer) { return refusals_.contains(peer.peer); });
}

// That a peer makes room for a spare is no failure of the run, unless it had its turn since the
// last checkpoint.
void MemberFaults::Replace(const Member& member, const std::string& cause) {
  const bool first = replaced_.insert(member.peer).second;
  if (first && plan_.SpareCouldReplace(member)) {
    lifecycle_.InterruptUncounted(cause, {true, member.peer});
  } else {
    lifecycle_.Interrupt(cause, {true, member.peer});
  }
  plan_.GiveUpPosition(member);
}

void MemberFaults::Misbehaved(const Member& member, FaultKind kind, const std::string& cause) {
  Replace(member, cause + AddFault(member, kind, cause));
}

std::string MemberFaults::AddFault(const Member& member, FaultKind kind, const std::string& cause) {
  const auto lasts = quarantine_.Add(member.peer, kind, cause, reaction_.now());
  const auto ms =
      static_cast<std::uint64_t>(lasts.value_or(Duration{}) / std::chrono::milliseconds(1));
  journal_.Store(MemberFault{member.peer, kind, cause, ms});
  if (!lasts) return "";
  Mark(members_.Find(member.peer));
  TellQuarantine(member);
  SHOAL_LOG(kWarning, "scheduler", "member.quarantined", {"peer", member.LabelWithPosition()},
            {"cause", cause}, {"minutes", *lasts / std::chrono::minutes(1)});
  return "; it is in quarantine for " + FormatDuration(*lasts) +
         ", or until: shoal swarm release " + member.peer.ToShort();
}

void MemberFaults::Mark(Member* member) {
  if (member == nullptr) return;
  const auto term = quarantine_.TermOf(member->peer, reaction_.now());
  member->quarantine = term ? term->cause : "";
}

// What was compared with what stays with the organiser: a liar learns nothing for the next time.
void MemberFaults::TellQuarantine(const Member& member) {
  if (!member.connected) return;
  control::v1::SchedulerMessage message;
  control::v1::Quarantine* const told = message.mutable_quarantine();
  if (const auto term = quarantine_.TermOf(member.peer, reaction_.now())) {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(term->left);
    told->set_left_ms(static_cast<std::uint64_t>(ms.count()));
    told->set_kind(std::string(FaultKindName(term->kind)));
    told->set_faults(term->faults);
  }
  reaction_.Send(member, std::move(message));
}

void MemberFaults::EndQuarantines() {
  for (const auto& [peer, member] : members_.all()) {
    if (member.quarantine.empty()) continue;
    Mark(members_.Find(peer));
    if (!member.quarantine.empty()) continue;
    SHOAL_LOG(kInfo, "scheduler", "member.released", {"peer", member.Label()});
    TellQuarantine(member);
  }
}

void MemberFaults::Release(const PeerId& peer) {
  if (!quarantine_.Release(peer, reaction_.now())) return;
  journal_.Store(MemberPardoned{peer});
  EndQuarantines();
  replaced_.erase(peer);
}

void MemberFaults::OnLinkBroken(const Member& member, const control::v1::LinkBroken& broken) {
  if (broken.generation() != history_.generation() || !member.placed()) return;
  PeerId other_id;
  std::copy(broken.peer().begin(), broken.peer().end(), other_id.key.begin());
  const Member* const other = members_.Find(other_id);
  const std::string error = CleanText(broken.error(), kReasonCharactersMax);
  if (broken.refused() && other != nullptr && Refused(member, *other, error)) return;
  const bool gives_up = broken.ended() || broken.halted();
  if (gives_up && lifecycle_.CannotGoOn(member.peer, !broken.ended())) return;
  if (other == nullptr || !other->placed() || !other->connected) {
    // It is lost, which says more: the generation has ended, or others go on.
    if (!broken.ended() || !lifecycle_.active()) return;
    return lifecycle_.Lost(member.peer, member.LabelWithPosition() + " cannot go on: " + error);
  }
  if (!plan_.Linked(member, *other)) {
    SHOAL_LOG(kWarning, "scheduler", "link.none", {"peer", member.LabelWithPosition()},
              {"complains_of", other->LabelWithPosition()});
    if (!broken.ended() || !lifecycle_.active()) return;
    return lifecycle_.Lost(member.peer, member.LabelWithPosition() + " cannot go on: " + error);
  }
  const std::string cause = broken.refused()
                                ? RefusalText(member, *other, error)
                                : "the link between " + member.LabelWithPosition() + " and " +
                                      other->LabelWithPosition() + " broke: " + error;
  if (complaints_.Confirms(member.peer, other->peer, history_.generation())) {
    // Both say so. The first alone did not count, or was not believed.
    return lifecycle_.Confirm(cause);
  }
  if (lifecycle_.active()) Complain(member, *other, cause);
}

// What `of` sent cannot be right, or `by` lies. Several who say so are believed: also where the
// first has ended the generation, and where `of` is away.
bool MemberFaults::Refused(const Member& by, const Member& of, const std::string& error) {
  const bool there = of.placed() && plan_.At(static_cast<std::uint32_t>(of.pipeline),
                                             static_cast<std::uint32_t>(of.stage)) == &of;
  if (!there || !plan_.Linked(by, of)) return false;
  const TimePoint now = reaction_.now();
  bad_messages_.Add(by.peer, of.peer, history_.generation(), now);
  if (bad_messages_.Accusers(of.peer, now) < kAccusersMax) return false;
  bad_messages_.Forget(of.peer);
  Misbehaved(of, FaultKind::kValues, RefusalText(by, of, error) + "; several say so");
  return true;
}

// Often the other end is gone, which is not heard of yet: then others may go on with the step.
void MemberFaults::Complain(const Member& by, const Member& of, const std::string& cause) {
  const bool both = std::ranges::any_of(
      waiting_, [&](const Complaint& other) { return other.by == of.peer && other.of == by.peer; });
  if (both) return lifecycle_.Interrupt(cause);
  if (!lifecycle_.MayGoOnWithout(by.peer) && !lifecycle_.MayGoOnWithout(of.peer)) {
    return Judge(by, of, cause);
  }
  waiting_.push_back({by.peer, of.peer, cause, reaction_.now()});
}

// At a step at which nobody else fails, the second time is a fault already: the run might never get
// past it. Says so if it is in quarantine now, or nothing.
std::string MemberFaults::AddFailure(const Member& member, const std::string& cause) {
  const std::uint64_t step = history_.step();
  const auto [known, first] = failures_.try_emplace(member.peer, Failure{step, cause});
  const bool again = !first && known->second.step == step;
  known->second = {step, cause};
  const bool alone = std::ranges::none_of(failures_, [&](const auto& other) {
    return other.first != member.peer && other.second.step == step;
  });
  if (!again || !alone || plan_.whole() < 2) return "";
  return AddFault(member, FaultKind::kFailures, cause);
}

// Where nobody can do the step, the run is to blame, or the member is needed: then its failures
// hold the run.
void MemberFaults::JudgeFailures() {
  for (auto at = failures_.begin(); at != failures_.end();) {
    if (history_.step() <= at->second.step) {
      ++at;
      continue;
    }
    const auto [peer, failure] = *at;
    at = failures_.erase(at);
    const Member* const member = members_.Find(peer);
    if (member == nullptr || (member->placed() && !plan_.IsShadow(peer))) continue;
    const std::string quarantined = AddFault(*member, FaultKind::kFailures, failure.cause);
    if (!quarantined.empty() && member->placed() && lifecycle_.active()) {
      Replace(*member, failure.cause + quarantined);
    }
  }
}

void MemberFaults::Look() {
  JudgeFailures();
  while (!waiting_.empty() && reaction_.now() - waiting_.front().since >= kLinkGrace) {
    const Complaint complaint = waiting_.front();
    waiting_.erase(waiting_.begin());
    const Member* const by = members_.Find(complaint.by);
    const Member* const of = members_.Find(complaint.of);
    const auto here = [](const Member* member) {
      return member != nullptr && member->connected && member->placed();
    };
    // One of them was lost, or their pipeline is broken: what that means is decided.
    if (!here(by) || !here(of) || !plan_.Linked(*by, *of)) continue;
    if (lifecycle_.active()) Judge(*by, *of, complaint.cause);
  }
}

// A complaint that the other end does not share, so far.
void MemberFaults::Judge(const Member& by, const Member& of, const std::string& cause) {
  const TimePoint now = reaction_.now();
  const std::size_t before = complaints_.CountBy(by.peer, now);
  complaints_.Add(by.peer, of.peer, history_.generation(), now);
  const std::string alone = cause + "; only " + by.Label() + " says so";
  if (const auto blamed = complaints_.ToBlame(by.peer, of.peer, now)) {
    const bool complainer = *blamed == by.peer;
    const Member& end = complainer ? by : of;
    if (plan_.SpareCouldReplace(end)) {
      complaints_.Forget(*blamed);
      lifecycle_.InterruptUncounted(
          alone + ", and a spare takes the position of " + end.Label() +
          (complainer ? ", whose complaints nobody confirms" : ", of whom several complain"));
      return plan_.GiveUpPosition(end);
    }
  }
  if (before < kUnconfirmedMax) return lifecycle_.InterruptUncounted(alone);
  SHOAL_LOG(kWarning, "scheduler", "link.doubted", {"cause", alone}, {"complaints", before});
  if (!doubt_) doubt_ = Doubt{alone, history_.step(), now};
}

void MemberFaults::EndDoubtfulStep(double usual_step_seconds) {
  if (!doubt_ || !lifecycle_.active()) return;
  if (history_.step() > doubt_->step) return doubt_.reset();
  const auto usual =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(4 * usual_step_seconds));
  if (reaction_.now() - doubt_->since <= std::max(timeouts_.doubt, usual)) return;
  const std::string cause = doubt_->cause + ", and the step did not end";
  lifecycle_.Interrupt(cause);
}

void MemberFaults::Forgive() {
  refusals_.clear();
  replaced_.clear();
  failures_.clear();
  complaints_.Clear();
  bad_messages_.Clear();
}

}  // namespace shoal::scheduler
