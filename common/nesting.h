// How deep a text nests, found before a parser that recurses, or whose values do, sees it.
//
// A value nested 100,000 deep parses, and then ends the process when it is copied, printed or
// destroyed. So no foreign text is parsed but through these.

#ifndef SHOAL_COMMON_NESTING_H_
#define SHOAL_COMMON_NESTING_H_

#include <cstddef>
#include <string_view>

namespace shoal {

inline constexpr std::size_t kJsonDepthMax = 64;
inline constexpr std::size_t kTomlKeyPartsMax = 16;

// Whether brackets and braces outside of strings nest deeper than `depth_max`.
bool JsonNestsDeeper(std::string_view text, std::size_t depth_max);

// Whether a dotted key or table name has more than `parts_max` parts: each is a table in a table.
bool TomlKeysNestDeeper(std::string_view text, std::size_t parts_max);

// The value of `text`, or a discarded one if it is no JSON or nests too deep. Value: a type of
// nlohmann's library.
template <typename Value>
Value ParseJson(std::string_view text, std::size_t depth_max = kJsonDepthMax) {
  if (JsonNestsDeeper(text, depth_max)) return Value(Value::value_t::discarded);
  return Value::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace shoal

#endif  // SHOAL_COMMON_NESTING_H_
