// "host:port" texts: 127.0.0.1:8790, [::1]:8790, name:0.

#ifndef SHOAL_NET_BASE_HOST_PORT_H_
#define SHOAL_NET_BASE_HOST_PORT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::net {

struct HostPort {
  std::string host;  // without brackets
  std::uint16_t port = 0;
};

// The message says what to write.
Result<HostPort> ParseHostPort(std::string_view text);
// IPv6 hosts get brackets.
std::string FormatHostPort(const HostPort& value);

}  // namespace shoal::net

#endif  // SHOAL_NET_BASE_HOST_PORT_H_
