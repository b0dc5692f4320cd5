#include "client/base/command_line.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "client/base/failure.h"
#include "common/command_line/description.h"
#include "common/command_line/usage_error.h"

namespace shoal::client {
namespace {

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

ExitCode RunCommandLine(CLI::App* app, int argc, char** argv,
                        const std::function<ExitCode()>* run) {
  if (PrintedDescription(*app, {argv + 1, argv + argc})) return ExitCode::kOk;
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      return Fail(ExitCode::kUsage, UsageError(*app, error));
    }
    return Delivered(static_cast<ExitCode>(app->exit(error)));  // help or version
  }
  return Delivered((*run)());
}

}  // namespace shoal::client
