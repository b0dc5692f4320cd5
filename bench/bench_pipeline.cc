#include "bench/bench_pipeline.h"

#include <signal.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>

#include "bench/bench_network.h"
#include "bench/bench_report.h"
#include "bench/bench_swarm.h"
#include "bench/bench_trace.h"
#include "client/base/failure.h"
#include "client/base/process.h"
#include "client/base/programs.h"
#include "client/base/terminal.h"
#include "common/file.h"
#include "common/nesting.h"
#include "compression/api/codec.h"

namespace shoal::bench {
namespace {

namespace fs = std::filesystem;
using client::Captured;
using client::Fail;
using client::FindProgram;
using client::ProgressLine;
using client::RunAndCapture;

constexpr std::size_t kOutputBytesMax = 1 << 20;
// Bytes that count against a line's rate for one of payload. Of each packet of 1514 bytes, as tbf
// counts them, 66 are headers. TLS, HTTP/2 and gRPC add 0.35 %. A cap counts some headers of the
// whole segment (docs/WIRE.md, "Counting bytes").
constexpr double kBytesOfPackets = 1514.0 / 1448 * 1.0035;
constexpr double kBytesOfCaps = 1.003;
constexpr auto kInterrupted = static_cast<ExitCode>(130);

// No step for so long: the swarm stands still.
constexpr double kStepLimitMin = 60;         // seconds
constexpr double kStepLimitComputed = 20;    // times the step without any link
constexpr double kStepLimitTransferred = 3;  // times the step of first visits, which may be fp32

// What a line may hold back before it drops.
constexpr Duration kQueue = std::chrono::milliseconds(50);

volatile sig_atomic_t g_interrupted = 0;

void OnInterrupt(int) { g_interrupted = 1; }
bool Interrupted() { return g_interrupted != 0; }

std::string Exact(double value) { return nlohmann::json(value).dump(); }

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

// Seconds of a step by the simulation, which lives in pipeline/ and answers through shoald.
Result<double> SimulatedStep(const BenchOptions& options, const std::string& schedule,
                             BitsPerSecond link, double bytes_forward, double bytes_backward,
                             double latency_ms) {
  SHOAL_ASSIGN_OR_RETURN(const std::string shoald, FindProgram("shoald"));
  SHOAL_ASSIGN_OR_RETURN(const Captured ran, RunAndCapture({shoald,
                                                            "simulate",
                                                            "--stages",
                                                            std::to_string(options.stages),
                                                            "--micro-batches",
                                                            std::to_string(options.micro_batches),
                                                            "--forward-ms",
                                                            Exact(options.forward_ms),
                                                            "--backward-ms",
                                                            Exact(options.backward_ms),
                                                            "--weight-ms",
                                                            Exact(options.weight_ms),
                                                            "--weight-parts",
                                                            std::to_string(options.weight_parts),
                                                            "--schedule",
                                                            schedule,
                                                            "--link-bps",
                                                            std::to_string(link.value),
                                                            "--forward-bytes",
                                                            Exact(bytes_forward),
                                                            "--backward-bytes",
                                                            Exact(bytes_backward),
                                                            "--latency-ms",
                                                            Exact(latency_ms)},
                                                           kOutputBytesMax));
  const auto json = ParseJson<nlohmann::json>(ran.output);
  if (ran.exit_code != 0 || !json.is_object() ||
      !json.value("stepSeconds", nlohmann::json()).is_number()) {
    return Internal("shoald simulate gave no answer");
  }
  return json["stepSeconds"].get<double>();
}

class BenchRun {
 public:
  explicit BenchRun(const BenchOptions& options) {
    report_.options = options;
    keep_ = options.keep;
    report_.cpu_model = CpuModel();
    report_.cpus = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
    utsname name{};
    if (::uname(&name) == 0) report_.kernel = std::string(name.sysname) + " " + name.release;
  }

  ~BenchRun() {
    std::error_code error;
    if (!directory_.empty() && !keep_) fs::remove_all(directory_, error);
  }

  // Mistakes that some row would only find when its turn comes. InvalidArgument: what to change.
  Status Prepare() {
    SHOAL_RETURN_IF_ERROR(MakeFolder());
    // What fractions are of has no delay.
    SHOAL_RETURN_IF_ERROR(MakeNetwork(options().reference ? Duration::zero() : SlowedRtt()));
    const std::string folder = directory_ + "/check";
    for (const CodecPair& codecs : options().codecs) {
      const BenchOptions slowed = Slowed(options());
      BenchSwarm swarm(slowed, *network_, folder, Interrupted);
      const BenchCase first{options().links.front(), codecs, options().schedules.front()};
      const Status checked = swarm.Check(first);
      if (checked.code() == StatusCode::kInvalidArgument) return checked.WithContext("--codecs");
      SHOAL_RETURN_IF_ERROR(checked);
      std::error_code error;
      fs::remove_all(folder, error);
    }
    return Status::Ok();
  }

  // After Prepare. Where it fails, report() has the rows that were measured before.
  Status Run() {
    Explain();
    SHOAL_RETURN_IF_ERROR(Reference());
    if (network_->isolated() && network_->rtt() != SlowedRtt()) {
      SHOAL_RETURN_IF_ERROR(MakeNetwork(SlowedRtt()));
    }
    for (const BitsPerSecond link : options().links) {
      for (const std::string& schedule : options().schedules) {
        for (const CodecPair& codecs : options().codecs) {
          SHOAL_ASSIGN_OR_RETURN(BenchRow row, Measure(options(), {link, codecs, schedule}));
          report_.rows.push_back(std::move(row));
        }
      }
    }
    report_.complete = true;
    return Status::Ok();
  }

  const BenchReport& report() const { return report_; }

 private:
  const BenchOptions& options() const { return report_.options; }
  Duration SlowedRtt() const { return Slowed(options()).rtt; }
  // What there is, by the clock that figures are told in.
  double RttMs() const {
    return std::chrono::duration<double, std::milli>(network_->rtt()).count() / options().dilation;
  }

  Status MakeFolder() {
    std::error_code error;
    if (options().directory.empty()) {
      std::string name = (fs::temp_directory_path(error) / "shoal-bench-XXXXXX").string();
      if (::mkdtemp(name.data()) == nullptr) return FromErrno(errno, "create " + name);
      directory_ = name;
      return Status::Ok();
    }
    const std::string wanted = fs::absolute(options().directory, error).string();
    if (fs::exists(wanted, error) && !fs::is_empty(wanted, error)) {
      return AlreadyExists(wanted + " is not empty; choose another --dir");
    }
    directory_ = wanted;
    return MakeDirectories(directory_, 0700);
  }

  // In place of the one there is.
  Status MakeNetwork(Duration rtt) {
    network_.reset();
    SHOAL_ASSIGN_OR_RETURN(network_, BenchNetwork::Make({.peers = options().stages,
                                                         .namespaces = options().namespaces,
                                                         .rtt = rtt,
                                                         .log = directory_ + "/switch.log"}));
    return Status::Ok();
  }

  void Explain() const {
    if (network_->isolated()) {
      std::cerr << "each peer has a network namespace, what leaves it is shaped by tbf\n";
    } else {
      std::cerr << "no network namespaces here (they take root and iproute2): all peers share the "
                   "loopback, shaped by their own upload caps\n";
    }
    if (!network_->isolated() && options().rtt > Duration::zero()) {
      std::cerr << "the rtt is not emulated: that takes network namespaces; rows say rttMs 0\n";
    }
  }

  // What fractions are of: the ordinary schedule, messages of fp32, nothing shaped.
  Status Reference() {
    // The ordinary schedule does not split the backward: no gradient leaves before all of it.
    BenchOptions ordinary = options();
    ordinary.weight_ms = 0;
    ordinary.weight_parts = 1;
    SHOAL_ASSIGN_OR_RETURN(const double step,
                           SimulatedStep(ordinary, "1f1b", BitsPerSecond{0}, 0, 0, 0));
    const double rows = static_cast<double>(options().micro_batches) * options().rows;
    report_.reference_sequences_per_second = step > 0 ? rows / step : 0;
    report_.reference_simulated = true;
    if (!options().reference) return Status::Ok();
    const CodecPair raw{compression::kLosslessCodec, compression::kLosslessCodec};
    SHOAL_ASSIGN_OR_RETURN(const BenchRow row, Measure(ordinary, {BitsPerSecond{0}, raw, "1f1b"}));
    // A machine that is slower than eight real ones would flatter every other row.
    if (row.cpu_limited() || row.sequences_per_second < 0.97 * row.bound_sequences_per_second) {
      return Status::Ok();
    }
    report_.reference_sequences_per_second = row.sequences_per_second;
    report_.reference_simulated = false;
    return Status::Ok();
  }

  Result<BenchRow> Measure(const BenchOptions& wanted, const BenchCase& bench_case) {
    const std::string name = FormatRate(bench_case.link) + ", " + bench_case.schedule + ", " +
                             CodecLabel(bench_case.codecs);
    ProgressLine line;
    const auto show = [&](std::uint64_t step) {
      line.Show(name + ": step " + std::to_string(step) + " of " +
                std::to_string(options().warmup + options().steps));
    };
    const BenchOptions slowed = Slowed(wanted);
    BenchCase slowed_case = bench_case;
    slowed_case.link = Slowed(bench_case.link, wanted.dilation);
    if (network_->isolated()) {
      SHOAL_RETURN_IF_ERROR(network_->Shape(
          slowed_case.link, std::chrono::duration_cast<Duration>(kQueue * wanted.dilation)));
    }
    SHOAL_ASSIGN_OR_RETURN(const Duration limit, StepLimit(wanted, bench_case));
    const std::string folder = directory_ + "/row-" + std::to_string(++measured_);
    BenchSwarm swarm(slowed, *network_, folder, Interrupted);
    Result<Samples> samples = Watch(&swarm, slowed_case, limit, show);
    if (!samples.ok()) {
      if (Interrupted()) return samples.status();
      line.Finish();
      KeepLogs(&swarm, folder);
      return Status(samples.status().code(),
                    name + ": " + samples.status().message() + "; logs in " + folder);
    }
    const auto& [first, before, after] = *samples;
    swarm.Stop();
    BenchRow row = MakeBenchRow(wanted, bench_case, first, before, after, report_.cpus);
    row.rtt_ms = RttMs();
    row.shaped_by = bench_case.link.value == 0 ? "none" : network_->shaped_by();
    SHOAL_ASSIGN_OR_RETURN(
        const double bound,
        SimulatedStep(wanted, bench_case.schedule, bench_case.link, row.wire_bytes_forward,
                      row.wire_bytes_backward, row.rtt_ms / 2));
    const double on_line = network_->isolated() ? kBytesOfPackets : kBytesOfCaps;
    SHOAL_ASSIGN_OR_RETURN(const double line_bound,
                           SimulatedStep(wanted, bench_case.schedule, bench_case.link,
                                         row.wire_bytes_forward * on_line,
                                         row.wire_bytes_backward * on_line, row.rtt_ms / 2));
    const double rows = static_cast<double>(options().micro_batches) * options().rows;
    if (bound > 0) row.bound_sequences_per_second = rows / bound;
    if (line_bound > 0) row.line_bound_sequences_per_second = rows / line_bound;
    SHOAL_RETURN_IF_ERROR(Trace(swarm, after.step - 1));
    std::error_code error;
    if (!options().keep) fs::remove_all(folder, error);
    return row;
  }

  struct Samples {
    BenchSample first, before, after;  // of the first visits' end and of the measured steps' ends
  };

  Result<Samples> Watch(BenchSwarm* swarm, const BenchCase& bench_case, Duration limit,
                        const std::function<void(std::uint64_t)>& show) const {
    Samples samples;
    SHOAL_RETURN_IF_ERROR(swarm->Start(bench_case));
    SHOAL_RETURN_IF_ERROR(swarm->WaitForStep(options().epoch_steps, limit, show));
    SHOAL_ASSIGN_OR_RETURN(samples.first, swarm->Sample());
    SHOAL_RETURN_IF_ERROR(swarm->WaitForStep(options().warmup, limit, show));
    SHOAL_ASSIGN_OR_RETURN(samples.before, swarm->Sample());
    // Short steps may be over by now. Of two new ones, one began after the sample and is whole.
    SHOAL_ASSIGN_OR_RETURN(const std::uint64_t sampled, swarm->Step());
    SHOAL_RETURN_IF_ERROR(swarm->WaitForStep(sampled + std::max(options().steps, 2u), limit, show));
    SHOAL_ASSIGN_OR_RETURN(samples.after, swarm->Sample());
    return samples;
  }

  Result<Duration> StepLimit(const BenchOptions& wanted, const BenchCase& bench_case) const {
    if (options().step_limit > Duration::zero()) return options().step_limit;
    const double bytes = 4.0 * static_cast<double>(options().values());
    const double latency_ms = RttMs() / 2;
    SHOAL_ASSIGN_OR_RETURN(
        const double computed,
        SimulatedStep(wanted, bench_case.schedule, BitsPerSecond{0}, 0, 0, latency_ms));
    SHOAL_ASSIGN_OR_RETURN(
        const double transferred,
        SimulatedStep(wanted, bench_case.schedule, bench_case.link, bytes, bytes, latency_ms));
    const double longest =
        std::max(kStepLimitComputed * computed, kStepLimitTransferred * transferred);
    return std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(std::max(kStepLimitMin, longest * options().dilation)));
  }

  // Of a row that failed, what tells why.
  void KeepLogs(BenchSwarm* swarm, const std::string& folder) {
    swarm->Stop();
    keep_ = true;
    std::error_code error;
    if (options().keep) return;
    std::vector<fs::path> others;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string kind = entry.path().extension();
      const bool told = kind == ".log" || kind == ".json" || kind == ".toml";
      if (entry.is_directory(error) || !told) others.push_back(entry.path());
    }
    for (const fs::path& path : others) fs::remove_all(path, error);
  }

  Status Trace(const BenchSwarm& swarm, std::uint64_t step) const {
    if (options().trace.empty()) return Status::Ok();
    std::vector<std::string> files;
    for (std::uint32_t peer = 0; peer < options().stages; ++peer) {
      files.push_back(swarm.TracePath(peer));
    }
    return MergeTraces(files, step, options().trace);
  }

  BenchReport report_;
  std::string directory_;
  std::unique_ptr<BenchNetwork> network_;
  bool keep_ = false;
  int measured_ = 0;
};

Status Show(const BenchReport& report) {
  const BenchOptions& options = report.options;
  std::cout << (options.json ? FormatBenchJson(report) : FormatBenchTable(report)) << std::flush;
  if (options.plot.empty()) return Status::Ok();
  return WriteFileAtomic(options.plot, FormatBenchPlot(report));
}

}  // namespace

ExitCode BenchPipeline(const BenchArguments& arguments) {
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  const Result<BenchOptions> options = ReadBenchOptions(arguments);
  if (!options.ok()) return Fail(ExitCode::kUsage, options.status().message());
  BenchRun run(*options);
  const Status prepared = run.Prepare();
  if (prepared.code() == StatusCode::kInvalidArgument) {
    return Fail(ExitCode::kUsage, prepared.message());
  }
  const Status ran = prepared.ok() ? run.Run() : prepared;
  const Status shown = ran.ok() || !run.report().rows.empty() ? Show(run.report()) : Status::Ok();
  if (!ran.ok() && Interrupted()) {
    std::cerr << "\nstopped; nothing is left running\n";
    return kInterrupted;
  }
  if (!ran.ok()) return Fail(ran);
  if (!shown.ok()) return Fail(shown);
  return run.report().consistent() ? ExitCode::kOk : ExitCode::kFailure;
}

}  // namespace shoal::bench
