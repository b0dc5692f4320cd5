// The local door: a unix socket with status and commands; server in shoald and shoal-scheduler,
// client in the CLI.

#ifndef SHOAL_NET_CONTROL_LOCAL_CONTROL_H_
#define SHOAL_NET_CONTROL_LOCAL_CONTROL_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/executor.h"
#include "common/status.h"

namespace shoal::net {

struct CommandResult {
  std::string message;
  std::string json;
};

struct LocalHandlers {
  // Run on the executor; answer through `reply`, once, now or later, from the executor's thread.
  std::function<void(std::function<void(std::string json)> reply)> on_status;
  std::function<void(const std::string& name, const std::map<std::string, std::string>& arguments,
                     std::function<void(Result<CommandResult>)> reply)>
      on_command;
};

class LocalServer {
 public:
  virtual ~LocalServer() = default;
};

// Listens on `socket_path` (mode 0660; a stale socket of a dead process is replaced, a live one is
// an error).
Result<std::unique_ptr<LocalServer>> NewLocalServer(const std::string& socket_path,
                                                    Executor* executor, LocalHandlers handlers);

// Blocking calls for the CLI, with a deadline. Unavailable: nobody listens there.
Result<std::string> LocalStatus(const std::string& socket_path, Duration timeout);
Result<CommandResult> LocalCommand(const std::string& socket_path, const std::string& name,
                                   const std::map<std::string, std::string>& arguments,
                                   Duration timeout);

}  // namespace shoal::net

#endif  // SHOAL_NET_CONTROL_LOCAL_CONTROL_H_
