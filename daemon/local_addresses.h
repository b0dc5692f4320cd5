// The addresses under which neighbours may reach this machine.

#ifndef SHOAL_DAEMON_LOCAL_ADDRESSES_H_
#define SHOAL_DAEMON_LOCAL_ADDRESSES_H_

#include <string>
#include <vector>

namespace shoal::daemon {

// Addresses of interfaces that are up, private and public IPv4 before global IPv6; link-local ones
// are left out. Loopback comes last, so that peers on one machine still find each other.
std::vector<std::string> LocalAddresses();

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_LOCAL_ADDRESSES_H_
