#include "storage/files/foreign_text.h"

#include "common/nesting.h"

namespace shoal::storage {

std::string Quoted(std::string_view name) {
  constexpr std::size_t kLongest = 80;
  std::string quoted = "'";
  for (const char c : name.substr(0, kLongest)) {
    quoted.push_back(c >= 0x20 && c < 0x7f ? c : '?');
  }
  if (name.size() > kLongest) quoted += "...";
  quoted.push_back('\'');
  return quoted;
}

Status CheckJsonDepth(std::string_view text, std::size_t max_depth, const std::string& name) {
  if (JsonNestsDeeper(text, max_depth)) {
    return InvalidArgument(name + " nests deeper than " + std::to_string(max_depth) +
                           " levels; no such file is written by a known program");
  }
  return Status::Ok();
}

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

}  // namespace shoal::storage
