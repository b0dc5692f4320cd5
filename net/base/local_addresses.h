// The addresses under which others may reach this machine.

#ifndef SHOAL_NET_BASE_LOCAL_ADDRESSES_H_
#define SHOAL_NET_BASE_LOCAL_ADDRESSES_H_

#include <string>
#include <vector>

namespace shoal::net {

// Addresses of interfaces that are up: IPv4 before global IPv6; link-local ones are left out.
// Loopback comes last, so that peers on one machine still find each other.
std::vector<std::string> LocalAddresses();

}  // namespace shoal::net

#endif  // SHOAL_NET_BASE_LOCAL_ADDRESSES_H_
