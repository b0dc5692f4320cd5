#include "common/command_line/toml_text.h"

#include <algorithm>
#include <cctype>

namespace shoal {

std::string TomlQuotesHint(std::string_view text, std::size_t line) {
  for (std::size_t at = 1; at < line; ++at) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return "";
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find_first_of("\r\n#"));
  const std::size_t equals = text.find('=');
  if (equals == text.npos) return "";
  text.remove_prefix(equals + 1);
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos || std::string_view("\"'[{").find(text[begin]) != text.npos) return "";
  const bool words = std::ranges::any_of(text, [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '/' || c == ':';
  });
  return words ? "; text, and a number with a unit, needs quotes: \"20GiB\"" : "";
}

}  // namespace shoal
