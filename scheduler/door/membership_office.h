// MembershipOffice: gives members their certificates, and says whose is to be renewed. Pure but for
// the signing; thread: one at a time.

#ifndef SHOAL_SCHEDULER_DOOR_MEMBERSHIP_OFFICE_H_
#define SHOAL_SCHEDULER_DOOR_MEMBERSHIP_OFFICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "net/identity/identity.h"
#include "scheduler/swarm/swarm_state.h"

namespace shoal::scheduler {

class MembershipOffice {
 public:
  explicit MembershipOffice(std::shared_ptr<const net::Identity> scheduler)
      : scheduler_(std::move(scheduler)) {}

  // For the peer behind a connection.
  std::string Issue(ConnectionId connection, const RunId& run, const PeerId& peer,
                    std::uint64_t now_ms);
  // Those whose certificate is half used up.
  std::vector<ConnectionId> Due(std::uint64_t now_ms) const;
  void Forget(ConnectionId connection) { renew_ms_.erase(connection); }

 private:
  const std::shared_ptr<const net::Identity> scheduler_;
  std::map<ConnectionId, std::uint64_t> renew_ms_;  // when
  std::uint64_t serial_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_DOOR_MEMBERSHIP_OFFICE_H_
