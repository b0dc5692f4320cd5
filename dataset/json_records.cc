#include "dataset/json_records.h"

#include <algorithm>

namespace shoal::dataset {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// The end of the object that begins at `begin`, where its braces and brackets are even; npos if
// they never are.
std::size_t EndOfObject(std::string_view text, std::size_t begin) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

}  // namespace

Result<bool> JsonRecords::Next(std::string_view* record) {
  if (array_) return NextElement(record);
  return NextLine(record);
}

bool JsonRecords::NextLine(std::string_view* record) {
  while (position_ < bytes_.size()) {
    line_ = next_line_;
    const std::size_t end = std::min(bytes_.find('\n', position_), bytes_.size());
    *record = bytes_.substr(position_, end - position_);
    MoveTo(std::min(end + 1, bytes_.size()));
    if (record->find_first_not_of(" \t\r") != std::string_view::npos) return true;
  }
  return false;
}

void JsonRecords::MoveTo(std::size_t to) {
  const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(position_);
  const auto end = bytes_.begin() + static_cast<std::ptrdiff_t>(to);
  next_line_ += static_cast<std::uint64_t>(std::count(begin, end, '\n'));
  position_ = to;
}

char JsonRecords::Peek() {
  MoveTo(std::min(bytes_.find_first_not_of(kSpace, position_), bytes_.size()));
  line_ = next_line_;
  return position_ < bytes_.size() ? bytes_[position_] : '\0';
}

Result<bool> JsonRecords::NextElement(std::string_view* record) {
  const auto take = [this](char expected) {
    if (Peek() != expected) return false;
    MoveTo(position_ + 1);
    return true;
  };
  if (!opened_) {
    if (!take('[')) return InvalidArgument("not a JSON array");
    opened_ = true;
  }
  if (closed_ || take(']')) {
    closed_ = true;
    if (Peek() != '\0' || position_ < bytes_.size()) {
      return InvalidArgument("something is behind the end of the JSON array");
    }
    return false;
  }
  if (!first_ && !take(',')) return InvalidArgument("not well-formed JSON: no comma or end here");
  first_ = false;
  if (Peek() != '{') return InvalidArgument("not a JSON object like {\"text\": \"...\"}");
  const std::size_t end = EndOfObject(bytes_, position_);
  if (end == std::string_view::npos) return InvalidArgument("the JSON object here has no end");
  *record = bytes_.substr(position_, end - position_);
  MoveTo(end);
  return true;
}

}  // namespace shoal::dataset
