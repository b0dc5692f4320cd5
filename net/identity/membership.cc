#include "net/identity/membership.h"

#include <algorithm>
#include <cstring>

#include "common/bytes.h"
#include "net/identity/signature.h"

namespace shoal::net {
namespace {

constexpr std::string_view kContext = "shoal membership";
constexpr char kVersion = 1;
constexpr std::size_t kSignatureBytes = 64;
constexpr std::size_t kContentBytes = kMembershipBytes - kSignatureBytes;

void Append(std::string* text, std::uint64_t value) {
  std::byte bytes[sizeof(value)];
  StoreLittle(bytes, value);
  text->append(reinterpret_cast<const char*>(bytes), sizeof(bytes));
}

std::uint64_t NumberAt(std::string_view bytes, std::size_t at) {
  return LoadLittle<std::uint64_t>(reinterpret_cast<const std::byte*>(bytes.data()) + at);
}

}  // namespace

Membership NewMembership(const RunId& run, const PeerId& peer, std::uint64_t now_s,
                         std::uint64_t serial) {
  Membership membership{run, peer, 0, 0, serial};
  membership.not_before_s =
      now_s < kMembershipBackdateSeconds ? 0 : now_s - kMembershipBackdateSeconds;
  membership.not_after_s = membership.not_before_s + kMembershipSecondsMax;
  return membership;
}

Result<std::string> SignMembership(const Membership& membership, const Identity& scheduler) {
  std::string bytes(1, kVersion);
  Append(&bytes, membership.run.value);
  bytes.append(membership.peer.key.begin(), membership.peer.key.end());
  Append(&bytes, membership.not_before_s);
  Append(&bytes, membership.not_after_s);
  Append(&bytes, membership.serial);
  SHOAL_CHECK(bytes.size() == kContentBytes);
  SHOAL_ASSIGN_OR_RETURN(const Signature signature, Sign(scheduler, std::string(kContext) + bytes));
  return bytes.append(signature.begin(), signature.end());
}

Result<Membership> ReadMembership(std::string_view bytes, const PeerId& scheduler) {
  if (bytes.empty()) return Unauthenticated("it shows no membership of the run");
  if (bytes.size() != kMembershipBytes || bytes[0] != kVersion) {
    return Unauthenticated("its membership is of another version of shoal");
  }
  const std::string text = std::string(kContext).append(bytes.substr(0, kContentBytes));
  Signature signature;
  std::copy_n(bytes.begin() + kContentBytes, signature.size(), signature.begin());
  if (!CheckSignature(scheduler, text, signature).ok()) {
    return Unauthenticated("its membership is not signed by this run's scheduler");
  }
  Membership membership;
  membership.run = RunId{NumberAt(bytes, 1)};
  std::memcpy(membership.peer.key.data(), bytes.data() + 9, membership.peer.key.size());
  membership.not_before_s = NumberAt(bytes, 41);
  membership.not_after_s = NumberAt(bytes, 49);
  membership.serial = NumberAt(bytes, 57);
  if (membership.not_after_s < membership.not_before_s ||
      membership.not_after_s - membership.not_before_s > kMembershipSecondsMax) {
    return Unauthenticated("its membership lasts longer than a day");
  }
  return membership;
}

}  // namespace shoal::net
