#include "net/base/host_port.h"

#include <charconv>

namespace shoal::net {
namespace {

constexpr std::size_t kPortDigitsMax = 5;

}  // namespace

Result<HostPort> ParseHostPort(std::string_view text) {
  const auto wrong = [text] {
    return InvalidArgument("'" + std::string(text) +
                           "' is not host:port; write for example 127.0.0.1:9000 or [::1]:9000");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    const std::string alone(text.substr(colon == 0 ? 1 : 0));
    if (alone.empty()) return wrong();
    const bool port = alone.find_first_not_of("0123456789") == std::string::npos;
    return InvalidArgument(
        "'" + std::string(text) + "' has no " +
        (port ? "host, and must be host:port; write for example 0.0.0.0:" + alone
              : "port, and must be host:port; write for example " + alone + ":9000"));
  }
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.front() == '[') {
    if (host.back() != ']' || host.size() < 3) return wrong();
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong();  // an IPv6 address without brackets
  }
  HostPort value;
  value.host = host;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), value.port);
  // Zeros in front could make a number of any length.
  const bool long_port = port.size() > kPortDigitsMax;
  if (error != std::errc() || end != port.data() + port.size() || long_port) return wrong();
  return value;
}

std::string FormatHostPort(const HostPort& value) {
  const bool v6 = value.host.find(':') != std::string::npos;
  return (v6 ? "[" + value.host + "]" : value.host) + ":" + std::to_string(value.port);
}

}  // namespace shoal::net
