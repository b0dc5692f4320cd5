// Checks and quoting for text that others wrote, shared by the parsers of this folder.

#ifndef SHOAL_STORAGE_FILES_FOREIGN_TEXT_H_
#define SHOAL_STORAGE_FILES_FOREIGN_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::storage {

// A foreign name for a one-line message: in single quotes, control and non-ASCII bytes as '?', cut
// after 80 bytes.
std::string Quoted(std::string_view name);

// Refuses JSON text whose brackets nest deeper than `max_depth`, before a parser builds a tree of
// it. Looks at brackets outside strings only; whether the text is JSON is the parser's question.
Status CheckJsonDepth(std::string_view text, std::size_t max_depth, const std::string& name);

// Refuses JSON text in which an object has a key twice: programs disagree on which one counts. Text
// that is no JSON passes. Its depth is checked already.
Status CheckRepeatedKeys(std::string_view text, const std::string& name);

// True for a plain file name that stays in its folder: not empty, no '/', no NUL, not "." or "..".
bool IsPlainFileName(std::string_view name);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_FILES_FOREIGN_TEXT_H_
