// MembershipCheck: what this peer shows of its membership when a link opens, and whether what
// others show holds. Time is the scheduler's, as its newest certificate for this peer tells it: the
// wall clocks of peers do not count.

#ifndef SHOAL_NET_IDENTITY_MEMBERSHIP_CHECK_H_
#define SHOAL_NET_IDENTITY_MEMBERSHIP_CHECK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "common/status.h"
#include "net/identity/membership.h"

namespace shoal::net {

// Thread: any.
class MembershipCheck {
 public:
  // A certificate of `self` came from its scheduler just now. Not OK: it does not hold, and the one
  // before stays.
  Status Renew(std::string_view bytes, const PeerId& scheduler, const PeerId& self, TimePoint now);

  // Empty: the scheduler gave none yet.
  std::string own() const {
    MutexLock lock(mutex_);
    return own_;
  }
  // Grows with each that Renew takes.
  std::uint64_t version() const {
    MutexLock lock(mutex_);
    return version_;
  }
  // Until when `peer` is a member of `run` by what it shows; an error if it is none now.
  Result<TimePoint> Until(std::string_view bytes, const PeerId& peer, const RunId& run,
                          TimePoint now);

 private:
  mutable Mutex mutex_;
  std::string own_ SHOAL_GUARDED_BY(mutex_);
  std::uint64_t version_ SHOAL_GUARDED_BY(mutex_) = 0;
  PeerId scheduler_ SHOAL_GUARDED_BY(mutex_);
  // The scheduler's clock, seconds since 1970, and when it showed that.
  std::uint64_t clock_s_ SHOAL_GUARDED_BY(mutex_) = 0;
  TimePoint clock_at_ SHOAL_GUARDED_BY(mutex_){};
};

}  // namespace shoal::net

#endif  // SHOAL_NET_IDENTITY_MEMBERSHIP_CHECK_H_
