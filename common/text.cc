#include "common/text.h"

namespace shoal {
namespace {

// Bytes of the character that begins here, if it is whole and well-formed UTF-8; else 0.
std::size_t CharacterBytes(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  const std::size_t size = first < 0x80                    ? 1
                           : first >= 0xc2 && first < 0xe0 ? 2
                           : first >= 0xe0 && first < 0xf0 ? 3
                           : first >= 0xf0 && first < 0xf5 ? 4
                                                           : 0;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  // Longer forms than needed, surrogates, and what is above U+10FFFF.
  const unsigned char second = size > 1 ? at(1) : 0;
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
  return wrong ? 0 : size;
}

bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

std::string CleanText(std::string_view text, std::size_t limit) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t size = CharacterBytes(text);
    const std::string_view character = text.substr(0, size == 0 ? 1 : size);
    if (clean.size() + character.size() > limit) break;
    if (size == 0) {
      clean += '?';
    } else if (IsControl(character)) {
      clean += ' ';
    } else {
      clean += character;
    }
    text.remove_prefix(character.size());
  }
  return clean;
}

}  // namespace shoal
