// Door: whom the scheduler's port lets in. It has the invite book of the run under a lock: TLS
// handshakes ask on gRPC's threads, and all that changes comes from the control thread.
// Thread: any.

#ifndef SHOAL_SCHEDULER_DOOR_DOOR_H_
#define SHOAL_SCHEDULER_DOOR_DOOR_H_

#include <chrono>
#include <cstdint>
#include <string_view>

#include "common/clock.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "common/status.h"
#include "net/identity/join_ticket.h"
#include "scheduler/history/attendance.h"
#include "scheduler/history/invite_book.h"
#include "scheduler/history/stored_event.h"

namespace shoal::scheduler {

class Door {
 public:
  // `own_key`: the other schedulers of the run have the same key, and come in.
  Door(const PeerId& scheduler, bool own_key) : scheduler_(scheduler), own_key_(own_key) {}

  // In the handshake: the certificate is valid, and of `key`. The answer takes as long whatever is
  // wrong, and says to nobody what it was, but to the log.
  Status Check(const PeerId& key, std::string_view certificate_pem, std::uint64_t now_ms);
  // At the hello, as what the handshake saw may be over.
  Status MayEnter(const PeerId& key, const InviteId& invite, std::uint64_t now_ms);

  template <typename Look>
  auto Read(Look look) const {
    MutexLock lock(mutex_);
    return look(static_cast<const InviteBook&>(book_));
  }
  void SetStanding(const net::InviteKey& key, bool on) {
    MutexLock lock(mutex_);
    book_.SetStanding(key, on);
  }
  void Apply(const TimedEvent& timed) {
    MutexLock lock(mutex_);
    book_.Apply(timed.event, timed.at_ms.value_or(0));
  }

 private:
  Status Refuse(const PeerId& key, const InviteId& invite, Admittance why) SHOAL_REQUIRES(mutex_);

  const PeerId scheduler_;
  const bool own_key_;
  mutable Mutex mutex_;
  InviteBook book_ SHOAL_GUARDED_BY(mutex_);
  // Strangers do not fill the log.
  EventBudget lines_ SHOAL_GUARDED_BY(mutex_){32, std::chrono::seconds(2)};
  std::uint64_t unlogged_ SHOAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_DOOR_DOOR_H_
