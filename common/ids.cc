#include "common/ids.h"

#include <charconv>

#include "common/hex.h"

namespace shoal {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

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

std::string RunId::ToHex() const {
  std::string hex(16, '0');
  for (int i = 0; i < 16; ++i) hex[15 - i] = kDigits[(value >> (4 * i)) & 15];
  return hex;
}

Result<RunId> RunId::FromHex(std::string_view hex) {
  RunId id;
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), id.value, 16);
  if (hex.size() != 16 || error != std::errc() || end != hex.data() + hex.size()) {
    return InvalidArgument("a run id has 16 hexadecimal digits");
  }
  return id;
}

}  // namespace shoal
