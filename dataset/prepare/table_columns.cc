#include "dataset/prepare/table_columns.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

namespace shoal::dataset {
namespace {

// In the order in which they count.
constexpr std::string_view kTextNames[] = {"text",     "sentence", "content", "review",
                                           "document", "body",     "message", "question"};
constexpr std::string_view kLabelNames[] = {"label", "labels", "class", "category", "target"};

constexpr std::string_view kPairNames[] = {"text_pair"};

constexpr std::size_t kShownBytes = 200;  // of a table's columns in an error

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::optional<std::size_t> Number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

std::optional<std::size_t> Position(std::span<const std::string> fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(), [name](const std::string& field) {
    return Lower(field) == Lower(name);
  });
  if (found == fields.end()) return std::nullopt;
  return static_cast<std::size_t>(found - fields.begin());
}

std::optional<std::size_t> FirstOf(std::span<const std::string> fields,
                                   std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    if (const auto position = Position(fields, name)) return position;
  }
  return std::nullopt;
}

bool IsHeader(std::span<const std::string> fields, const SampleColumns& wanted) {
  std::set<std::string> seen;
  for (const std::string& field : fields) {
    if (field.empty() || Number(field) || !seen.insert(Lower(field)).second) return false;
  }
  for (const std::string& name : {wanted.text, wanted.label, wanted.pair}) {
    if (!name.empty() && Position(fields, name)) return true;
  }
  return FirstOf(fields, kTextNames) || FirstOf(fields, kLabelNames);
}

std::string Shown(std::span<const std::string> fields) {
  std::string shown;
  for (const std::string& field : fields) {
    shown += (shown.empty() ? "" : ", ") + field;
    if (shown.size() > kShownBytes) break;
  }
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return shown.size() > kShownBytes ? shown.substr(0, kShownBytes) + "..." : shown;
}

// `option` is the option of the command that names the column.
Result<std::size_t> Find(std::span<const std::string> fields, const std::string& wanted,
                         std::span<const std::string_view> names, bool header,
                         const std::string& option) {
  const std::string columns = header ? "its columns are " + Shown(fields)
                                     : "it has " + std::to_string(fields.size()) +
                                           " columns without names, first " + Shown(fields);
  if (wanted.empty()) {
    if (header) {
      if (const auto position = FirstOf(fields, names)) return *position;
    }
    return InvalidArgument(columns + ": name one with " + option +
                           (header ? "" : ", by its number from 1"));
  }
  if (header) {
    if (const auto position = Position(fields, wanted)) return *position;
  }
  const auto number = Number(wanted);
  if (number && *number >= 1 && *number <= fields.size()) return *number - 1;
  return InvalidArgument("no column " + wanted + "; " + columns + ": change " + option);
}

}  // namespace

Result<TableColumns> FindColumns(std::span<const std::string> first, const SampleColumns& wanted) {
  TableColumns columns;
  columns.count = first.size();
  columns.header = IsHeader(first, wanted);
  SHOAL_ASSIGN_OR_RETURN(columns.label,
                         Find(first, wanted.label, kLabelNames, columns.header, "--label-column"));
  SHOAL_ASSIGN_OR_RETURN(columns.text,
                         Find(first, wanted.text, kTextNames, columns.header, "--text-column"));
  if (!wanted.pair.empty()) {
    SHOAL_ASSIGN_OR_RETURN(columns.pair.emplace(),
                           Find(first, wanted.pair, kPairNames, columns.header, "--pair-column"));
  } else if (wanted.text.empty() && columns.header) {
    columns.pair = FirstOf(first, kPairNames);
  }
  if (columns.text == columns.label || columns.pair == columns.text ||
      columns.pair == columns.label) {
    return InvalidArgument(
        "text and label are the same column, or the second text is one of them: name others with "
        "--text-column, --label-column and --pair-column");
  }
  return columns;
}

}  // namespace shoal::dataset
