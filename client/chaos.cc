#include "client/chaos.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "client/base/paths.h"
#include "client/base/process.h"
#include "client/base/programs.h"
#include "client/chaos_faults.h"
#include "client/chaos_leaks.h"
#include "client/chaos_machines.h"
#include "client/chaos_report.h"
#include "client/commands.h"
#include "client/demo_swarm.h"
#include "common/file.h"
#include "common/nesting.h"

namespace shoal::client {
namespace {

namespace fs = std::filesystem;

constexpr Duration kPoll = std::chrono::milliseconds(50);
// Each answer holds the losses of all steps, and there may be ten thousands.
constexpr Duration kCalmPoll = std::chrono::seconds(1);
constexpr double kStuckSeconds = 120;  // without a step
constexpr double kStartSeconds = 20;   // of a process
constexpr Duration kHeartbeats = std::chrono::seconds(3);
constexpr std::size_t kOutputBytesMax = 16 << 20;
constexpr auto kInterrupted = static_cast<ExitCode>(130);
// A run that nobody waits the end of.
constexpr std::uint64_t kSteps = 1'000'000;
constexpr std::uint32_t kMicroBatches = 8;
constexpr double kLearningRate = 1e-5;  // with larger ones differences by rounding grow
constexpr double kLossTolerance = 1e-6;
constexpr const char* kRowTokens = "32";
constexpr const char* kFewerTrain = "pipelines train";  // in the run's reason
constexpr const char* kSlowLine = "2mbit";

volatile sig_atomic_t g_interrupted = 0;

void OnInterrupt(int) { g_interrupted = 1; }

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// That nothing listens at now; the scheduler is to be found there again when it is started anew.
Result<std::uint16_t> FreePort() {
  const int handle = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return FromErrno(errno, "open a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool bound = ::bind(handle, any, size) == 0 && ::getsockname(handle, any, &size) == 0;
  const int error = errno;
  ::close(handle);
  if (!bound) return FromErrno(error, "find a free port");
  return ntohs(address.sin_port);
}

class ChaosRun {
 public:
  ChaosRun(const ChaosOptions& options, std::vector<FaultKind> kinds)
      : options_(options),
        peers_(std::size_t{options.stages} * options.pipelines + options.spares),
        kinds_(std::move(kinds)) {}

  Result<ChaosReport> Run() {
    SHOAL_RETURN_IF_ERROR(Prepare());
    SHOAL_RETURN_IF_ERROR(MakeMachines());
    report_.samples_per_step = kMicroBatches;
    report_.directory = directory_;
    report_.may_lose = options_.pipelines == 1;
    // Where fewer pipelines go on, they add the same gradients up in another order.
    if (options_.pipelines > 1) report_.tolerance = kLossTolerance;
    DemoSwarm swarm(directory_);
    SHOAL_RETURN_IF_ERROR(Start(&swarm, directory_, peers_, *machines_));
    SHOAL_RETURN_IF_ERROR(WaitForStep(&swarm, 2, kPoll));
    Trouble(Disturb(&swarm));
    if (g_interrupted != 0) return Cancelled("interrupted");
    if (const auto progress = swarm.Progress(); progress.ok()) report_.losses = progress->losses;
    report_.holdings = leaks_.Changes();
    swarm.Stop();
    SHOAL_RETURN_IF_ERROR(Audit());
    // What was found before is told also where the comparison came to nothing.
    Trouble(Compare());
    if (g_interrupted != 0) return Cancelled("interrupted");
    if (report_.Held() && options_.directory.empty()) {
      Clear();
      report_.directory.clear();
    }
    return std::move(report_);
  }

  // Removes the folder if the user did not name it.
  void Clear() const {
    std::error_code error;
    if (options_.directory.empty() && !directory_.empty()) fs::remove_all(directory_, error);
  }
  // What it wrote, logs among it; empty: nothing.
  const std::string& directory() const { return directory_; }

 private:
  Status Prepare() {
    SHOAL_ASSIGN_OR_RETURN(run_program_, FindProgram("shoal-run"));
    SHOAL_ASSIGN_OR_RETURN(const std::string examples, FindExamples());
    SHOAL_ASSIGN_OR_RETURN(directory_, EmptyFolder(options_.directory, "chaos"));
    SHOAL_RETURN_IF_ERROR(MakeDirectories(directory_, 0700));
    model_ = directory_ + "/model";
    data_ = directory_ + "/data.shoal";
    SHOAL_RETURN_IF_ERROR(Call({"init-model", "--config", examples + "/tiny-gpt2/config.json",
                                "--out", model_, "--seed", std::to_string(options_.seed)}));
    return Call({"prepare", "--tokenizer", model_, "--text", examples + "/tinyshakespeare.txt",
                 "--row", kRowTokens, "--out", data_, "--json"});
  }

  bool Wants(FaultKind kind) const { return std::ranges::find(kinds_, kind) != kinds_.end(); }
  std::string FolderOf(std::size_t peer) const {
    return directory_ + "/peer-" + std::to_string(peer);
  }

  // What cannot be made leaves out its kind of fault.
  Status MakeMachines() {
    ChaosMachines::Wanted wanted;
    wanted.lines = Wants(FaultKind::kCut);
    wanted.processes = peers_ + 1;
    for (std::size_t peer = 0; peer < peers_ && Wants(FaultKind::kDiskFull); ++peer) {
      SHOAL_RETURN_IF_ERROR(MakeDirectories(FolderOf(peer), 0700));
      wanted.folders.push_back(FolderOf(peer));
    }
    machines_ = ChaosMachines::Make(wanted);
    for (const auto& [kind, why] : {std::pair{FaultKind::kCut, machines_->no_lines()},
                                    std::pair{FaultKind::kDiskFull, machines_->no_disks()}}) {
      if (why.empty() || std::erase(kinds_, kind) == 0) continue;
      report_.skipped[FaultKindName(kind)] = why;
      if (!options_.json)
        std::cerr << "no faults of kind " << FaultKindName(kind) << ": " << why << "\n";
    }
    if (kinds_.empty()) {
      return PermissionDenied("no fault of --faults is possible here: " +
                              report_.skipped.begin()->second);
    }
    source_.emplace(kinds_, peers_, options_.seed);
    return Status::Ok();
  }

  Status Call(std::vector<std::string> arguments) {
    const std::string what = arguments[0];
    arguments.insert(arguments.begin(), run_program_);
    SHOAL_ASSIGN_OR_RETURN(const Captured captured, RunAndCapture(arguments, kOutputBytesMax, [] {
                             return g_interrupted != 0;
                           }));
    if (g_interrupted != 0) return Cancelled("interrupted");
    if (captured.exit_code == 0) return Status::Ok();
    return Internal("shoal-run " + what + " ended with code " + std::to_string(captured.exit_code));
  }

  Status Start(DemoSwarm* swarm, const std::string& directory, std::size_t peers,
               const ChaosMachines& machines) {
    SHOAL_RETURN_IF_ERROR(MakeDirectories(directory + "/run", 0700));
    SHOAL_ASSIGN_OR_RETURN(const std::uint16_t port, FreePort());
    RunFile run;
    run.name = "chaos";
    run.model = model_;
    run.data = data_;
    run.directory = directory + "/run";
    run.steps = kSteps;
    run.seed = options_.seed;
    run.stages = options_.stages;
    run.pipelines = options_.pipelines;
    run.micro_batches = kMicroBatches;
    run.micro_batch_rows = 1;
    run.checkpoint_every = 50;
    run.forward = run.backward = "raw:dtype=fp32";
    run.replica = "average";
    run.learning_rate = kLearningRate;
    run.listen = machines.Address(0) + ":" + std::to_string(port);
    run.advertise = machines.Address(0);
    run.status_listen = "127.0.0.1:0";
    std::vector<PeerLaunch> launches(peers);
    for (std::size_t peer = 0; peer < peers; ++peer) {
      launches[peer].prefix = machines.Prefix(peer + 1);
      launches[peer].address = machines.Address(peer + 1);
    }
    return swarm->Start(run, {machines.Prefix(0), {}}, launches);
  }

  void Trouble(const Status& status) {
    if (status.ok()) return;
    report_.trouble += (report_.trouble.empty() ? "" : "; ") + status.message();
  }

  // Until `swarm` has done `step` steps. A scheduler that is slow to answer is asked again; only
  // one without a further step for kStuckSeconds is given up.
  // `reached_losses`: of the last answer; may be null.
  Status WaitForStep(DemoSwarm* swarm, std::uint64_t step, Duration poll,
                     std::vector<double>* reached_losses = nullptr) {
    TimePoint moved = SystemClock().Now();
    std::uint64_t reached = 0;
    std::string last = "nothing yet";
    while (g_interrupted == 0) {
      SHOAL_RETURN_IF_ERROR(swarm->CheckAlive());
      const auto now = swarm->Progress();
      if (now.ok() && reached_losses != nullptr) *reached_losses = now->losses;
      if (now.ok() && now->step >= step) return Status::Ok();
      if (now.ok() && now->step > reached) {
        reached = now->step;
        moved = SystemClock().Now();
      }
      last = now.ok() ? now->state + ", " + now->reason : now.status().message();
      if (Seconds(SystemClock().Now() - moved) > kStuckSeconds) {
        return DeadlineExceeded("the swarm did not get beyond step " + std::to_string(reached) +
                                " of " + std::to_string(step) + "; its scheduler says: " + last);
      }
      std::this_thread::sleep_for(poll);
    }
    return Cancelled("interrupted");
  }

  // Faults, one after another, until the time is over.
  Status Disturb(DemoSwarm* swarm) {
    const TimePoint start = SystemClock().Now();
    while (Seconds(SystemClock().Now() - start) < options_.minutes * 60 && g_interrupted == 0) {
      const Fault fault = source_->Next();
      std::this_thread::sleep_for(std::chrono::duration<double>(fault.wait_seconds));
      SHOAL_ASSIGN_OR_RETURN(const RunProgress now, swarm->Progress());
      FaultCost cost(fault, RoleOf(*swarm, fault), now.step);
      cost.whole = now.state == "training" && now.reason.find(kFewerTrain) == std::string::npos;
      const double at = Seconds(SystemClock().Now() - start);
      const Status status = Bear(swarm, &cost);
      report_.faults.push_back(cost);
      if (!options_.json) PrintFault(at, cost);
      SHOAL_RETURN_IF_ERROR(status);
      // The scheduler hears from heartbeats that the line is fast again.
      if (fault.kind == FaultKind::kThrottle) std::this_thread::sleep_for(kHeartbeats);
    }
    return Status::Ok();
  }

  // The fault comes, is undone, and the run goes on.
  Status Bear(DemoSwarm* swarm, FaultCost* cost) {
    const TimePoint start = SystemClock().Now();
    SHOAL_RETURN_IF_ERROR(Begin(swarm, cost->fault));
    bool undone = false;
    std::string last;
    while (g_interrupted == 0) {
      const double seconds = Seconds(SystemClock().Now() - start);
      if (!undone && seconds >= cost->fault.seconds) {
        SHOAL_RETURN_IF_ERROR(Undo(swarm, cost->fault));
        undone = true;
      }
      if (const auto now = swarm->Progress(); now.ok()) {
        // What a paused run goes on from is seen when it does.
        if (now->state == "preparing" || now->state == "training") cost->See(now->step, seconds);
        last = now->state + ": " + now->reason;
      }
      if (undone && cost->over()) return Status::Ok();
      LookForLeaks(*swarm);
      SHOAL_RETURN_IF_ERROR(swarm->CheckAlive(gone_));
      if (seconds > kStuckSeconds) {
        return DeadlineExceeded("no further step for " + std::to_string(std::lround(seconds)) +
                                " s after " + FaultKindName(cost->fault.kind) + " of " +
                                cost->role + "; the run is " + last);
      }
      std::this_thread::sleep_for(kPoll);
    }
    return Cancelled("interrupted");
  }

  void LookForLeaks(const DemoSwarm& swarm) {
    const double now = Seconds(SystemClock().Now().time_since_epoch());
    if (now - looked_at_seconds_ < 1) return;
    looked_at_seconds_ = now;
    for (std::size_t process = 0; process <= peers_; ++process) {
      const int pid = process == 0 ? swarm.scheduler_pid() : swarm.peer_pid(process - 1);
      const auto holdings = LookAt(pid);
      if (gone_.contains(process) || !holdings) continue;
      leaks_.Add(process == 0 ? "scheduler" : "peer-" + std::to_string(process - 1), pid, now,
                 *holdings);
    }
  }

  // Of the process that it is for; 0 is the scheduler.
  static std::size_t ProcessOf(const Fault& fault) {
    return fault.kind == FaultKind::kScheduler ? 0 : fault.peer + 1;
  }

  // A peer that was started a moment ago does not listen yet.
  static Status Order(const DemoSwarm& swarm, std::size_t peer, const std::string& command,
                      const std::map<std::string, std::string>& arguments) {
    const TimePoint start = SystemClock().Now();
    for (;;) {
      Status status = swarm.OrderPeer(peer, command, arguments);
      const bool again = status.code() == StatusCode::kUnavailable &&
                         Seconds(SystemClock().Now() - start) < kStartSeconds;
      if (!again || g_interrupted != 0) return status;
      std::this_thread::sleep_for(kPoll);
    }
  }

  Status Begin(DemoSwarm* swarm, const Fault& fault) {
    switch (fault.kind) {
      case FaultKind::kKill:
      case FaultKind::kScheduler:
        gone_.insert(ProcessOf(fault));
        swarm->Signal(ProcessOf(fault), SIGKILL);
        return Status::Ok();
      case FaultKind::kStop: swarm->Signal(ProcessOf(fault), SIGSTOP); return Status::Ok();
      case FaultKind::kPause: return Order(*swarm, fault.peer, "pause", {});
      case FaultKind::kThrottle: return Throttle(swarm, fault, kSlowLine);
      case FaultKind::kCut: return machines_->Cut(ProcessOf(fault));
      case FaultKind::kDiskFull:
        // One that was killed a moment ago writes a file or two when it starts.
        SHOAL_RETURN_IF_ERROR(Order(*swarm, fault.peer, "set", {{"upload", "off"}}));
        return ChaosMachines::FillDisk(FolderOf(fault.peer));
    }
    return Status::Ok();
  }

  Status Undo(DemoSwarm* swarm, const Fault& fault) {
    switch (fault.kind) {
      case FaultKind::kKill:
      case FaultKind::kScheduler:
        SHOAL_RETURN_IF_ERROR(swarm->Restart(ProcessOf(fault)));
        gone_.erase(ProcessOf(fault));
        return Status::Ok();
      case FaultKind::kStop: swarm->Signal(ProcessOf(fault), SIGCONT); return Status::Ok();
      case FaultKind::kPause: return Order(*swarm, fault.peer, "resume", {});
      case FaultKind::kThrottle: return Throttle(swarm, fault, "");
      case FaultKind::kCut: return machines_->Mend(ProcessOf(fault));
      case FaultKind::kDiskFull: return ChaosMachines::FreeDisk(FolderOf(fault.peer));
    }
    return Status::Ok();
  }

  // The line itself where it is ours, else by what the peer may send.
  Status Throttle(DemoSwarm* swarm, const Fault& fault, const std::string& rate) const {
    if (machines_->no_lines().empty()) return machines_->Slow(ProcessOf(fault), rate);
    return Order(*swarm, fault.peer, "set", {{"upload", rate.empty() ? "off" : rate}});
  }

  static std::string RoleOf(const DemoSwarm& swarm, const Fault& fault) {
    if (fault.kind == FaultKind::kScheduler) return "scheduler";
    const auto text = swarm.SchedulerStatus();
    if (!text.ok()) return "unknown";
    const auto json = ParseJson<nlohmann::json>(*text);
    const std::string name = "peer-" + std::to_string(fault.peer);
    for (const auto& member : json.value("members", nlohmann::json::array())) {
      if (member.value("name", "") != name || member.value("stage", -1) < 0) continue;
      return "stage " + std::to_string(member.value("stage", 0)) + ", pipeline " +
             std::to_string(member.value("pipeline", 0));
    }
    return "spare";
  }

  // Whether every sample was counted once, as `shoal swarm audit` says.
  Status Audit() {
    SHOAL_ASSIGN_OR_RETURN(const std::string program, FindProgram("shoal-scheduler"));
    SHOAL_ASSIGN_OR_RETURN(
        const Captured ran,
        RunAndCapture({program, "--dir", directory_ + "/run", "--print-audit"}, kOutputBytesMax));
    report_.ledger_right = ran.exit_code == 0;
    return Status::Ok();
  }

  // The same run, undisturbed, for as many steps.
  Status Compare() {
    const std::size_t steps = report_.losses.size();
    if (!options_.json) {
      std::cerr << steps << " steps; the same without faults, to compare the losses\n";
    }
    DemoSwarm swarm(directory_ + "/calm");
    SHOAL_RETURN_IF_ERROR(MakeDirectories(directory_ + "/calm", 0700));
    SHOAL_RETURN_IF_ERROR(Start(&swarm, directory_ + "/calm",
                                std::size_t{options_.stages} * options_.pipelines,
                                *ChaosMachines::Make({})));
    std::vector<double> calm;
    const Status waited = WaitForStep(&swarm, steps, kCalmPoll, &calm);
    report_.compared_losses = std::min(steps, calm.size());
    for (std::size_t t = 0; t < report_.compared_losses; ++t) {
      const double off = std::abs(calm[t] - report_.losses[t]);
      if (off <= report_.tolerance * calm[t]) ++report_.equal_losses;
    }
    return waited.WithContext("the undisturbed run");
  }

  const ChaosOptions& options_;
  const std::size_t peers_;
  std::vector<FaultKind> kinds_;
  std::optional<FaultSource> source_;
  std::unique_ptr<ChaosMachines> machines_;  // outlives the processes
  LeakWatch leaks_;
  double looked_at_seconds_ = 0;
  std::string run_program_, directory_, model_, data_;
  std::set<std::size_t> gone_;  // processes that shall not run now
  ChaosReport report_;
};

}  // namespace

ExitCode Chaos(const ChaosOptions& options) {
  auto kinds = ParseFaultKinds(options.kinds);
  if (!kinds.ok()) return Fail(ExitCode::kUsage, "--faults: " + kinds.status().message());
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ChaosRun run(options, *std::move(kinds));
  const Result<ChaosReport> report = run.Run();
  if (!report.ok() && g_interrupted != 0) {
    run.Clear();
    std::cerr << "\nstopped; nothing is left running\n";
    return kInterrupted;
  }
  if (!report.ok()) {
    const ExitCode code = Fail(report.status());
    if (!run.directory().empty()) std::cerr << "logs: " << run.directory() << "\n";
    return code;
  }
  options.json ? PrintChaosJson(options, *report) : PrintChaos(*report);
  return report->Held() ? ExitCode::kOk : ExitCode::kFailure;
}

}  // namespace shoal::client
