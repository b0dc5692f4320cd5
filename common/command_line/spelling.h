// What a mistyped word was meant to be: of commands, options, settings, codecs.

#ifndef SHOAL_COMMON_COMMAND_LINE_SPELLING_H_
#define SHOAL_COMMON_COMMAND_LINE_SPELLING_H_

#include <string>
#include <string_view>
#include <vector>

namespace shoal {

// The one of `known` that `word` was most likely meant to be; "" if none is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& known);

// "; did you mean 'status'?", or "".
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);

}  // namespace shoal

#endif  // SHOAL_COMMON_COMMAND_LINE_SPELLING_H_
