// Man pages (troff, macros of man(7)), made of a program's description. Pure.

#ifndef SHOAL_CLIENT_MANUAL_MAN_PAGE_H_
#define SHOAL_CLIENT_MANUAL_MAN_PAGE_H_

#include <string>
#include <vector>

#include "common/command_line/description.h"

namespace shoal::client {

// `path`: the words with which the command is called, the program first: {"shoal", "swarm",
// "init"}.
std::string ManPage(const CommandDescription& command, const std::vector<std::string>& path,
                    const std::string& version);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_MANUAL_MAN_PAGE_H_
