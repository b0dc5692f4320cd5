#include "net/identity/membership_check.h"

#include <algorithm>
#include <chrono>

namespace shoal::net {

Status MembershipCheck::Renew(std::string_view bytes, const PeerId& scheduler, const PeerId& self,
                              TimePoint now) {
  SHOAL_ASSIGN_OR_RETURN(const Membership membership, ReadMembership(bytes, scheduler));
  if (membership.peer != self) return Unauthenticated("the membership is another peer's");
  MutexLock lock(mutex_);
  own_ = std::string(bytes);
  ++version_;
  scheduler_ = scheduler;
  clock_s_ = membership.not_before_s + kMembershipBackdateSeconds;
  clock_at_ = now;
  return Status::Ok();
}

Result<TimePoint> MembershipCheck::Until(std::string_view bytes, const PeerId& peer,
                                         const RunId& run, TimePoint now) {
  PeerId scheduler;
  std::uint64_t clock_s = 0;
  {
    MutexLock lock(mutex_);
    if (own_.empty()) return Unauthenticated("this peer is no member of a run yet");
    scheduler = scheduler_;
    const auto since = std::chrono::duration_cast<std::chrono::seconds>(now - clock_at_).count();
    clock_s = clock_s_ + static_cast<std::uint64_t>(since < 0 ? 0 : since);
  }
  // A signature is checked with nothing locked.
  SHOAL_ASSIGN_OR_RETURN(const Membership membership, ReadMembership(bytes, scheduler));
  if (membership.peer != peer) return Unauthenticated("its membership is another peer's");
  if (membership.run != run) return Unauthenticated("its membership is of another run");
  // The scheduler's clock was set: it gave this one later than we think that it is now. What
  // another peer shows moves no clock for good.
  clock_s = std::max(clock_s, membership.not_before_s + kMembershipBackdateSeconds);
  if (clock_s >= membership.not_after_s) return Unauthenticated("its membership has ended");
  // At most a day: ReadMembership bounds it.
  return now + std::chrono::seconds(membership.not_after_s - clock_s);
}

}  // namespace shoal::net
