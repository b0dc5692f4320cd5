#include "client/demo_swarm.h"

#include <signal.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "client/base/programs.h"
#include "common/exit_code.h"
#include "common/file.h"
#include "common/nesting.h"
#include "common/units.h"
#include "net/control/local_control.h"

namespace shoal::client {
namespace {

using Json = nlohmann::json;

constexpr Duration kStartTimeout = std::chrono::seconds(60);
constexpr Duration kCallTimeout = std::chrono::seconds(5);
constexpr Duration kExportTimeout = std::chrono::minutes(10);
constexpr const char* kFastLink = "1000gbit";
constexpr Duration kPoll = std::chrono::milliseconds(50);
constexpr std::uint64_t kSmallFileBytesMax = 1 << 20;
constexpr std::uint64_t kLogBytesMax = 64ull << 20;

// Programs end with the line that says why.
std::string LastLine(const std::string& path) {
  Result<std::string> text = ReadFile(path, kLogBytesMax);
  if (!text.ok()) return "";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return text->substr(text->rfind('\n') + 1);  // npos + 1 is 0
}

std::uint64_t Whole(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<std::uint64_t>() : 0;
}

Result<Json> StatusOf(const std::string& socket) {
  SHOAL_ASSIGN_OR_RETURN(const std::string text, net::LocalStatus(socket, kCallTimeout));
  Json json = ParseJson<Json>(text);
  if (!json.is_object()) return DataLoss("the status of " + socket + " is not a JSON object");
  return json;
}

void AddKind(const Json& traffic, const char* kind, KindTotals* totals, std::uint64_t* raw,
             std::uint64_t* wire) {
  const Json bytes = traffic.value(kind, Json::object());
  totals->raw += Whole(bytes, "rawSentBytes");
  totals->wire += Whole(bytes, "wireSentBytes");
  *raw += Whole(bytes, "rawSentBytes");
  *wire += Whole(bytes, "wireSentBytes");
}

}  // namespace

std::string DemoSwarm::PeerDirectory(std::size_t peer) const {
  return directory_ + "/peer-" + std::to_string(peer);
}

Result<std::string> DemoSwarm::WaitForFile(const std::string& path) {
  const TimePoint deadline = SystemClock().Now() + kStartTimeout;
  for (;;) {
    Result<std::string> text = ReadFile(path, kSmallFileBytesMax);
    if (text.ok()) {
      while (!text->empty() && text->back() == '\n') text->pop_back();
      return text;
    }
    SHOAL_RETURN_IF_ERROR(CheckAlive());
    if (SystemClock().Now() > deadline) {
      return DeadlineExceeded("the scheduler did not start: " + path + " is missing");
    }
    std::this_thread::sleep_for(kPoll);
  }
}

// What it prints with options that end it at once.
Result<std::string> DemoSwarm::CallScheduler(const RunFile& run,
                                             const std::vector<std::string>& options) const {
  SHOAL_ASSIGN_OR_RETURN(const std::string scheduler, FindProgram("shoal-scheduler"));
  const std::string config = directory_ + "/run.toml", log = directory_ + "/check.log";
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(config, FormatRunFile(run), 0600));
  ProcessOptions process_options{{scheduler, "--config", config}, {}, log};
  std::vector<std::string>& command = process_options.command;
  command.insert(command.end(), options.begin(), options.end());
  SHOAL_ASSIGN_OR_RETURN(Process process, Process::Start(process_options));
  const int code = process.Wait();
  std::string message = LastLine(log);
  std::error_code error;
  std::filesystem::remove(log, error);
  if (code == 0) return message;
  for (const std::string& known : {process.name() + ": ", config + ": "}) {
    if (message.starts_with(known)) message.erase(0, known.size());
  }
  const auto bad_input = static_cast<int>(ExitCode::kBadConfig);
  return Status(code == bad_input ? StatusCode::kInvalidArgument : StatusCode::kInternal, message);
}

Status DemoSwarm::Check(const RunFile& run) const {
  return CallScheduler(run, {"--print-config"}).status();
}

Result<std::string> DemoSwarm::SuggestReplica(const RunFile& run, const std::string& link,
                                              const std::string& step) const {
  std::vector<std::string> options = {"--print-replica", "--step", step};
  const Result<BitsPerSecond> rate = ParseRate(link);
  const bool limited = rate.ok() && rate->value > 0;
  options.insert(options.end(), {"--link", limited ? link : kFastLink});
  return CallScheduler(run, options);
}

Status DemoSwarm::Start(const RunFile& run, const SchedulerLaunch& scheduler,
                        const std::vector<PeerLaunch>& peers) {
  SHOAL_ASSIGN_OR_RETURN(const std::string program, FindProgram("shoal-scheduler"));
  SHOAL_ASSIGN_OR_RETURN(const std::string shoald, FindProgram("shoald"));
  const std::string config = directory_ + "/run.toml";
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(config, FormatRunFile(run), 0600));
  logs_.push_back(directory_ + "/scheduler.log");
  ProcessOptions first{scheduler.prefix, {}, logs_.back()};
  first.command.insert(first.command.end(), {program, "--config", config});
  first.command.insert(first.command.end(), scheduler.options.begin(), scheduler.options.end());
  SHOAL_ASSIGN_OR_RETURN(Process started, Process::Start(first));
  processes_.push_back(std::move(started));
  launches_.push_back(std::move(first));
  SHOAL_ASSIGN_OR_RETURN(const std::string address, WaitForFile(run.directory + "/status.addr"));
  SHOAL_RETURN_IF_ERROR(WaitForFile(run.directory + "/invite").status());
  page_url_ = "http://" + address + "/";
  for (std::size_t peer = 0; peer < peers.size(); ++peer) {
    const PeerLaunch& launch = peers[peer];
    const std::string folder = PeerDirectory(peer);
    logs_.push_back(folder + ".log");
    ProcessOptions options{launch.prefix, {}, logs_.back()};
    options.command.insert(options.command.end(), {shoald,
                                                   "--dir",
                                                   folder,
                                                   "--name",
                                                   "peer-" + std::to_string(peer),
                                                   "--join",
                                                   "file:" + run.directory + "/invite",
                                                   "--listen",
                                                   launch.address + ":0",
                                                   "--advertise",
                                                   launch.address,
                                                   "--status-listen",
                                                   "127.0.0.1:0",
                                                   "--upload",
                                                   launch.upload,
                                                   "--download",
                                                   launch.download,
                                                   "--threads",
                                                   "1",
                                                   "--on-battery",
                                                   "train"});
    options.command.insert(options.command.end(), launch.options.begin(), launch.options.end());
    SHOAL_ASSIGN_OR_RETURN(Process process, Process::Start(options));
    processes_.push_back(std::move(process));
    launches_.push_back(std::move(options));
  }
  return Status::Ok();
}

Status DemoSwarm::Restart(std::size_t process) {
  processes_.at(process).Wait();
  SHOAL_ASSIGN_OR_RETURN(processes_[process], Process::Start(launches_[process]));
  return Status::Ok();
}

Status DemoSwarm::OrderPeer(std::size_t peer, const std::string& command,
                            const std::map<std::string, std::string>& arguments) const {
  return net::LocalCommand(PeerDirectory(peer) + "/shoald.sock", command, arguments, kCallTimeout)
      .status();
}

Status DemoSwarm::CheckAlive(const std::set<std::size_t>& but) {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (but.contains(i)) continue;
    const std::optional<int> code = processes_[i].Poll();
    if (!code) continue;
    const auto bad_input = static_cast<int>(ExitCode::kBadConfig);
    return Status(*code == bad_input ? StatusCode::kInvalidArgument : StatusCode::kUnavailable,
                  processes_[i].name() + " ended with code " + std::to_string(*code) + ": " +
                      LastLine(logs_[i]) + " (all of it: " + logs_[i] + ")");
  }
  return Status::Ok();
}

Result<RunProgress> DemoSwarm::Progress() const {
  SHOAL_ASSIGN_OR_RETURN(const Json json, StatusOf(directory_ + "/run/scheduler.sock"));
  const Json run = json.value("run", Json::object());
  RunProgress progress;
  progress.state = run.value("state", "");
  progress.reason = run.value("reason", "");
  progress.step = Whole(run, "step");
  progress.steps = Whole(run, "steps");
  progress.loss = run.value("loss", 0.0);
  progress.samples_per_second = run.value("samplesPerSecond", 0.0);
  for (const Json& loss : run.value("losses", Json::array())) {
    if (loss.is_number()) progress.losses.push_back(loss.get<double>());
  }
  return progress;
}

Result<SwarmTotals> DemoSwarm::Totals() const {
  SwarmTotals totals;
  for (std::size_t peer = 0; peer + 1 < processes_.size(); ++peer) {
    SHOAL_ASSIGN_OR_RETURN(const Json json, StatusOf(PeerDirectory(peer) + "/shoald.sock"));
    const Json traffic = json.value("traffic", Json::object());
    std::uint64_t raw = 0;
    std::uint64_t wire = 0;
    AddKind(traffic, "forward", &totals.forward, &raw, &wire);
    AddKind(traffic, "backward", &totals.backward, &raw, &wire);
    AddKind(traffic, "replica", &totals.replica, &raw, &wire);
    const Json control = traffic.value("control", Json::object());
    totals.control_wire += Whole(control, "wireSentBytes");
    totals.checkpoints += Whole(control, "artefactSentBytes");
    const Json store = json.value("deltaStore", Json::object());
    totals.delta_store_bytes += Whole(store, "bytes");
    const Json memory = json.value("memory", Json::object());
    totals.state_bytes = std::max(totals.state_bytes, Whole(memory, "stateBytes"));
    totals.resident_peak_bytes =
        std::max(totals.resident_peak_bytes, Whole(memory, "residentPeakBytes"));
    totals.delta_hits += Whole(store, "deltaHits");
    totals.first_visits += Whole(store, "firstVisits");
    for (const Json& end : json.value("boundaries", Json::array())) {
      totals.gradients_with_m |= end.value("gradients", Json()).is_object();
      const Json delta = end.value("relativeDelta", Json());
      if (delta.is_number()) {
        totals.relative_delta = std::max(totals.relative_delta, delta.get<double>());
      }
    }
    if (raw >= totals.busiest_raw_bytes) {
      totals.busiest_raw_bytes = raw;
      totals.busiest_wire_bytes = wire;
    }
  }
  // Both ends of a boundary count a sample.
  totals.delta_hits /= 2;
  totals.first_visits /= 2;
  return totals;
}

Result<std::string> DemoSwarm::SchedulerStatus() const {
  return net::LocalStatus(directory_ + "/run/scheduler.sock", kCallTimeout);
}

Result<std::string> DemoSwarm::PeerStatus(std::size_t peer) const {
  return net::LocalStatus(PeerDirectory(peer) + "/shoald.sock", kCallTimeout);
}

Status DemoSwarm::Export(const std::string& path, const std::string& as) {
  return net::LocalCommand(directory_ + "/run/scheduler.sock", "export",
                           {{"path", path}, {"as", as}}, kExportTimeout)
      .status();
}

void DemoSwarm::Stop(Duration grace) {
  for (std::size_t i = 1; i < processes_.size(); ++i) processes_[i].Signal(SIGTERM);
  // A second signal would end a peer at once: first they get the time to end by themselves.
  const TimePoint deadline = SystemClock().Now() + grace;
  for (std::size_t i = 1; i < processes_.size(); ++i) {
    while (!processes_[i].Poll() && SystemClock().Now() < deadline) {
      std::this_thread::sleep_for(kPoll);
    }
    processes_[i].Stop(grace);
  }
  if (!processes_.empty()) processes_[0].Stop(grace);
  processes_.clear();
}

}  // namespace shoal::client
