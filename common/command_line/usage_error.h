// What a program says about a wrong command line.

#ifndef SHOAL_COMMON_COMMAND_LINE_USAGE_ERROR_H_
#define SHOAL_COMMON_COMMAND_LINE_USAGE_ERROR_H_

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace shoal {

// Commands of a program, or of a command, but for those that are not for people.
std::vector<std::string> CommandsOf(const CLI::App& app);

// Whether a word stands where a command has to: a parse that ends with help has not looked at it.
bool NamesNoCommand(const CLI::App& app);

// One line: what is wrong, what was probably meant, and where the help is. `app` has the program's
// name and has just failed to parse with `error`.
std::string UsageError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace shoal

#endif  // SHOAL_COMMON_COMMAND_LINE_USAGE_ERROR_H_
