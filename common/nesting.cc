#include "common/nesting.h"

namespace shoal {
namespace {

// The position behind the string that begins at `begin` with a quote; the end if it is not closed.
std::size_t SkipJsonString(std::string_view text, std::size_t begin) {
  std::size_t i = begin + 1;
  while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
  return i < text.size() ? i + 1 : text.size();
}

// The same for TOML's four kinds. What is not closed ends with its line, or with the text if it may
// have lines: the parser refuses both.
std::size_t SkipTomlString(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool lines = text.substr(begin, 3) == three;
  std::size_t i = begin + (lines ? 3 : 1);
  while (i < text.size()) {
    if (quote == '"' && text[i] == '\\') {
      i += 2;
      continue;
    }
    if (!lines && (text[i] == quote || text[i] == '\n')) return i + 1;
    if (lines && text.substr(i, 3) == three) {
      i += 3;
      // Up to two more quotes belong to the string that they end.
      for (int more = 0; more < 2 && i < text.size() && text[i] == quote; ++more) ++i;
      return i;
    }
    ++i;
  }
  return text.size();
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
      i = SkipJsonString(text, i);
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
      i = SkipTomlString(text, i);
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
