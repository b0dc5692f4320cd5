#include "dataset/chat/characters.h"

#include <algorithm>
#include <clocale>
#include <cwctype>
#include <iterator>

namespace shoal::dataset {
namespace {

struct CharacterRange {
  std::uint32_t first, last;
};

constexpr CharacterRange kSpaces[] = {
    {0x09, 0x0d},     {0x1c, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};

// Controls, formats, private use, and spaces but U+0020.
constexpr CharacterRange kHidden[] = {
    {0x00, 0x1f},       {0x7f, 0xa0},       {0xad, 0xad},       {0x600, 0x605},
    {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},
    {0x8e2, 0x8e2},     {0x1680, 0x1680},   {0x180e, 0x180e},   {0x2000, 0x200f},
    {0x2028, 0x202f},   {0x205f, 0x206f},   {0x3000, 0x3000},   {0xe000, 0xf8ff},
    {0xfeff, 0xfeff},   {0xfff0, 0xfffb},   {0xfffe, 0xffff},   {0x110bd, 0x110bd},
    {0x110cd, 0x110cd}, {0x13430, 0x1345f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
    {0xe0000, 0xe00ff}, {0xf0000, 0x10ffff}};

template <std::size_t kCount>
bool IsIn(const CharacterRange (&ranges)[kCount], std::uint32_t character) {
  return std::any_of(std::begin(ranges), std::end(ranges), [&](const CharacterRange& range) {
    return character >= range.first && character <= range.last;
  });
}

// Letters of all languages, whatever the user's language is. Without it: of ASCII only.
locale_t UnicodeLocale() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

std::uint32_t LowerCharacter(std::uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
  const locale_t locale = UnicodeLocale();
  return locale == nullptr ? c : towlower_l(static_cast<wint_t>(c), locale);
}

std::uint32_t UpperCharacter(std::uint32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - ('a' - 'A') : c;
  const locale_t locale = UnicodeLocale();
  return locale == nullptr ? c : towupper_l(static_cast<wint_t>(c), locale);
}

// Whether it has a large or a small form.
bool IsCased(std::uint32_t c) {
  return LowerCharacter(c) != c || UpperCharacter(c) != c || c == 0xdf;
}

constexpr std::uint32_t kSharpS = 0xdf;

void AppendUpper(std::uint32_t c, std::string* text) {
  if (c == kSharpS) {
    *text += "SS";
  } else {
    AppendCharacter(UpperCharacter(c), text);
  }
}

void AppendTitle(std::uint32_t c, std::string* text) {
  if (c == kSharpS) {
    *text += "Ss";
  } else {
    AppendCharacter(UpperCharacter(c), text);
  }
}

// Calls `each` with every character.
template <typename Each>
void ForEachCharacter(std::string_view text, Each each) {
  for (std::size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
    each(CharacterAtByte(text, at, &bytes));
  }
}

template <typename Strips>
std::string_view StripIf(std::string_view text, Side side, Strips strips) {
  std::size_t bytes = 0;
  while (side != Side::kRight && !text.empty() && strips(CharacterAtByte(text, 0, &bytes))) {
    text.remove_prefix(bytes);
  }
  while (side != Side::kLeft && !text.empty()) {
    const std::size_t begin = PreviousCharacter(text, text.size());
    if (!strips(CharacterAtByte(text, begin, &bytes))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

bool EndsLine(std::uint32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[at + i]); };
    const std::uint8_t first = byte(0);
    const std::size_t size = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
    if (size == 0 || text.size() - at < size) return false;
    for (std::size_t i = 1; i < size; ++i) {
      if ((byte(i) & 0xc0) != 0x80) return false;
    }
    const std::uint8_t second = size > 1 ? byte(1) : 0;
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90)) {
      return false;
    }
    at += size;
  }
  return true;
}

std::size_t CountCharacters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::size_t ByteOfCharacter(std::string_view text, std::size_t index) {
  std::size_t at = 0, bytes = 0;
  for (; at < text.size() && index > 0; at += bytes, --index) CharacterAtByte(text, at, &bytes);
  return at;
}

std::uint32_t CharacterAtByte(std::string_view text, std::size_t at, std::size_t* bytes) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<std::uint8_t>(text[at + i]) : std::uint8_t{0};
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80) {
    *bytes = 1;
    return first;
  }
  const std::size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  std::uint32_t character = first & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) character = character << 6 | (byte(i) & 0x3fU);
  *bytes = std::min(size, text.size() - at);
  return character;
}

std::size_t PreviousCharacter(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

void AppendCharacter(std::uint32_t character, std::string* text) {
  const auto put = [&](std::uint32_t byte) { *text += static_cast<char>(byte); };
  const auto more = [&](int shift) { put(0x80 | (character >> shift & 0x3f)); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xc0 | character >> 6);
    more(0);
  } else if (character < 0x10000) {
    put(0xe0 | character >> 12);
    more(6);
    more(0);
  } else {
    put(0xf0 | character >> 18);
    more(12);
    more(6);
    more(0);
  }
}

bool IsSpaceCharacter(std::uint32_t character) { return IsIn(kSpaces, character); }

bool IsPrintable(std::uint32_t character) { return !IsIn(kHidden, character); }

std::string_view StripSpaces(std::string_view text, Side side) {
  return StripIf(text, side, IsSpaceCharacter);
}

std::string_view StripSet(std::string_view text, std::string_view set, Side side) {
  std::vector<std::uint32_t> characters;
  ForEachCharacter(set, [&](std::uint32_t c) { characters.push_back(c); });
  std::sort(characters.begin(), characters.end());
  return StripIf(text, side, [&](std::uint32_t c) {
    const auto found = std::lower_bound(characters.begin(), characters.end(), c);
    return found != characters.end() && *found == c;
  });
}

std::string LowerText(std::string_view text) {
  std::string lower;
  ForEachCharacter(text, [&](std::uint32_t c) { AppendCharacter(LowerCharacter(c), &lower); });
  return lower;
}

std::string UpperText(std::string_view text) {
  std::string upper;
  ForEachCharacter(text, [&](std::uint32_t c) { AppendUpper(c, &upper); });
  return upper;
}

std::string CapitalizeText(std::string_view text) {
  std::string result;
  ForEachCharacter(text, [&](std::uint32_t c) {
    if (result.empty()) {
      AppendTitle(c, &result);
    } else {
      AppendCharacter(LowerCharacter(c), &result);
    }
  });
  return result;
}

std::string TitleText(std::string_view text) {
  std::string result;
  bool inside = false;
  ForEachCharacter(text, [&](std::uint32_t c) {
    if (inside) {
      AppendCharacter(LowerCharacter(c), &result);
    } else {
      AppendTitle(c, &result);
    }
    inside = IsCased(c);
  });
  return result;
}

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0, bytes = 0; at < text.size();) {
    const std::uint32_t c = CharacterAtByte(text, at, &bytes);
    const std::size_t end = at;
    at += bytes;
    if (!EndsLine(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, end - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace shoal::dataset
