// What the CLI says about a wrong command line, and its `help` command.

#ifndef SHOAL_CLIENT_USAGE_H_
#define SHOAL_CLIENT_USAGE_H_

#include <string>
#include <string_view>
#include <vector>

namespace shoal::client {

// The one of `known` that `word` was most likely meant to be; "" if none is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& known);

// "; did you mean 'status'?", or "".
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_USAGE_H_
