// Scripts with which shells complete command lines of `shoal`, made of its description. Pure.

#ifndef SHOAL_CLIENT_MANUAL_COMPLETION_H_
#define SHOAL_CLIENT_MANUAL_COMPLETION_H_

#include <string>
#include <vector>

#include "common/command_line/description.h"

namespace shoal::client {

inline constexpr const char* kShells[] = {"bash", "zsh", "fish"};

// Name of a positional argument's value that is a verb.
inline constexpr const char* kVerbValue = "VERB";

// `settings`: what the keys of `shoal set` are completed to, such as "upload". `shell` is one of
// kShells.
std::string CompletionScript(const std::string& shell, const CommandDescription& program,
                             const std::vector<std::string>& settings);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_MANUAL_COMPLETION_H_
