// Election: whether this scheduler leads, as a pure state machine over a lease of etcd.
//
// A scheduler that follows looks who leads. Where nobody does, it takes a lease and claims the
// leader's key with it: etcd gives that to one. The leader renews its lease, and stops by its own
// clock before etcd can give the key to another: a renewal counts from when it was asked for, and
// a part of the lease is left out for clocks that run apart. Whoever lost its lease is done; a new
// Election begins again. Pure.

#ifndef SHOAL_SCHEDULER_ELECTION_ELECTION_H_
#define SHOAL_SCHEDULER_ELECTION_ELECTION_H_

#include <chrono>
#include <cstdint>

#include "common/clock.h"

namespace shoal::scheduler {

// The least that etcd grants with its own defaults.
inline constexpr Duration kLeaseTtl = std::chrono::seconds(2);
inline constexpr Duration kLookEvery = std::chrono::milliseconds(250);
inline constexpr Duration kRetryPause = std::chrono::milliseconds(100);
inline constexpr int kRenewalsPerLease = 4;
inline constexpr int kLeaseLeftOut = 10;  // one part of so many

enum class ElectionState : std::uint8_t { kFollows, kAsksLease, kClaims, kLeads, kLost };
enum class ElectionCall : std::uint8_t { kLook, kGrant, kClaim, kRenew, kNone };
enum class ElectionInput : std::uint8_t {
  kLedByOther,  // somebody else has the leader's key
  kVacant,      // nobody has it
  kGranted,     // a lease, by OnLease
  kClaimed,     // the key is ours
  kRenewed,     // our lease, by OnLease
  kFailed,      // etcd did not answer
  kGone,        // etcd does not know our lease, or the key is not ours, any more
  kExpired,     // by our own clock
};

class Election {
 public:
  explicit Election(TimePoint now) : next_(now) {}

  ElectionState state() const { return state_; }
  // What to ask etcd next, and when.
  ElectionCall call() const;
  TimePoint next() const { return next_; }
  // Until when this scheduler may act as the leader, if it leads.
  TimePoint safe_until() const { return safe_until_; }
  bool Leads(TimePoint now) const { return state_ == ElectionState::kLeads && now < safe_until_; }

  // Anything but kGranted and kRenewed. What does not fit the state changes nothing.
  void On(ElectionInput input, TimePoint now);
  // kGranted or kRenewed: a lease of `ttl` for which etcd was asked at `sent`.
  void OnLease(ElectionInput input, TimePoint sent, Duration ttl, TimePoint now);

 private:
  void Go(ElectionInput input, TimePoint now);

  ElectionState state_ = ElectionState::kFollows;
  TimePoint next_, safe_until_{};
  Duration ttl_ = kLeaseTtl;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_ELECTION_ELECTION_H_
