// The addresses under which others may reach this machine.

#ifndef SHOAL_NET_BASE_LOCAL_ADDRESSES_H_
#define SHOAL_NET_BASE_LOCAL_ADDRESSES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace shoal::net {

// Addresses of interfaces that are up: IPv4 before global IPv6; link-local ones are left out.
// Loopback comes last, so that peers on one machine still find each other.
std::vector<std::string> LocalAddresses();
// The same; nullopt: the system does not tell.
std::optional<std::vector<std::string>> FindLocalAddresses();

// Shuts down this process's TCP connections whose own end has one of these addresses, so that
// whoever reads them sees their end at once: of an address that the machine has lost, nothing
// arrives any more, and the kernel would wait for minutes. Returns how many. Thread: any.
std::size_t EndConnectionsFrom(const std::vector<std::string>& addresses);

}  // namespace shoal::net

#endif  // SHOAL_NET_BASE_LOCAL_ADDRESSES_H_
