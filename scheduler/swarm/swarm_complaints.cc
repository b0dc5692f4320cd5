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
  if (history_.losses().empty() && AllRefuse()) return lifecycle_.Fail(cause);
  if (!lifecycle_.active()) return;
  Replace(member, cause);
}

bool SwarmStateImpl::AllRefuse() const {
  const std::vector<PlacementPeer> candidates = members_.Candidates();
  return candidates.size() >= plan_.needed() &&
         std::all_of(candidates.begin(), candidates.end(),
                     [&](const PlacementPeer& peer) { return refusals_.contains(peer.peer); });
}

// A spare, if there is one, tries in its position. That a peer makes room for one is no failure of
// the run, unless it had its turn since the last checkpoint.
void SwarmStateImpl::Replace(Member* member, const std::string& cause) {
  const bool first = replaced_.insert(member->peer).second;
  if (first && plan_.SpareCouldReplace(*member)) {
    lifecycle_.InterruptUncounted(cause);
  } else {
    lifecycle_.Interrupt(cause);
  }
  plan_.GiveUpPosition(*member);
}

void SwarmStateImpl::OnLinkBroken(Member* member, const control::v1::LinkBroken& broken) {
  if (broken.generation() != history_.generation() || !member->placed()) return;
  PeerId other_id;
  std::copy(broken.peer().begin(), broken.peer().end(), other_id.key.begin());
  Member* other = members_.Find(other_id);
  if (other == nullptr || !other->placed()) return;
  if (!plan_.Linked(*member, *other)) {
    SHOAL_LOG(kWarning, "scheduler", "link.none", {"peer", member->LabelWithPosition()},
              {"complains_of", other->LabelWithPosition()});
    return;
  }
  const std::string cause = "the link between " + member->LabelWithPosition() + " and " +
                            other->LabelWithPosition() +
                            " broke: " + CleanText(broken.error(), kReasonCharactersMax);
  if (complaints_.Confirms(member->peer, other->peer, history_.generation())) {
    // Both say so. The first alone did not count, or was not believed.
    return lifecycle_.Confirm(cause);
  }
  if (!lifecycle_.active()) return;
  const std::size_t before = complaints_.CountBy(member->peer, reaction_.now());
  complaints_.Add(member->peer, other->peer, history_.generation(), reaction_.now());
  const std::string alone = cause + "; only " + member->Label() + " says so";
  if (const auto blamed = complaints_.ToBlame(member->peer, other->peer, reaction_.now())) {
    Member* const end = members_.Find(*blamed);
    if (plan_.SpareCouldReplace(*end)) {
      complaints_.Forget(*blamed);
      lifecycle_.InterruptUncounted(
          alone + ", and a spare takes the position of " + end->Label() +
          (end == member ? ", whose complaints nobody confirms" : ", of whom several complain"));
      return plan_.GiveUpPosition(*end);
    }
  }
  if (before < kUnconfirmedMax) return lifecycle_.InterruptUncounted(alone);
  SHOAL_LOG(kWarning, "scheduler", "link.doubted", {"cause", alone}, {"complaints", before});
  if (!doubt_) doubt_ = Doubt{alone, history_.step(), reaction_.now()};
}

// A complaint was not believed, but the step does not end either: then something is broken.
void SwarmStateImpl::DoubtedForLong() {
  if (!doubt_ || !lifecycle_.active()) return;
  if (history_.step() > doubt_->step) return doubt_.reset();
  const auto usual = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(4 * step_times_.seconds()));
  if (reaction_.now() - doubt_->since <= std::max(kDoubtLimit, usual)) return;
  const std::string cause = doubt_->cause + ", and the step did not end";
  lifecycle_.Interrupt(cause);
}

}  // namespace shoal::scheduler
