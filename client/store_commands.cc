// `shoal store`: shoald does the work, this shows it.

#include <iostream>

#include "client/base/process.h"
#include "client/base/programs.h"
#include "client/commands.h"
#include "client/status_view.h"

namespace shoal::client {
namespace {

constexpr std::size_t kOutputBytesMax = 16u << 20;

}  // namespace

ExitCode StoreCommand(const Target& target, const std::string& name,
                      const std::vector<std::string>& arguments) {
  const Result<std::string> program = FindProgram("shoald");
  if (!program.ok()) return Fail(program.status());
  std::vector<std::string> command = {*program, "store", name, "--dir", target.directory};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const Result<Captured> ran = RunAndCapture(command, kOutputBytesMax);
  if (!ran.ok()) return Fail(ran.status());
  if (!ran->output.empty()) {
    const Result<std::string> view = target.json ? ran->output : StoreView(name, ran->output);
    if (!view.ok()) return Fail(view.status());
    std::cout << *view;
  }
  return static_cast<ExitCode>(ran->exit_code);
}

}  // namespace shoal::client
