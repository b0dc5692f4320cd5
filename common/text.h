// Text that others wrote, as it may reach a terminal, a log or a page.

#ifndef SHOAL_COMMON_TEXT_H_
#define SHOAL_COMMON_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace shoal {

// One line of at most `limit` bytes of well-formed UTF-8, whole characters only: it may go into a
// protobuf string. Control characters (U+0000 to U+001F, U+007F to U+009F), with them the beginning
// of escape codes, become spaces, bytes that are no UTF-8 become '?'.
std::string CleanText(std::string_view text, std::size_t limit);

}  // namespace shoal

#endif  // SHOAL_COMMON_TEXT_H_
