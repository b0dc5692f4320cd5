// What comes to a relay, and from one: messages, the heads of calls, whom to dial. Whatever is
// accepted must be written and read back the same, and no peer dials its own home at such a word.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "net/base/tcp_endpoint.h"
#include "net/relay/punch_rules.h"
#include "net/relay/relay_address.h"
#include "net/relay/relay_message.h"

namespace {

using namespace shoal::net;

void Messages(std::string_view rest) {
  for (;;) {
    const auto taken = TakeRelayMessage(rest);
    if (!taken.ok() || !*taken) return;
    if ((*taken)->bytes == 0 || (*taken)->bytes > rest.size()) std::abort();
    const std::string again = EncodeRelayMessage((*taken)->message);
    const auto back = TakeRelayMessage(again);
    if (!back.ok() || !*back || (*back)->bytes != again.size()) std::abort();
    if ((*back)->message.index() != (*taken)->message.index()) std::abort();
    if (EncodeRelayMessage((*back)->message) != again) std::abort();
    rest.remove_prefix((*taken)->bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Messages(text);
  if (const auto call = ParseRelayCall(text); call.ok()) {
    const std::string head = "CONNECT " + RelayCallTarget(call->target) + " HTTP/1.0\r\n" +
                             RelayCallHeader(call->ticket) + "\r\n\r\n";
    const auto again = ParseRelayCall(head);
    if (!again.ok() || again->target != call->target || again->ticket != call->ticket) {
      std::abort();
    }
  }
  if (CheckPunchTarget(text, "198.51.100.1:8783").ok()) {
    const auto end = ParseTcpEndpoint(text);
    if (!end || IsPrivate(*end) || end->port < kPunchPortMin) std::abort();
  }
  if (const auto relay = ParseRelayAddress(text); relay.ok()) {
    const auto punch = RelayOfPunch(PunchAddress(std::string(text)));
    if (!punch.ok() || *punch != *relay) std::abort();
    const auto again = ParseRelayAddress(FormatRelayAddress(*relay));
    if (!again.ok() || *again != *relay) std::abort();
    const bool named_so = relay->host_port.find(relay->secret) != std::string::npos;
    if (!named_so && ShownAddress(text).find(relay->secret) != std::string::npos) std::abort();
  }
  return 0;
}
