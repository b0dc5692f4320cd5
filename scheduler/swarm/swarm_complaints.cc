// Peers that cannot do their part, or say that another cannot.

#include <algorithm>

#include "common/log.h"
#include "common/text.h"
#include "scheduler/swarm/peer_message_check.h"
#include "scheduler/swarm/swarm_state_impl.h"

namespace shoal::scheduler {

void SwarmStateImpl::OnPlanFailed(Member* member, const control::v1::PlanFailed& failed) {
  if (failed.generation() != history_.generation() || !member->placed()) return;
  const std::string error = CleanText(failed.error(), kReasonCharactersMax);
  const std::string cause = member->LabelWithPosition() + " cannot do its part: " + error;
  // Some peers may be ill, or lie; if all that are here call the plan invalid, the configuration
  // is. Only before the first step: what has trained once is not invalid.
  const bool invalid = error.starts_with(StatusCodeName(StatusCode::kInvalidArgument)) ||
                       error.starts_with(StatusCodeName(StatusCode::kUnimplemented));
  if (invalid) refusals_.insert(member->peer);
  if (history_.losses().empty() && AllRefuse()) return Fail(cause);
  if (!active()) return;
  Replace(member, cause);
}

bool SwarmStateImpl::AllRefuse() const {
  const std::vector<PlacementPeer> candidates = members_.Candidates();
  return candidates.size() >= needed() &&
         std::all_of(candidates.begin(), candidates.end(),
                     [&](const PlacementPeer& peer) { return refusals_.contains(peer.peer); });
}

bool SwarmStateImpl::ASpareCouldReplace(const Member& member) const {
  std::vector<PlacementPeer> others = members_.Candidates();
  std::erase_if(others, [&](const PlacementPeer& peer) { return peer.peer == member.peer; });
  const PlacementRun run{config_.stages, config_.pipelines, config_.stage_bytes};
  return others.size() >= needed() && Place(others, {}, run, &plan_).has_value();
}

// A spare, if there is one, tries in its position. That a peer makes room for one is no failure of
// the run, unless it had its turn since the last checkpoint.
void SwarmStateImpl::Replace(Member* member, const std::string& cause) {
  const bool first = replaced_.insert(member->peer).second;
  if (first && ASpareCouldReplace(*member)) {
    InterruptUncounted(cause);
  } else {
    Interrupt(cause, nullptr);
  }
  GiveUpPosition(member);
}

void SwarmStateImpl::GiveUpPosition(Member* member) {
  plan_[static_cast<std::size_t>(member->pipeline)][static_cast<std::size_t>(member->stage)] =
      PeerId{};
  members_.MoveToBack(member->peer);
}

// Whether the plan has a link between them: to the stage before or after, in the stage group, or
// between the ends of a tied embedding.
bool SwarmStateImpl::Neighbours(const Member& a, const Member& b) const {
  if (a.peer == b.peer) return false;
  if (a.stage == b.stage) return true;
  if (a.pipeline == b.pipeline && std::abs(a.stage - b.stage) == 1) return true;
  return std::min(a.stage, b.stage) == 0 &&
         std::max(a.stage, b.stage) + 1 == static_cast<std::int32_t>(config_.stages);
}

void SwarmStateImpl::OnLinkBroken(Member* member, const control::v1::LinkBroken& broken) {
  if (broken.generation() != history_.generation() || !member->placed()) return;
  PeerId other_id;
  std::copy(broken.peer().begin(), broken.peer().end(), other_id.key.begin());
  Member* other = members_.Find(other_id);
  if (other == nullptr || !other->placed()) return;
  if (!Neighbours(*member, *other)) {
    SHOAL_LOG(kWarning, "scheduler", "link.none", {"peer", member->LabelWithPosition()},
              {"complains_of", other->LabelWithPosition()});
    return;
  }
  const std::string cause = "the link between " + member->LabelWithPosition() + " and " +
                            other->LabelWithPosition() +
                            " broke: " + CleanText(broken.error(), kReasonCharactersMax);
  if (complaints_.Confirms(member->peer, other->peer, history_.generation())) {
    // Both say so. The first alone did not count, or was not believed.
    if (active()) return Interrupt(cause, nullptr);
    if (state_ == RunState::kPaused && !history_.held()) CountFailure(cause);
    return;
  }
  if (!active()) return;
  const std::size_t before = complaints_.CountBy(member->peer, reaction_.now());
  complaints_.Add(member->peer, other->peer, history_.generation(), reaction_.now());
  const std::string alone = cause + "; only " + member->Label() + " says so";
  if (const auto blamed = complaints_.ToBlame(member->peer, other->peer, reaction_.now())) {
    Member* const end = members_.Find(*blamed);
    if (ASpareCouldReplace(*end)) {
      complaints_.Forget(*blamed);
      InterruptUncounted(
          alone + ", and a spare takes the position of " + end->Label() +
          (end == member ? ", whose complaints nobody confirms" : ", of whom several complain"));
      return GiveUpPosition(end);
    }
  }
  if (before < kUnconfirmedMax) return InterruptUncounted(alone);
  SHOAL_LOG(kWarning, "scheduler", "link.doubted", {"cause", alone}, {"complaints", before});
  if (!doubt_) doubt_ = Doubt{alone, history_.step(), reaction_.now()};
}

// A complaint was not believed, but the step does not end either: then something is broken.
void SwarmStateImpl::DoubtedForLong() {
  if (!doubt_ || !active()) return;
  if (history_.step() > doubt_->step) return doubt_.reset();
  const auto usual = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(4 * step_times_.seconds()));
  if (reaction_.now() - doubt_->since <= std::max(kDoubtLimit, usual)) return;
  const std::string cause = doubt_->cause + ", and the step did not end";
  Interrupt(cause, nullptr);
}

}  // namespace shoal::scheduler
