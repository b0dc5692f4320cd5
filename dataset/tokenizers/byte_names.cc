#include "dataset/tokenizers/byte_names.h"

#include <unordered_map>

#include "dataset/tokenizers/unicode.h"
#include "dataset/word_splitter.h"

namespace shoal::dataset {
namespace {

constexpr std::size_t kFallbackNameBytes = 6;
constexpr char kHexDigits[] = "0123456789ABCDEF";

}  // namespace

const std::array<std::string, 256>& ByteLevelAlphabet() {
  static const auto* const kAlphabet = [] {
    auto* alphabet = new std::array<std::string, 256>;
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < alphabet->size(); ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
      AppendCharacter(printable ? byte : next++, &(*alphabet)[byte]);
    }
    return alphabet;
  }();
  return *kAlphabet;
}

std::string BytesOfName(const std::string& name) {
  static const auto* const kByteOf = [] {
    auto* table = new std::unordered_map<std::string_view, char>;
    const auto& alphabet = ByteLevelAlphabet();
    for (std::size_t i = 0; i < alphabet.size(); ++i) {
      (*table)[alphabet[i]] = static_cast<char>(i);
    }
    return table;
  }();
  std::string bytes;
  for (std::string_view rest = name; !rest.empty();) {
    const std::size_t length = Utf8Length(rest);
    const auto found = kByteOf->find(rest.substr(0, length));
    if (length == 0 || found == kByteOf->end()) return name;
    bytes.push_back(found->second);
    rest.remove_prefix(length);
  }
  return bytes;
}

std::string NameOfBytes(std::string_view bytes) {
  std::string name;
  for (const char byte : bytes) name += ByteLevelAlphabet()[static_cast<std::uint8_t>(byte)];
  return name;
}

std::string FallbackName(std::uint8_t byte) {
  return std::string("<0x") + kHexDigits[byte >> 4] + kHexDigits[byte & 15] + '>';
}

std::optional<std::uint8_t> FallbackByte(std::string_view name) {
  if (name.size() != kFallbackNameBytes || !name.starts_with("<0x")) return std::nullopt;
  for (int byte = 0; byte < 256; ++byte) {
    if (name == FallbackName(static_cast<std::uint8_t>(byte))) {
      return static_cast<std::uint8_t>(byte);
    }
  }
  return std::nullopt;
}

}  // namespace shoal::dataset
