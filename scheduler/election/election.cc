#include "scheduler/election/election.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace shoal::scheduler {
namespace {

using State = ElectionState;
using Input = ElectionInput;

struct Transition {
  State from;
  Input input;
  State to;
};

// What is not here changes nothing.
constexpr Transition kTransitions[] = {
    {State::kFollows, Input::kLedByOther, State::kFollows},
    {State::kFollows, Input::kFailed, State::kFollows},
    {State::kFollows, Input::kVacant, State::kAsksLease},
    {State::kAsksLease, Input::kGranted, State::kClaims},
    {State::kAsksLease, Input::kFailed, State::kFollows},
    {State::kClaims, Input::kClaimed, State::kLeads},
    {State::kClaims, Input::kLedByOther, State::kFollows},
    // The claim may have come through: its lease ends by itself, and meanwhile nobody leads.
    {State::kClaims, Input::kFailed, State::kFollows},
    {State::kClaims, Input::kGone, State::kFollows},
    {State::kClaims, Input::kExpired, State::kFollows},
    {State::kLeads, Input::kRenewed, State::kLeads},
    {State::kLeads, Input::kFailed, State::kLeads},
    {State::kLeads, Input::kGone, State::kLost},
    {State::kLeads, Input::kExpired, State::kLost},
};

}  // namespace

ElectionCall Election::call() const {
  switch (state_) {
    case State::kFollows: return ElectionCall::kLook;
    case State::kAsksLease: return ElectionCall::kGrant;
    case State::kClaims: return ElectionCall::kClaim;
    case State::kLeads: return ElectionCall::kRenew;
    case State::kLost: break;
  }
  return ElectionCall::kNone;
}

void Election::Go(Input input, TimePoint now) {
  const auto* const found = std::ranges::find_if(kTransitions, [&](const Transition& one) {
    return one.from == state_ && one.input == input;
  });
  if (found == std::end(kTransitions)) return;
  const State before = std::exchange(state_, found->to);
  next_ = now;
  if (input == Input::kFailed) next_ = now + kRetryPause;
  if (before == State::kFollows && state_ == State::kFollows) next_ = now + kLookEvery;
  if (state_ == State::kFollows && before != State::kFollows) next_ = now + kLookEvery;
}

void Election::On(Input input, TimePoint now) {
  // Whatever etcd said, an answer that comes too late is of no use.
  const bool holds = state_ == State::kClaims || state_ == State::kLeads;
  if (holds && now >= safe_until_) input = Input::kExpired;
  Go(input, now);
  if (input == Input::kClaimed && state_ == State::kLeads) next_ = now + ttl_ / kRenewalsPerLease;
}

void Election::OnLease(Input input, TimePoint sent, Duration ttl, TimePoint now) {
  if (input == Input::kRenewed && now >= safe_until_) return On(Input::kExpired, now);
  ttl_ = ttl;
  safe_until_ = sent + ttl - ttl / kLeaseLeftOut;
  Go(input, now);
  if (state_ == State::kLeads) next_ = std::max(now, sent + ttl / kRenewalsPerLease);
}

}  // namespace shoal::scheduler
