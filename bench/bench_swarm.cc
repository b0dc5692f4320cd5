#include "bench/bench_swarm.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "bench/bench_files.h"
#include "bench/bench_stall.h"
#include "client/base/process.h"
#include "client/base/programs.h"
#include "common/file.h"
#include "common/nesting.h"
#include "common/units.h"

namespace shoal::bench {
namespace {

namespace fs = std::filesystem;
using client::FindProgram;
using client::PeerLaunch;
using client::Process;
using client::RunFile;
using Json = nlohmann::json;

constexpr Duration kPoll = std::chrono::milliseconds(100);
constexpr Duration kBetweenLooks = std::chrono::seconds(1);
constexpr Duration kStalledGrace = std::chrono::seconds(3);
constexpr const char* kWithoutWeights = "--without-weights";
// More than any bench takes: it is stopped, it does not end.
constexpr std::uint64_t kSteps = 1'000'000;

Result<Json> ParseObject(const std::string& text) {
  Json json = ParseJson<Json>(text);
  if (!json.is_object()) return DataLoss("a status is no JSON object");
  return json;
}

double Number(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

std::uint64_t Whole(const Json& json, const char* key) {
  return static_cast<std::uint64_t>(std::max(0.0, Number(json, key)));
}

std::string FirstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The part of CpuParts that a thread of this name works for.
double* PartOf(const std::string& thread, CpuParts* parts) {
  if (thread.starts_with("codec")) return &parts->codec;
  if (thread == "store" || thread.starts_with("rocksdb")) return &parts->store;
  if (thread == "control") return &parts->control;
  if (thread == "compute") return &parts->compute;
  if (thread == "main" || thread == "http" || thread == "log") return &parts->other;
  return &parts->network;  // gRPC's threads have names of their own
}

// CPU seconds of a process by thread, from the kernel's scheduler statistics. Threads that ended
// are not in it: the daemons' threads live as long as they do.
double AddCpu(int pid, CpuParts* parts, double* wait_s) {
  double sum = 0;
  std::error_code error;
  for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task", error)) {
    std::istringstream line(FirstLine(task.path() / "schedstat"));
    double ns = 0, waited_ns = 0;
    line >> ns >> waited_ns;
    sum += ns * 1e-9;
    if (wait_s != nullptr) *wait_s += waited_ns * 1e-9;
    if (parts != nullptr) *PartOf(FirstLine(task.path() / "comm"), parts) += ns * 1e-9;
  }
  return sum;
}

// Seconds that the machine's cores spent on anything.
double MachineBusy() {
  std::istringstream line(FirstLine("/proc/stat"));
  std::string name;
  line >> name;
  double busy = 0, value = 0;
  for (int field = 0; field < 8 && line >> value; ++field) {
    const bool idle = field == 3 || field == 4;
    if (!idle) busy += value;
  }
  return busy / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

void AddPeer(const Json& status, BenchSample* sample) {
  const Json traffic = status.value("traffic", Json::object());
  const Json forward = traffic.value("forward", Json::object());
  const Json backward = traffic.value("backward", Json::object());
  sample->forward_wire += Whole(forward, "wireSentBytes");
  sample->forward_raw += Whole(forward, "rawSentBytes");
  sample->backward_wire += Whole(backward, "wireSentBytes");
  sample->backward_raw += Whole(backward, "rawSentBytes");
  sample->link_wire += Whole(traffic, "linkSentWireBytes");
  const Json work = status.value("work", Json::object());
  for (const Json& part : work.value("time", Json::array())) {
    sample->time[part.value("activity", "")] += Number(part, "ms");
  }
  sample->encode += Number(work, "encodeMs");
  sample->decode += Number(work, "decodeMs");
  sample->store += Number(work, "storeMs");
  for (const Json& link : status.value("links", Json::array())) {
    sample->stall_rate += Number(link, "stallRateLimitMs");
    sample->stall_network += Number(link, "stallNetworkMs");
  }
  for (const Json& end : status.value("boundaries", Json::array())) {
    sample->relative_delta = std::max(sample->relative_delta, Number(end, "relativeDelta"));
    sample->resends += Whole(end, "resends") + Whole(end.value("gradients", Json()), "resends");
  }
  const Json role = status.value("role", Json());
  if (role.is_object() && Whole(role, "stage") < sample->in_flight.size()) {
    sample->in_flight[Whole(role, "stage")] =
        static_cast<std::uint32_t>(Whole(work, "inFlightMax"));
  }
  const Json bench = status.value("bench", Json());
  if (!bench.is_object()) return;
  const double values = Number(bench, "valuesCpuMs") * 1e-3;
  sample->cpu.values += values;
  sample->cpu.compute -= values;
}

}  // namespace

std::string BenchSwarm::TracePath(std::uint32_t peer) const {
  return directory_ + "/peer-" + std::to_string(peer) + ".trace.json";
}

Status BenchSwarm::MakeFiles() const {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(directory_ + "/run", 0700));
  SHOAL_RETURN_IF_ERROR(WriteBenchFiles(
      {.directory = directory_,
       .stages = options_.stages,
       .hidden = options_.hidden,
       .rows = std::uint64_t{options_.micro_batches} * options_.rows * options_.epoch_steps,
       .row_tokens = options_.tokens}));
  const Json stage = {{"forwardMs", options_.forward_ms}, {"backwardMs", options_.backward_ms},
                      {"weightMs", options_.weight_ms},   {"weightParts", options_.weight_parts},
                      {"change", options_.change},        {"changeDecay", options_.change_decay}};
  return WriteFileAtomic(StagePath(), stage.dump() + "\n");
}

RunFile BenchSwarm::RunOf(const BenchCase& bench_case) const {
  RunFile run;
  run.name = "bench";
  run.model = directory_;
  run.data = directory_ + "/data.shoal";
  run.directory = directory_ + "/run";
  run.steps = run.checkpoint_every = kSteps;
  run.seed = 1;
  run.stages = options_.stages;
  run.pipelines = 1;
  run.micro_batches = options_.micro_batches;
  run.micro_batch_rows = options_.rows;
  run.forward = bench_case.codecs.forward;
  run.backward = bench_case.codecs.backward;
  run.schedule = bench_case.schedule;
  run.in_flight_max = options_.in_flight;
  run.advertise = network_.scheduler_address();
  run.listen = network_.scheduler_address() + ":0";
  run.status_listen = "127.0.0.1:0";
  return run;
}

Status BenchSwarm::Check(const BenchCase& bench_case) {
  SHOAL_RETURN_IF_ERROR(MakeFiles());
  SHOAL_ASSIGN_OR_RETURN(const std::string scheduler, FindProgram("shoal-scheduler"));
  const std::string config = directory_ + "/run.toml", said = directory_ + "/check.log";
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(config, FormatRunFile(RunOf(bench_case)), 0600));
  SHOAL_ASSIGN_OR_RETURN(
      Process process,
      Process::Start({{scheduler, "--config", config, "--print-size", kWithoutWeights}, {}, said}));
  if (process.Wait() == 0) return Status::Ok();
  std::string line = FirstLine(said);
  constexpr std::string_view kProgram = "shoal-scheduler: ";
  if (line.starts_with(kProgram)) line.erase(0, kProgram.size());
  return InvalidArgument(line);
}

std::vector<PeerLaunch> BenchSwarm::Launches(const BenchCase& bench_case) const {
  const std::string cap = network_.isolated() || bench_case.link.value == 0
                              ? "off"
                              : std::to_string(bench_case.link.value / 1000) + "kbit";
  std::vector<PeerLaunch> peers;
  for (std::uint32_t peer = 0; peer < options_.stages; ++peer) {
    PeerLaunch launch;
    launch.prefix = network_.PeerPrefix(peer);
    launch.address = network_.PeerAddress(peer);
    launch.upload = cap;
    launch.options = {"--synthetic-stage", StagePath()};
    if (!options_.trace.empty()) {
      launch.options.insert(launch.options.end(), {"--trace", TracePath(peer)});
    }
    peers.push_back(std::move(launch));
  }
  return peers;
}

Status BenchSwarm::Start(const BenchCase& bench_case) {
  SHOAL_RETURN_IF_ERROR(MakeFiles());
  return swarm_.Start(RunOf(bench_case), {network_.SchedulerPrefix(), {kWithoutWeights}},
                      Launches(bench_case));
}

Result<std::uint64_t> BenchSwarm::Step() const {
  SHOAL_ASSIGN_OR_RETURN(const client::RunProgress progress, swarm_.Progress());
  if (progress.state == "failed" || progress.state == "paused") {
    return Aborted("the run is " + progress.state + ": " + progress.reason);
  }
  return progress.step;
}

Status BenchSwarm::WaitForStep(std::uint64_t step, Duration limit,
                               const std::function<void(std::uint64_t)>& show) {
  TimePoint deadline = SystemClock().Now() + limit;
  std::uint64_t last = 0;
  for (;;) {
    if (interrupted_()) return Cancelled("interrupted");
    SHOAL_RETURN_IF_ERROR(network_.CheckAlive());
    SHOAL_RETURN_IF_ERROR(swarm_.CheckAlive());
    SHOAL_ASSIGN_OR_RETURN(const std::uint64_t now, Step());
    if (now >= step) return Status::Ok();
    if (now != last) deadline = SystemClock().Now() + limit;
    last = now;
    if (SystemClock().Now() > deadline) return Stalled(now, limit);
    show(now);
    std::this_thread::sleep_for(kPoll);
  }
}

Status BenchSwarm::Stalled(std::uint64_t step, Duration limit) {
  const auto look = [this](std::uint32_t peer) -> std::optional<std::string> {
    Result<std::string> status = swarm_.PeerStatus(peer);
    if (!status.ok()) return std::nullopt;
    return *std::move(status);
  };
  std::vector<PeerLooks> peers(options_.stages);
  for (std::uint32_t i = 0; i < options_.stages; ++i) peers[i].first = look(i);
  std::this_thread::sleep_for(kBetweenLooks);
  for (std::uint32_t i = 0; i < options_.stages; ++i) {
    if (!peers[i].first) continue;
    peers[i].second = look(i);
    if (!peers[i].second) continue;
    const std::string path = directory_ + "/peer-" + std::to_string(i) + ".status.json";
    SHOAL_RETURN_IF_ERROR(WriteFileAtomic(path, *peers[i].second));
  }
  std::optional<std::string> scheduler;
  if (Result<std::string> status = swarm_.SchedulerStatus(); status.ok()) {
    scheduler = *std::move(status);
    SHOAL_RETURN_IF_ERROR(WriteFileAtomic(directory_ + "/scheduler.status.json", *scheduler));
  }
  swarm_.Stop(kStalledGrace);
  return DeadlineExceeded("no step ended for " + FormatDuration(limit) + " after " +
                          std::to_string(step) + " steps: " + DescribeStall(scheduler, peers));
}

Result<BenchSample> BenchSwarm::Sample() {
  BenchSample sample;
  sample.in_flight.assign(options_.stages, 0);
  SHOAL_ASSIGN_OR_RETURN(const std::string scheduler, swarm_.SchedulerStatus());
  SHOAL_ASSIGN_OR_RETURN(const Json json, ParseObject(scheduler));
  const Json run = json.value("run", Json::object());
  sample.step = Whole(run, "step");
  for (const Json& seconds : run.value("lastStepSeconds", Json::array())) {
    if (seconds.is_number()) sample.last_step_seconds.push_back(seconds.get<double>());
  }
  sample.mismatches = Whole(json.value("consistency", Json::object()), "mMismatches");
  sample.time_s = std::chrono::duration<double>(SystemClock().Now().time_since_epoch()).count();
  sample.machine_busy_s = MachineBusy();
  for (std::uint32_t peer = 0; peer < options_.stages; ++peer) {
    AddCpu(swarm_.peer_pid(peer), &sample.cpu, &sample.cpu_wait_s);
    SHOAL_ASSIGN_OR_RETURN(const std::string text, swarm_.PeerStatus(peer));
    SHOAL_ASSIGN_OR_RETURN(const Json status, ParseObject(text));
    AddPeer(status, &sample);
  }
  sample.scheduler_cpu_s = AddCpu(swarm_.scheduler_pid(), nullptr, nullptr);
  if (const auto pid = network_.delay_pid()) sample.delay_cpu_s = AddCpu(*pid, nullptr, nullptr);
  return sample;
}

}  // namespace shoal::bench
