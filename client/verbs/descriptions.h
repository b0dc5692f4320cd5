// What the programs' command lines take, also those of other programs.

#ifndef SHOAL_CLIENT_VERBS_DESCRIPTIONS_H_
#define SHOAL_CLIENT_VERBS_DESCRIPTIONS_H_

#include <string>
#include <vector>

#include "common/command_line/description.h"
#include "common/status.h"

namespace shoal::client {

// `command`: a sibling program, perhaps with words that name a command of it.
Result<CommandDescription> DescribeProgram(const std::vector<std::string>& command);

// All verbs of `shoal`. Of those that another program carries out, only their names where that
// program is not installed.
CommandDescription DescribeVerbs(const CLI::App& app);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_VERBS_DESCRIPTIONS_H_
