// Invites: layout in docs/WIRE.md, "Invite".

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/bytes.h"
#include "net/identity/identity.h"

namespace shoal::net {
namespace {

constexpr std::string_view kPrefix = "shoal1_";
constexpr std::size_t kAddressBytesMax = 300;  // a host name of 253, brackets and a port
constexpr std::size_t kSecretBytes = 16;
constexpr std::size_t kChecksumBytes = 4;
constexpr std::size_t kTextMax = 8192;
constexpr std::size_t kPastedMax = 64 * 1024;  // the same with blanks

std::array<unsigned char, kChecksumBytes> InviteChecksum(std::string_view content) {
  const std::string text = std::string(kPrefix) + std::string(content);
  std::array<unsigned char, crypto_generichash_BYTES> hash;
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), nullptr, 0);
  std::array<unsigned char, kChecksumBytes> head;
  std::copy_n(hash.begin(), kChecksumBytes, head.begin());
  return head;
}

bool IsAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || text.size() > kAddressBytesMax) return false;
  const std::string_view port = text.substr(colon + 1);
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (port.empty() || port.size() > 5 || !std::all_of(port.begin(), port.end(), digit)) {
    return false;
  }
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

Status TypingError() {
  return InvalidArgument(
      "the invite has a typing error or is cut off; copy the whole line shoal1_... again");
}

// Takes bytes off the front of a view; empty result and failed() after the end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::string_view Take(std::size_t size) {
    if (size > rest_.size()) {
      failed_ = true;
      return {};
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  bool failed() const { return failed_; }
  bool done() const { return rest_.empty() && !failed_; }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

Result<Invite> ParseContent(std::string_view content) {
  const Status foreign = InvalidArgument(
      "the invite was made by another version of shoal; use the version that the organiser uses");
  Reader reader(content);
  Invite invite;
  const std::string_view key = reader.Take(invite.scheduler.key.size());
  const std::string_view secret = reader.Take(kSecretBytes);
  const std::string_view count = reader.Take(1);
  if (reader.failed()) return foreign;
  std::memcpy(invite.scheduler.key.data(), key.data(), key.size());
  char hex[2 * kSecretBytes + 1];
  sodium_bin2hex(hex, sizeof(hex), reinterpret_cast<const unsigned char*>(secret.data()),
                 secret.size());
  invite.secret = hex;
  const std::size_t addresses = static_cast<unsigned char>(count[0]);
  if (addresses == 0 || addresses > kInviteAddressesMax) return foreign;
  for (std::size_t i = 0; i < addresses; ++i) {
    const std::string_view size = reader.Take(2);
    if (reader.failed()) return foreign;
    const auto bytes = LoadLittle<std::uint16_t>(reinterpret_cast<const std::byte*>(size.data()));
    const std::string_view address = reader.Take(bytes);
    if (reader.failed() || !IsAddress(address)) return foreign;
    invite.addresses.emplace_back(address);
  }
  if (!reader.done()) return foreign;
  return invite;
}

}  // namespace

std::string FormatInvite(const Invite& invite) {
  SHOAL_CHECK(sodium_init() >= 0);
  SHOAL_CHECK(!invite.addresses.empty() && invite.addresses.size() <= kInviteAddressesMax);
  std::string content(invite.scheduler.key.begin(), invite.scheduler.key.end());
  std::array<unsigned char, kSecretBytes> secret;
  std::size_t secret_size = 0;
  SHOAL_CHECK(sodium_hex2bin(secret.data(), secret.size(), invite.secret.data(),
                             invite.secret.size(), nullptr, &secret_size, nullptr) == 0);
  SHOAL_CHECK(secret_size == kSecretBytes);
  content.append(secret.begin(), secret.end());
  content.push_back(static_cast<char>(invite.addresses.size()));
  for (const std::string& address : invite.addresses) {
    SHOAL_CHECK(IsAddress(address));
    std::array<std::byte, 2> size;
    StoreLittle(size.data(), static_cast<std::uint16_t>(address.size()));
    content.append(reinterpret_cast<const char*>(size.data()), size.size());
    content.append(address);
  }
  const auto checksum = InviteChecksum(content);
  content.append(checksum.begin(), checksum.end());

  constexpr int kVariant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
  std::string text(sodium_base64_encoded_len(content.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(),
                    reinterpret_cast<const unsigned char*>(content.data()), content.size(),
                    kVariant);
  text.pop_back();  // the terminating zero
  return std::string(kPrefix) + text;
}

Result<Invite> ParseInvite(std::string_view text) {
  SHOAL_CHECK(sodium_init() >= 0);
  // A terminal, a mail or a chat may break the line.
  std::string joined(text.substr(0, std::min(text.size(), kPastedMax)));
  std::erase_if(joined, [](char c) {
    return std::string_view(" \t\r\n\v\f").find(c) != std::string_view::npos;
  });
  if (joined.empty()) return InvalidArgument("the invite is empty");
  text = joined;
  if (!text.starts_with(kPrefix)) {
    const bool other_version = text.starts_with("shoal") && text.size() > 5 && text[5] >= '0' &&
                               text[5] <= '9' && text.find('_') != std::string_view::npos;
    return InvalidArgument(other_version ? "the invite was made by another version of shoal; use "
                                           "the version that the organiser uses"
                                         : "this is not an invite: an invite starts with shoal1_");
  }
  if (text.size() > kTextMax) return InvalidArgument("the invite is too long");
  text.remove_prefix(kPrefix.size());
  std::string content(text.size(), '\0');
  std::size_t size = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(content.data()), content.size(),
                        text.data(), text.size(), nullptr, &size, nullptr,
                        sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0 ||
      size <= kChecksumBytes) {
    return TypingError();
  }
  content.resize(size);
  const std::string_view body = std::string_view(content).substr(0, size - kChecksumBytes);
  const auto checksum = InviteChecksum(body);
  if (std::memcmp(content.data() + body.size(), checksum.data(), kChecksumBytes) != 0) {
    return TypingError();
  }
  return ParseContent(body);
}

}  // namespace shoal::net
