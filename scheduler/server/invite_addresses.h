// Under which host:port peers may reach this scheduler.

#ifndef SHOAL_SCHEDULER_SERVER_INVITE_ADDRESSES_H_
#define SHOAL_SCHEDULER_SERVER_INVITE_ADDRESSES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace shoal::scheduler {

// Addresses for the invite: `advertise` with the port added where it is missing. If `advertise` is
// empty: the host listened on, or all of the machine's addresses where that host is any.
Result<std::vector<std::string>> InviteAddresses(const std::vector<std::string>& advertise,
                                                 const std::string& listen, std::uint16_t port);

// The same hosts with a relay on `port`, whose secret is `secret`: at most kOwnRelaysMax, without
// loopback where there is another host.
inline constexpr std::size_t kOwnRelaysMax = 3;
std::vector<std::string> OwnRelayAddresses(const std::vector<std::string>& addresses,
                                           const std::string& secret, std::uint16_t port);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_INVITE_ADDRESSES_H_
