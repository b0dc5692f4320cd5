// What a person is told of a text in TOML that its parser does not take.

#ifndef SHOAL_COMMON_COMMAND_LINE_TOML_TEXT_H_
#define SHOAL_COMMON_COMMAND_LINE_TOML_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace shoal {

// Behind what a parser says of line `line` (from 1): "; text needs quotes ...", where its value
// looks like one that lacks them, else "".
std::string TomlQuotesHint(std::string_view text, std::size_t line);

}  // namespace shoal

#endif  // SHOAL_COMMON_COMMAND_LINE_TOML_TEXT_H_
