#include "client/base/command_line.h"

#include <CLI/CLI.hpp>

#include "client/base/failure.h"
#include "common/command_line/delivered.h"
#include "common/command_line/description.h"
#include "common/command_line/usage_error.h"

namespace shoal::client {
ExitCode RunCommandLine(CLI::App* app, int argc, char** argv,
                        const std::function<ExitCode()>* run) {
  if (PrintedDescription(*app, {argv + 1, argv + argc})) return ExitCode::kOk;
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help is asked of a command that there is not.
    if (error.get_exit_code() != 0 || NamesNoCommand(*app)) {
      return Fail(ExitCode::kUsage, UsageError(*app, error));
    }
    return Delivered(static_cast<ExitCode>(app->exit(error)));  // help or version
  }
  return Delivered((*run)());
}

}  // namespace shoal::client
