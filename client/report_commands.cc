// `shoal swarm audit` and `shoal swarm events`: shoal-scheduler reads the run's folder, this shows
// what it found. The scheduler of the run may run or not.

#include <iostream>

#include "client/base/process.h"
#include "client/base/programs.h"
#include "client/commands.h"
#include "client/status_view.h"

namespace shoal::client {
namespace {

constexpr std::size_t kReportBytesMax = 256u << 20;

// The scheduler's own message is on standard error where it has no report.
ExitCode Report(const Target& target, const std::vector<std::string>& arguments,
                Result<std::string> (*view)(const std::string& json)) {
  const Result<std::string> program = FindProgram("shoal-scheduler");
  if (!program.ok()) return Fail(program.status());
  std::vector<std::string> command = {*program, "--dir", target.directory};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const Result<Captured> ran = RunAndCapture(command, kReportBytesMax);
  if (!ran.ok()) return Fail(ran.status());
  if (!ran->output.empty()) {
    const Result<std::string> text = target.json ? ran->output : view(ran->output);
    if (!text.ok()) return Fail(text.status());
    std::cout << *text;
  }
  return static_cast<ExitCode>(ran->exit_code);
}

}  // namespace

ExitCode SwarmAudit(const Target& target, std::optional<std::uint64_t> sample) {
  std::vector<std::string> arguments = {"--print-audit"};
  if (sample) arguments.insert(arguments.end(), {"--sample", std::to_string(*sample)});
  return Report(target, arguments, AuditView);
}

ExitCode SwarmEvents(const Target& target, std::uint64_t last) {
  return Report(target, {"--print-events", "--last", std::to_string(last)}, EventsView);
}

}  // namespace shoal::client
