#include "net/relay/relay_address.h"

#include <algorithm>

#include "net/base/host_port.h"
#include "net/identity/identity.h"

namespace shoal::net {
namespace {

constexpr std::string_view kPunchPrefix = "punch ";

}  // namespace

bool IsRelayAddress(std::string_view address) {
  return address.find('@') != std::string_view::npos;
}

Result<RelayAddress> ParseRelayAddress(std::string_view address) {
  const std::size_t at = address.find('@');
  RelayAddress relay;
  if (at != std::string_view::npos) {
    relay.secret = address.substr(0, at);
    relay.host_port = address.substr(at + 1);
  }
  // The text may hold a secret, so it is not repeated.
  if (!IsJoinSecret(relay.secret)) {
    return InvalidArgument(
        "the address of a relay is SECRET@host:port, as shoal-relay prints it, with a secret of 32 "
        "hex digits");
  }
  const auto printable = [](char c) { return c > ' ' && c < 0x7f && c != '@'; };
  if (!std::all_of(relay.host_port.begin(), relay.host_port.end(), printable)) {
    return InvalidArgument("the address of a relay has a character that no host has");
  }
  SHOAL_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(relay.host_port));
  if (parsed.host.find_first_of("[]") != std::string::npos) {
    return InvalidArgument("the address of a relay has a bracket within its host");
  }
  if (parsed.port == 0) return InvalidArgument("the address of a relay names port 0");
  relay.host_port = FormatHostPort(parsed);
  return relay;
}

std::string FormatRelayAddress(const RelayAddress& address) {
  return address.secret + "@" + address.host_port;
}

std::string PunchAddress(const std::string& address) { return std::string(kPunchPrefix) + address; }

bool IsPunchAddress(std::string_view address) { return address.starts_with(kPunchPrefix); }

Result<RelayAddress> RelayOfPunch(std::string_view address) {
  if (!IsPunchAddress(address)) return InvalidArgument("this is no way through routers");
  return ParseRelayAddress(address.substr(kPunchPrefix.size()));
}

std::string ShownAddress(std::string_view address) {
  const std::size_t at = address.rfind('@');
  if (at == std::string_view::npos) return std::string(address);
  return (IsPunchAddress(address) ? "punched with relay " : "relay ") +
         std::string(address.substr(at + 1));
}

std::vector<RelayAddress> RelaysAmong(const std::vector<std::string>& addresses) {
  std::vector<RelayAddress> relays;
  for (const std::string& address : addresses) {
    if (!IsRelayAddress(address)) continue;
    if (auto relay = ParseRelayAddress(address); relay.ok()) relays.push_back(*std::move(relay));
  }
  return relays;
}

}  // namespace shoal::net
