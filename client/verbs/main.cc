// shoal: the command line of the swarm.

#include <CLI/CLI.hpp>

#include <string>

#include "client/base/command_line.h"
#include "client/base/paths.h"
#include "client/base/programs.h"
#include "client/verbs/verb.h"
#include "common/log.h"
#include "common/version.h"

int main(int argc, char** argv) {
  using namespace shoal;
  SetLogLevel(LogLevel::kError);
  CLI::App app{"shoal: home GPUs fine-tune language models together", "shoal"};
  app.set_version_flag("--version", std::string("shoal ") + kVersion);
  app.require_subcommand(1);
  client::Given given;
  given.peer.directory = client::DefaultDirectory();
  client::AddVerbs(&app, &given);
  return static_cast<int>(client::RunCommandLine(&app, argc, argv, &given.run));
}
