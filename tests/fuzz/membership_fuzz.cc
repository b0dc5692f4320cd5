// Membership certificates as other peers show them.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "net/identity/membership.h"
#include "net/identity/membership_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // The key of the seeds' signatures: what it signed is read, and nothing else.
  static const shoal::PeerId scheduler =
      *shoal::PeerId::FromHex("ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c");
  const auto membership = shoal::net::ReadMembership(bytes, scheduler);
  if (membership.ok() &&
      membership->not_after_s - membership->not_before_s > shoal::net::kMembershipSecondsMax) {
    std::abort();
  }
  shoal::net::MembershipCheck check;
  const shoal::TimePoint now{};
  if (check.Renew(bytes, scheduler, shoal::PeerId{}, now).ok() &&
      !check.Until(bytes, shoal::PeerId{}, membership->run, now).ok()) {
    std::abort();
  }
  return 0;
}
