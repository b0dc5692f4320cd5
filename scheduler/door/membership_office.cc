#include "scheduler/door/membership_office.h"

#include <algorithm>

#include "common/log.h"
#include "net/identity/membership.h"

namespace shoal::scheduler {

std::string MembershipOffice::Issue(ConnectionId connection, const RunId& run, const PeerId& peer,
                                    std::uint64_t now_ms) {
  // Above those of a scheduler before this one, which began earlier.
  serial_ = std::max(serial_ + 1, now_ms);
  const net::Membership membership = net::NewMembership(run, peer, now_ms / 1000, serial_);
  const Result<std::string> bytes = net::SignMembership(membership, *scheduler_);
  if (!bytes.ok()) {
    SHOAL_LOG(kError, "scheduler", "membership.failed", {"error", bytes.status().ToString()});
    return "";
  }
  renew_ms_[connection] = 1000 * (membership.not_after_s -
                                  std::min(membership.not_after_s, net::kMembershipRenewSeconds));
  return *bytes;
}

std::vector<ConnectionId> MembershipOffice::Due(std::uint64_t now_ms) const {
  std::vector<ConnectionId> due;
  for (const auto& [connection, at_ms] : renew_ms_) {
    // Later than it was set to: the clock went back.
    const bool went_back = at_ms - now_ms > 1000 * net::kMembershipRenewSeconds;
    if (now_ms >= at_ms || went_back) due.push_back(connection);
  }
  return due;
}

}  // namespace shoal::scheduler
