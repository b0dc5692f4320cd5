// Invites as people paste them: whatever is accepted must print, and read back the same.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "net/identity/identity.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto invite = shoal::net::ParseInvite(text); invite.ok()) {
    const auto again = shoal::net::ParseInvite(shoal::net::FormatInvite(*invite));
    if (!again.ok() || again->addresses != invite->addresses || again->secret != invite->secret ||
        again->scheduler != invite->scheduler) {
      std::abort();
    }
  }
  return 0;
}
