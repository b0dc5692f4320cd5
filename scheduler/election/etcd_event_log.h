// The event log in etcd. Only the leader appends: each event is put in a transaction on condition
// that the leader's key is still the one that this term claimed, so whoever lost it cannot write.

#ifndef SHOAL_SCHEDULER_ELECTION_ETCD_EVENT_LOG_H_
#define SHOAL_SCHEDULER_ELECTION_ETCD_EVENT_LOG_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/status.h"
#include "net/etcd/etcd.h"
#include "storage/checkpoints/event_log.h"

namespace shoal::scheduler {

// The right to append.
struct LeaderTerm {
  std::int64_t revision = 0;    // at which the leader's key was made
  std::function<bool()> holds;  // by our own clock. Thread: any
};

// Finds the end of the log. Append fails with aborted once the term is over; it tries while the
// term holds, and whether a failed one is in the log only etcd knows. Thread: one at a time.
Result<std::unique_ptr<storage::EventLog>> OpenEtcdEventLog(std::shared_ptr<net::Etcd> etcd,
                                                            const std::string& prefix,
                                                            LeaderTerm term);

inline constexpr Duration kEtcdReadTimeout = std::chrono::seconds(5);

// Events from `first` on as they are now; stops at and returns the first error of `visit`. Each
// page of them may take `timeout`.
Status ReadEtcdEventLog(
    net::Etcd* etcd, const std::string& prefix, std::uint64_t first, Duration timeout,
    const std::function<Status(std::uint64_t number, std::string_view event)>& visit);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_ELECTION_ETCD_EVENT_LOG_H_
