#include "client/command_line.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>

#include "client/base/failure.h"
#include "client/usage.h"

namespace shoal::client {
namespace {

std::vector<std::string> FlagsOf(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// One line: what is wrong with the command line, what was probably meant, and where its help is.
ExitCode WrongUsage(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = app.get_name();
  const CLI::App* deepest = &app;
  while (!deepest->get_subcommands().empty()) {
    deepest = deepest->get_subcommands().front();
    command += " " + deepest->get_name();
  }
  const std::vector<std::string> rest = app.remaining(true);
  const bool wants_command = deepest->get_require_subcommand_min() > 0;
  std::string what = error.what();
  if (wants_command) {
    what = rest.empty() ? "a command is missing"
                        : "there is no command '" + rest.front() + "'" +
                              DidYouMean(rest.front(), CommandsOf(*deepest));
  } else if (!rest.empty() && rest.front().rfind("--", 0) == 0) {
    what += DidYouMean(rest.front().substr(0, rest.front().find('=')), FlagsOf(*deepest));
  }
  std::replace(what.begin(), what.end(), '\n', ' ');
  return Fail(ExitCode::kUsage, what + "; see `" + command + " --help`");
}

// A result that did not arrive, on a full disk for example, is a failure.
ExitCode Delivered(ExitCode code) {
  errno = 0;
  std::cout.flush();
  if (std::cout.good() || code != ExitCode::kOk) return code;
  const int cause = errno;
  return Fail(ExitCode::kFailure, std::string("standard output cannot be written") +
                                      (cause == 0 ? "" : std::string(": ") + std::strerror(cause)) +
                                      "; the command itself took effect");
}

}  // namespace

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

ExitCode RunCommandLine(CLI::App* app, int argc, char** argv,
                        const std::function<ExitCode()>* run) {
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return WrongUsage(*app, error);
    return Delivered(static_cast<ExitCode>(app->exit(error)));  // help or version
  }
  return Delivered((*run)());
}

}  // namespace shoal::client
