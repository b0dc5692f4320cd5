#include "common/ids.h"

#include <charconv>
#include <optional>

#include "common/hex.h"

namespace shoal {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

std::string Digits16(std::uint64_t value) {
  std::string hex(16, '0');
  for (int i = 0; i < 16; ++i) hex[15 - i] = kDigits[(value >> (4 * i)) & 15];
  return hex;
}

std::optional<std::uint64_t> FromDigits16(std::string_view hex) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
  if (hex.size() != 16 || error != std::errc() || end != hex.data() + hex.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::string PeerId::ToHex() const {
  std::string hex;
  hex.reserve(2 * key.size());
  for (std::uint8_t byte : key) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

Result<PeerId> PeerId::FromHex(std::string_view hex) {
  PeerId id;
  if (hex.size() != 2 * id.key.size()) {
    return InvalidArgument("a peer id has 64 hexadecimal digits, got " +
                           std::to_string(hex.size()) + " characters");
  }
  for (std::size_t i = 0; i < id.key.size(); ++i) {
    const int high = HexValue(hex[2 * i]);
    const int low = HexValue(hex[2 * i + 1]);
    if (high < 0 || low < 0) return InvalidArgument("a peer id has only hexadecimal digits");
    id.key[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return id;
}

std::string RunId::ToHex() const { return Digits16(value); }

Result<RunId> RunId::FromHex(std::string_view hex) {
  const auto value = FromDigits16(hex);
  if (!value) return InvalidArgument("a run id has 16 hexadecimal digits");
  return RunId{*value};
}

std::string InviteId::ToHex() const { return Digits16(value); }

Result<InviteId> InviteId::FromHex(std::string_view hex) {
  const auto value = FromDigits16(hex);
  if (!value) return InvalidArgument("the id of an invite has 16 hexadecimal digits");
  return InviteId{*value};
}

}  // namespace shoal
