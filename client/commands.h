// The CLI's commands: each reads its options, does its work and returns the exit code. Results go
// to standard output, progress and errors to standard error.

#ifndef SHOAL_CLIENT_COMMANDS_H_
#define SHOAL_CLIENT_COMMANDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/base/failure.h"
#include "common/exit_code.h"

namespace shoal::client {

// Which daemon a command talks to, and how it prints.
struct Target {
  std::string directory;  // of shoald or shoal-scheduler
  bool json = false;
};

// ---- this machine's peer ----
// `daemon_options`: --flag and value in turn.
ExitCode Join(const Target& target, const std::string& invite, bool start_daemon,
              const std::vector<std::string>& daemon_options);
// Whether shoald answers.
bool PeerRuns(const Target& target);
ExitCode PeerStatus(const Target& target);
ExitCode Top(const Target& target, double interval_s, int rounds);
ExitCode PeerCommand(const Target& target, const std::string& name,
                     const std::map<std::string, std::string>& arguments);
// Prints what `set` changes, and its values.
ExitCode Settings(const Target& target);
ExitCode Stats(const Target& target);
// Prints the link to the page of this machine's peer, with the token that lets it change settings.
ExitCode PageLink(const Target& target);
ExitCode Netcheck(const Target& target);
ExitCode Logs(const Target& target, int lines, bool follow);
ExitCode Health(const Target& target);
ExitCode Doctor(const Target& target);
ExitCode Version(bool json);
// stats, verify, compact or drop, on the delta store of a peer that does not run.
ExitCode StoreCommand(const Target& target, const std::string& name,
                      const std::vector<std::string>& arguments);

// ---- the run, on the scheduler's machine ----
struct SwarmInitOptions {
  std::string model, data, directory, forward, backward, replica, name;
  std::string link = "100mbit", step = "30s", memory;  // of peers, for the suggested method
  std::string adapter, base;                           // empty: the defaults of run.toml
  std::uint32_t stages = 2, pipelines = 1, micro_batches = 0, micro_batch_rows = 0;
  std::uint32_t rank = 0;  // 0: the default
  std::uint64_t steps = 0;
};
ExitCode SwarmInit(const SwarmInitOptions& options);
struct SwarmRestoreOptions {
  std::string store, directory, endpoint, region;  // endpoint, region: may be empty
  bool plain_http = false;
};
// shoal-scheduler does it: it replaces this process.
ExitCode SwarmRestore(const SwarmRestoreOptions& options);
ExitCode SwarmStatus(const Target& target);
// Of the history in the run's folder, whether its scheduler runs or not. Failure: the ledger is
// wrong. `sample`: also say who counted that row of the data.
ExitCode SwarmAudit(const Target& target, std::optional<std::uint64_t> sample);
// The newest `last` events; 0: all.
ExitCode SwarmEvents(const Target& target, std::uint64_t last);
// "invites" or "members".
ExitCode SwarmList(const Target& target, const std::string& name);
ExitCode SwarmCommand(const Target& target, const std::string& name,
                      const std::map<std::string, std::string>& arguments);

// ---- work that a sibling program does, shoal-run if none is named: it replaces this process ----
ExitCode RunProgram(const std::vector<std::string>& arguments,
                    const std::string& name = "shoal-run");

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_COMMANDS_H_
