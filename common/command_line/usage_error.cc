#include "common/command_line/usage_error.h"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "common/command_line/spelling.h"

namespace shoal {
namespace {

std::vector<std::string> FlagsOf(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // not for people
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// Of words that no option and no argument takes.
std::string ExtraWords(const CLI::App& command, const std::vector<std::string>& rest) {
  for (const std::string& word : rest) {
    if (!word.starts_with("-") || word == "-") continue;
    const std::string flag = word.substr(0, word.find('='));
    return "there is no option '" + flag + "'" + DidYouMean(flag, FlagsOf(command));
  }
  return "'" + rest.front() + "' is one argument too many";
}

// "swarm export" for "export": the words of a command of a command that has exactly this name; ""
// if none has, or several have.
std::string PathBelow(const CLI::App& app, const std::string& name) {
  std::string found;
  for (const std::string& group : CommandsOf(app)) {
    const std::vector<std::string> names = CommandsOf(*app.get_subcommand(group));
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    if (!found.empty()) return "";
    found = group + " " + name;
  }
  return found;
}

// The last of the commands that were named; `path` grows by their names.
const CLI::App* Deepest(const CLI::App& app, std::string* path = nullptr) {
  const CLI::App* deepest = &app;
  const auto lacks_command = [](const CLI::App* at) {
    return at->get_require_subcommand_min() > 0 && !at->remaining(false).empty();
  };
  while (!deepest->get_subcommands().empty() && !lacks_command(deepest)) {
    deepest = deepest->get_subcommands().front();
    if (path != nullptr) *path += " " + deepest->get_name();
  }
  return deepest;
}

}  // namespace

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

bool NamesNoCommand(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining(true);
  return !rest.empty() && !rest.front().starts_with("-") &&
         Deepest(app)->get_require_subcommand_min() > 0;
}

std::string UsageError(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = app.get_name();
  const CLI::App* const deepest = Deepest(app, &command);
  const std::vector<std::string> rest = app.remaining(true);
  std::string what = error.what();
  if (deepest->get_require_subcommand_min() > 0) {
    if (rest.empty()) {
      what = "a command is missing";
    } else if (rest.front().starts_with("-")) {
      what = ExtraWords(*deepest, rest);
    } else {
      what = "there is no command '" + rest.front() + "'";
      const std::string below = PathBelow(*deepest, rest.front());
      what += below.empty() ? DidYouMean(rest.front(), CommandsOf(*deepest))
                            : "; did you mean '" + below + "'?";
    }
  } else if (!rest.empty()) {
    what = ExtraWords(*deepest, rest);
  }
  std::replace(what.begin(), what.end(), '\n', ' ');
  return what + (what.ends_with('?') ? " See `" : "; see `") + command + " --help`";
}

}  // namespace shoal
