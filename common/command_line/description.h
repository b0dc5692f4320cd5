// What a program's command line takes, as data: help, completions and man pages are made of it.
// Thread: any.

#ifndef SHOAL_COMMON_COMMAND_LINE_DESCRIPTION_H_
#define SHOAL_COMMON_COMMAND_LINE_DESCRIPTION_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace CLI {
class App;
}

namespace shoal {

// The flag, not shown in help, with which each program prints its description.
inline constexpr std::string_view kDescribeFlag = "--describe-command-line";

// Names of values that a shell completes.
inline constexpr const char* kFileValue = "FILE";
inline constexpr const char* kFolderValue = "FOLDER";
inline constexpr const char* kSettingValue = "SETTING=VALUE";  // of `shoal set`

struct OptionDescription {
  std::vector<std::string> names;  // "-n", "--lines"; of a positional argument, its one name
  std::string value;               // "RATE"; "": a flag
  std::vector<std::string> choices;
  std::string help;
  std::string preset;       // what holds if it is not given; may be ""
  std::string environment;  // variable that gives it, too; may be ""
  bool positional = false, required = false, many = false;
};

struct CommandDescription {
  std::string name;   // one word
  std::string about;  // one line
  std::string notes;  // paragraphs, examples, exit codes; may be ""
  std::vector<OptionDescription> options;
  std::vector<CommandDescription> commands;
};

// Without what is not for people.
CommandDescription Describe(const CLI::App& app);

std::string FormatDescription(const CommandDescription& description);  // JSON
Result<CommandDescription> ParseDescription(const std::string& json);

// Whether the last argument asks for a description, which is then printed: that of the command
// which the arguments before it name, of the whole program if there are none.
bool PrintedDescription(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace shoal

#endif  // SHOAL_COMMON_COMMAND_LINE_DESCRIPTION_H_
