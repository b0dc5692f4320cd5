// Commands about this machine's peer.

#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <thread>
#include <utility>

#include "client/base/orders.h"
#include "client/base/process.h"
#include "client/base/programs.h"
#include "client/base/screen.h"
#include "client/commands.h"
#include "client/status_view.h"
#include "client/top.h"
#include "common/file.h"
#include "common/nesting.h"
#include "common/regular_file.h"
#include "common/units.h"
#include "common/version.h"
#include "net/control/local_control.h"
#include "net/identity/identity.h"

namespace shoal::client {
namespace {

constexpr Duration kCallTimeout = std::chrono::seconds(5);
// While the daemon does not answer no key is read.
constexpr Duration kScreenTimeout = std::chrono::seconds(2);
constexpr std::uint64_t kInviteBytesMax = 64 * 1024;
constexpr std::size_t kStatsBytesMax = 1 << 20;
constexpr std::uint64_t kLogBytesMax = 64ull << 20;

std::string Socket(const Target& target) { return target.directory + "/shoald.sock"; }

ExitCode FailOf(const Target& target, ExitCode code, const std::string& message) {
  return Fail(code, PeerOrders(message, target.directory));
}

ExitCode NotRunning(const Target& target, const Status& status) {
  if (status.code() != StatusCode::kUnavailable) {
    return FailOf(target, ExitCodeFor(status), status.message());
  }
  // One that has joined knows its run.
  const Result<std::string> kept = ReadFile(target.directory + "/overlay.json", kInviteBytesMax);
  const auto overlay = ParseJson<nlohmann::json>(kept.ok() ? *kept : "");
  const bool member = overlay.is_object() && overlay.contains("invite");
  return FailOf(
      target, ExitCode::kDaemonNotRunning,
      "no shoald runs in " + target.directory +
          (member ? "; start it again with `shoald --dir " + ShellWord(target.directory) + "`"
                  : "; start one with `shoal join INVITE` or `shoald --config "
                    "shoald.toml`"));
}

Result<std::string> StateOf(const Target& target) {
  SHOAL_ASSIGN_OR_RETURN(const std::string json, net::LocalStatus(Socket(target), kCallTimeout));
  const auto status = ParseJson<nlohmann::json>(json);
  if (!status.is_object() || !status.contains("state") || !status["state"].is_string()) {
    return DataLoss("the daemon's status is not a JSON object with a state");
  }
  return status["state"].get<std::string>();
}

// Of a peer that runs and was told of no swarm, or has left it.
bool IsIdle(const Target& target) {
  const Result<std::string> state = StateOf(target);
  return state.ok() && *state == "idle";
}

// Lines until they make a whole invite, or the end: at a terminal nobody has to type Ctrl-D.
std::string PipedInvite(std::istream& input) {
  std::string text;
  for (std::string line; text.size() < kInviteBytesMax && std::getline(input, line);) {
    text += line + "\n";
    if (net::ParseInvite(text).ok()) break;
  }
  return text;
}

// The invite itself, from the argument, file:PATH or "-" (standard input).
Result<std::string> InviteText(const std::string& argument) {
  std::string text = argument;
  if (argument == "-") {
    text = PipedInvite(std::cin);
  } else if (argument.rfind("file:", 0) == 0) {
    Result<std::string> content = ReadFile(argument.substr(5), kInviteBytesMax);
    if (!content.ok()) {
      return InvalidArgument("the invite cannot be read: " + content.status().message() +
                             "; give the file that holds it, or the line shoal1_... itself");
    }
    text = std::move(*content);
  }
  SHOAL_ASSIGN_OR_RETURN(const net::Invite invite, net::ParseInvite(text));
  return net::FormatInvite(invite);
}

}  // namespace

ExitCode Join(const Target& target, const std::string& invite, bool start_daemon,
              const std::vector<std::string>& daemon_options) {
  const Result<std::string> text = InviteText(invite);
  if (!text.ok()) return Fail(ExitCode::kUsage, text.status().message());
  // A shoald that runs already takes of the flags what it can, and says what it cannot.
  std::map<std::string, std::string> arguments = {{"invite", *text}};
  for (std::size_t i = 0; i + 1 < daemon_options.size(); i += 2) {
    arguments[daemon_options[i].substr(2)] = daemon_options[i + 1];
  }
  const auto reply = net::LocalCommand(Socket(target), "join", arguments, kCallTimeout);
  if (reply.ok()) {
    std::cout << PeerOrders(reply->message, target.directory) << "\n";
    return ExitCode::kOk;
  }
  const bool absent = reply.status().code() == StatusCode::kUnavailable;
  if (!absent || !start_daemon) return NotRunning(target, reply.status());
  const Result<std::string> program = FindProgram("shoald");
  if (!program.ok()) return Fail(program.status());
  if (Status status = MakeDirectories(target.directory, 0700); !status.ok()) return Fail(status);
  // The invite is a secret: it goes through a file that only the user can read, never through an
  // argument that everybody on the machine sees.
  const std::string invite_file = target.directory + "/invite";
  if (Status status = WriteFileAtomic(invite_file, *text + "\n", 0600); !status.ok()) {
    return Fail(status);
  }
  std::cerr << "starting shoald in " << target.directory
            << "; Ctrl-C stops it and leaves the run in order\n";
  std::vector<std::string> command = {*program, "--dir", target.directory, "--join",
                                      "file:" + invite_file};
  command.insert(command.end(), daemon_options.begin(), daemon_options.end());
  command.push_back("--keep");
  return Fail(Exec(command));
}

// One that is stopped, or hangs, runs, too.
bool PeerRuns(const Target& target) {
  const Status status = net::LocalStatus(Socket(target), kCallTimeout).status();
  return status.code() != StatusCode::kUnavailable;
}

ExitCode PeerStatus(const Target& target) {
  const Result<std::string> json = net::LocalStatus(Socket(target), kCallTimeout);
  if (!json.ok()) return NotRunning(target, json.status());
  if (target.json) {
    std::cout << *json << "\n";
    return ExitCode::kOk;
  }
  const Result<std::string> view = PeerView(*json);
  if (!view.ok()) return Fail(view.status());
  std::cout << PeerOrders(*view, target.directory);
  return ExitCode::kOk;
}

ExitCode Top(const Target& target, double interval_s, int rounds) {
  const auto ask = [&target] { return net::LocalStatus(Socket(target), kScreenTimeout); };
  if (Screen::Available()) {
    Screen::HoldSignals();  // the first call starts threads
    if (const auto json = ask(); !json.ok()) return NotRunning(target, json.status());
    return WatchOnScreen(ask, interval_s, rounds);
  }
  for (int round = 0; rounds == 0 || round < rounds; ++round) {
    const Result<std::string> json = ask();
    if (!json.ok()) return NotRunning(target, json.status());
    const Result<std::string> view = PeerView(*json);
    if (!view.ok()) return Fail(view.status());
    std::cout << PeerOrders(*view, target.directory) << std::flush;
    if (rounds == 0 || round + 1 < rounds) {
      std::this_thread::sleep_for(std::chrono::duration<double>(interval_s));
    }
  }
  return ExitCode::kOk;
}

ExitCode PeerCommand(const Target& target, const std::string& name,
                     const std::map<std::string, std::string>& arguments) {
  if ((name == "pause" || name == "resume") && IsIdle(target)) {
    return FailOf(target, ExitCode::kNotMember,
                  "this peer is in no swarm; join one with `shoal join INVITE --no-start`");
  }
  const auto reply = net::LocalCommand(Socket(target), name, arguments, kCallTimeout);
  if (reply.status().code() == StatusCode::kInvalidArgument) {
    return FailOf(target, ExitCode::kUsage, reply.status().message());
  }
  if (!reply.ok()) return NotRunning(target, reply.status());
  std::cout << PeerOrders(reply->message, target.directory) << "\n";
  return ExitCode::kOk;
}

ExitCode Settings(const Target& target) {
  const auto reply = net::LocalCommand(Socket(target), "settings", {}, kCallTimeout);
  if (!reply.ok()) return NotRunning(target, reply.status());
  const Result<std::string> text = SettingsView(reply->json);
  if (!text.ok()) return Fail(text.status());
  std::cout << PeerOrders(*text, target.directory);
  return ExitCode::kOk;
}

ExitCode Netcheck(const Target& target) {
  const Result<std::string> status = net::LocalStatus(Socket(target), kCallTimeout);
  if (!status.ok()) return NotRunning(target, status.status());
  const Result<std::string> text = target.json ? NetcheckJson(*status) : NetcheckView(*status);
  if (!text.ok()) return Fail(text.status());
  std::cout << *text;
  return ExitCode::kOk;
}

ExitCode PageLink(const Target& target) {
  const auto reply = net::LocalCommand(Socket(target), "page", {}, kCallTimeout);
  if (!reply.ok()) return NotRunning(target, reply.status());
  std::cout << (target.json ? reply->json : reply->message) << "\n";
  if (!target.json && reply->message.find('#') == std::string::npos) {
    std::cerr << "settings cannot be changed there, as status.listen is no loopback address\n";
  }
  return ExitCode::kOk;
}

namespace {

ExitCode ShowStats(const Target& target, const std::string& json) {
  const Result<std::string> text = target.json ? json + "\n" : StatsView(json);
  if (!text.ok()) return Fail(text.status());
  std::cout << *text;
  return ExitCode::kOk;
}

// What a shoald that has ended left in its folder.
ExitCode KeptStats(const Target& target, const Status& unavailable) {
  std::error_code error;
  const bool kept = std::filesystem::exists(target.directory + "/usage.json", error);
  if (!kept) return NotRunning(target, unavailable);
  const Result<std::string> program = FindProgram("shoald");
  if (!program.ok()) return Fail(program.status());
  const Result<Captured> ran =
      RunAndCapture({*program, "--print-usage", "--dir", target.directory}, kStatsBytesMax);
  if (!ran.ok()) return Fail(ran.status());
  if (ran->exit_code != 0) return static_cast<ExitCode>(ran->exit_code);
  return ShowStats(target, ran->output.substr(0, ran->output.find('\n')));
}

}  // namespace

ExitCode Stats(const Target& target) {
  const auto reply = net::LocalCommand(Socket(target), "stats", {}, kCallTimeout);
  if (reply.status().code() == StatusCode::kUnavailable) return KeptStats(target, reply.status());
  if (!reply.ok()) return NotRunning(target, reply.status());
  return ShowStats(target, reply->json);
}

namespace {

void PrintLines(std::string_view text) {
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(std::string(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const nlohmann::ordered_json json = {{"schemaVersion", 1}, {"lines", std::move(lines)}};
  std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

}  // namespace

ExitCode Logs(const Target& target, int lines, bool follow) {
  const std::string path = target.directory + "/shoald.log";
  const Result<std::string> text = ReadFile(path, kLogBytesMax);
  if (text.status().code() == StatusCode::kNotFound) {
    return FailOf(target, ExitCode::kDaemonNotRunning,
                  "there is no log " + path +
                      ", so no shoald has run there yet; start one with `shoal join INVITE`");
  }
  if (!text.ok()) return Fail(text.status());
  std::size_t begin = text->size();
  for (int seen = 0; begin > 0; --begin) {
    if ((*text)[begin - 1] == '\n' && begin != text->size() && ++seen == lines) break;
  }
  if (target.json) {
    PrintLines(std::string_view(*text).substr(begin));
    return ExitCode::kOk;
  }
  std::cout << std::string_view(*text).substr(begin) << std::flush;
  std::uintmax_t position = text->size();
  while (follow) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (!error && size < position) position = 0;  // rotated
    const Result<std::string> fresh = ReadFileFrom(path, position, kLogBytesMax);
    if (fresh.status().code() == StatusCode::kNotFound) continue;  // being rotated
    if (!fresh.ok()) return Fail(fresh.status());
    position += fresh->size();
    std::cout << *fresh << std::flush;
  }
  return ExitCode::kOk;
}

ExitCode Health(const Target& target) {
  const Result<std::string> state = StateOf(target);
  if (!state.ok()) return NotRunning(target, state.status());
  if (target.json) {
    std::cout << nlohmann::ordered_json{{"schemaVersion", 1}, {"state", *state}}.dump() << "\n";
  } else {
    std::cout << *state << "\n";
  }
  return ExitCode::kOk;
}

ExitCode Version(bool json) {
  if (json) {
    std::cout << nlohmann::ordered_json{{"schemaVersion", 1}, {"version", kVersion}}.dump() << "\n";
  } else {
    std::cout << "shoal " << kVersion << "\n";
  }
  return ExitCode::kOk;
}

}  // namespace shoal::client
