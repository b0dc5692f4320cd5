#include "common/nesting.h"

namespace shoal {
namespace {

// The position behind the string that begins at `begin` with a quote; the end if it is not closed.
std::size_t SkipString(std::string_view text, std::size_t begin, bool escapes) {
  const char quote = text[begin];
  std::size_t i = begin + 1;
  while (i < text.size() && text[i] != quote) i += escapes && text[i] == '\\' ? 2 : 1;
  return i < text.size() ? i + 1 : text.size();
}

bool IsKeyCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == ' ' || c == '\t';
}

}  // namespace

bool JsonNestsDeeper(std::string_view text, std::size_t depth_max) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      i = SkipString(text, i, true);
      continue;
    }
    if ((c == '[' || c == '{') && ++depth > depth_max) return true;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    ++i;
  }
  return false;
}

bool TomlKeysNestDeeper(std::string_view text, std::size_t parts_max) {
  std::size_t parts = 1;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = SkipString(text, i, c == '"');
      continue;
    }
    if (c == '#') {
      i = text.find('\n', i);
      if (i == std::string_view::npos) return false;
      continue;
    }
    if (c == '.') {
      if (++parts > parts_max) return true;
    } else if (!IsKeyCharacter(c)) {
      parts = 1;
    }
    ++i;
  }
  return false;
}

}  // namespace shoal
