#include "bench/bench_report.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "client/base/terminal.h"
#include "compression/api/codec.h"
#include "compression/api/codec_spec.h"

namespace shoal::bench {
namespace {

using client::Bold;
using client::FormatTable;
using client::Red;
using client::Yellow;
using Json = nlohmann::ordered_json;

// Above this the cores are a queue of their own.
constexpr double kWaiting = 0.1;
// A row that does this well against its bound was not held up, however busy the cores were.
constexpr double kNearBound = 0.97;

std::string Decimal(const char* format, double value) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string Percent(double part) { return Decimal("%.0f%%", 100 * part); }

std::string Bytes(double bytes) {
  if (bytes >= 1e6) return Decimal("%.2f MB", bytes * 1e-6);
  return Decimal("%.1f kB", bytes * 1e-3);
}

double Per(double amount, double count) { return count > 0 ? amount / count : 0; }

Json CpuJson(const CpuParts& cpu) {
  return {{"codec", cpu.codec},           {"store", cpu.store},     {"control", cpu.control},
          {"network", cpu.network},       {"compute", cpu.compute}, {"other", cpu.other},
          {"syntheticValues", cpu.values}};
}

Json RowJson(const BenchReport& report, const BenchRow& row) {
  const bool bound = row.bound_sequences_per_second > 0;
  return {
      {"schedule", row.bench_case.schedule},
      {"linkBps", row.bench_case.link.value},
      {"rttMs", row.rtt_ms},
      {"forward", row.bench_case.codecs.forward},
      {"backward", row.bench_case.codecs.backward},
      {"sequencesPerSecond", row.sequences_per_second},
      {"fractionOfUnlimitedRaw", report.Fraction(row)},
      {"boundSequencesPerSecond", bound ? Json(row.bound_sequences_per_second) : Json()},
      {"fractionOfBound", bound ? Json(row.of_bound()) : Json()},
      {"lineBoundSequencesPerSecond", bound ? Json(row.line_bound_sequences_per_second) : Json()},
      {"fractionOfLineBound", bound ? Json(row.of_line_bound()) : Json()},
      {"wireBytesForward", row.wire_bytes_forward},
      {"wireBytesBackward", row.wire_bytes_backward},
      {"cpuSecondsPerMicroBatch", row.cpu.product()},
      {"shapedBy", row.shaped_by},
      {"stepSeconds", row.step_seconds},
      {"firstVisitStepSeconds", row.first_visit_step_seconds},
      {"firstVisitWireBytesForward", row.first_visit_wire_bytes_forward},
      {"linkOverhead", row.link_overhead},
      {"time", row.time},
      {"stallRateLimit", row.stall_rate},
      {"stallNetwork", row.stall_network},
      {"cpuSeconds", CpuJson(row.cpu)},
      {"schedulerCpuSeconds", row.scheduler_cpu_seconds},
      {"delayCpuSeconds", row.delay_cpu_seconds},
      {"cpuLimited", row.cpu_limited()},
      {"cpuWait", row.cpu_wait},
      {"machineBusy", row.machine_busy},
      {"othersBusy", row.others_busy},
      {"encodeMs", row.encode_ms},
      {"decodeMs", row.decode_ms},
      {"storeMs", row.store_ms},
      {"inFlight", row.in_flight},
      {"relativeDelta", row.relative_delta},
      {"resends", row.resends},
      {"mMismatches", row.mismatches}};
}

std::string Warnings(const BenchReport& report) {
  std::string text;
  bool hint = false;
  for (const BenchRow& row : report.rows) {
    hint |= row.cpu_limited();
    const std::string name = FormatRate(row.bench_case.link) + ", " + row.bench_case.schedule +
                             ", " + CodecLabel(row.bench_case.codecs);
    if (row.cpu_limited()) {
      text += Yellow("warning") + "  " + name + ": threads waited for one of " +
              std::to_string(report.cpus) + " cores for " + Percent(row.cpu_wait) +
              " of the time; CPU, not the network, is the limit\n";
    }
    if (row.others_busy > 0.1) {
      text += Yellow("warning") + "  " + name + ": other programs took " +
              Percent(row.others_busy) + " of the machine\n";
    }
    if (row.mismatches > 0) {
      text += Red("error") + "  " + name + ": the two ends of a boundary had different m\n";
    }
  }
  const double whole_core = std::ceil(static_cast<double>(report.options.stages) / report.cpus);
  if (hint && whole_core > report.options.dilation) {
    text += Yellow("hint") + "  --dilation " + Decimal("%.0f", whole_core) +
            " does the same in slow motion, so that each peer has a core of its own\n";
  }
  return text;
}

}  // namespace

bool BenchRow::cpu_limited() const {
  if (cpu_wait < kWaiting) return false;
  return bound_sequences_per_second <= 0 ||
         sequences_per_second < kNearBound * bound_sequences_per_second;
}

double BenchRow::of_bound() const {
  return bound_sequences_per_second > 0 ? sequences_per_second / bound_sequences_per_second : 0;
}

double BenchRow::of_line_bound() const {
  return line_bound_sequences_per_second > 0
             ? sequences_per_second / line_bound_sequences_per_second
             : 0;
}

double BenchRow::Time(std::initializer_list<const char*> uses) const {
  double sum = 0;
  for (const char* use : uses) {
    const auto found = time.find(use);
    if (found != time.end()) sum += found->second;
  }
  return sum;
}

bool BenchReport::consistent() const {
  return std::all_of(rows.begin(), rows.end(),
                     [](const BenchRow& row) { return row.mismatches == 0; });
}

std::string CodecLabel(const CodecPair& codecs) {
  const auto brief = [](const std::string& spec) {
    if (spec == compression::kLosslessCodec) return std::string("raw");
    return compression::WithoutOptions(spec, {"first_visit"});
  };
  return brief(codecs.forward) + " / " + brief(codecs.backward);
}

BenchRow MakeBenchRow(const BenchOptions& options, const BenchCase& bench_case,
                      const BenchSample& first, const BenchSample& before, const BenchSample& after,
                      int cpus) {
  BenchRow row;
  row.bench_case = bench_case;
  const std::vector<double>& seconds = after.last_step_seconds;
  const std::size_t steps = std::min<std::size_t>(options.steps, seconds.size());
  row.step_seconds =
      Per(std::accumulate(seconds.end() - static_cast<std::ptrdiff_t>(steps), seconds.end(), 0.0),
          static_cast<double>(steps));
  row.first_visit_step_seconds =
      Per(std::accumulate(first.last_step_seconds.begin(), first.last_step_seconds.end(), 0.0),
          static_cast<double>(first.last_step_seconds.size()));
  // Of wire and raw, both counted when a message is encoded: exact at any moment.
  const double raw = 4.0 * static_cast<double>(options.values());
  const auto change = [](std::uint64_t to, std::uint64_t from) {
    return static_cast<double>(to - from);
  };
  row.wire_bytes_forward = raw * Per(change(after.forward_wire, before.forward_wire),
                                     change(after.forward_raw, before.forward_raw));
  row.wire_bytes_backward = raw * Per(change(after.backward_wire, before.backward_wire),
                                      change(after.backward_raw, before.backward_raw));
  // By the first sample, second visits have begun: what is beyond one pass goes at their price.
  const double crossings =
      static_cast<double>(options.stages - 1) * options.micro_batches * options.epoch_steps;
  const double beyond = std::max(0.0, static_cast<double>(first.forward_raw) / raw - crossings);
  row.first_visit_wire_bytes_forward =
      Per(static_cast<double>(first.forward_wire) - beyond * row.wire_bytes_forward, crossings);
  row.link_overhead = Per(change(after.link_wire, before.link_wire),
                          change(after.forward_wire, before.forward_wire) +
                              change(after.backward_wire, before.backward_wire)) -
                      1;
  const double wall = after.time_s - before.time_s;
  const double peers_ms = 1e3 * wall * options.stages;
  for (const auto& [use, ms] : after.time) {
    const auto earlier = before.time.find(use);
    row.time[use] = Per(ms - (earlier == before.time.end() ? 0 : earlier->second), peers_ms);
  }
  row.stall_rate = Per(after.stall_rate - before.stall_rate, peers_ms);
  row.stall_network = Per(after.stall_network - before.stall_network, peers_ms);
  const double micro_batches = Per(wall, row.step_seconds) * options.micro_batches;
  const auto cpu = [&](double CpuParts::*part) {
    return Per(after.cpu.*part - before.cpu.*part, micro_batches);
  };
  row.cpu = {cpu(&CpuParts::values),  cpu(&CpuParts::codec),   cpu(&CpuParts::store),
             cpu(&CpuParts::control), cpu(&CpuParts::network), cpu(&CpuParts::compute),
             cpu(&CpuParts::other)};
  row.scheduler_cpu_seconds = Per(after.scheduler_cpu_s - before.scheduler_cpu_s, micro_batches);
  row.delay_cpu_seconds = Per(after.delay_cpu_s - before.delay_cpu_s, micro_batches);
  row.cpu_wait = Per(1e3 * (after.cpu_wait_s - before.cpu_wait_s), peers_ms);
  row.machine_busy = Per(after.machine_busy_s - before.machine_busy_s, wall * cpus);
  const double own =
      (row.cpu.product() + row.cpu.values + row.scheduler_cpu_seconds + row.delay_cpu_seconds) *
      micro_batches / std::max(wall * cpus, 1e-9);
  row.others_busy = std::max(0.0, row.machine_busy - own);
  const double boundaries = micro_batches * std::max(1u, options.stages - 1);
  row.encode_ms = Per(after.encode - before.encode, boundaries);
  row.decode_ms = Per(after.decode - before.decode, boundaries);
  row.store_ms = Per(after.store - before.store, boundaries);
  row.in_flight = after.in_flight;
  row.relative_delta = after.relative_delta;
  row.resends = after.resends - before.resends;
  row.mismatches = after.mismatches;
  // All above is by the clock of the machine.
  row.step_seconds /= options.dilation;
  row.first_visit_step_seconds /= options.dilation;
  const double rows = static_cast<double>(options.micro_batches) * options.rows;
  row.sequences_per_second = Per(rows, row.step_seconds);
  return row;
}

std::string FormatBenchTable(const BenchReport& report) {
  std::vector<std::vector<std::string>> rows = {{Bold("link"), "schedule", "forward / backward",
                                                 "seq/s", "of raw", "bound", "of bound", "of line",
                                                 "fw bytes", "bw bytes", "wait in/grad/own/step",
                                                 "stall rate/net", "CPU s", "first visits"}};
  for (const BenchRow& row : report.rows) {
    const bool bound = row.bound_sequences_per_second > 0;
    rows.push_back({FormatRate(row.bench_case.link), row.bench_case.schedule,
                    CodecLabel(row.bench_case.codecs), Decimal("%.2f", row.sequences_per_second),
                    Decimal("%.3f", report.Fraction(row)),
                    bound ? Decimal("%.2f", row.bound_sequences_per_second) : "",
                    bound ? Decimal("%.1f%%", 100 * row.of_bound()) : "",
                    bound ? Decimal("%.1f%%", 100 * row.of_line_bound()) : "",
                    Bytes(row.wire_bytes_forward), Bytes(row.wire_bytes_backward),
                    Percent(row.Time({"wait_input"})) + " / " +
                        Percent(row.Time({"wait_gradient"})) + " / " +
                        Percent(row.Time({"wait_codec", "wait_store"})) + " / " +
                        Percent(row.Time({"wait_step", "exchange"})),
                    Percent(row.stall_rate) + " / " + Percent(row.stall_network),
                    Decimal("%.3f", row.cpu.product()),
                    Bytes(row.first_visit_wire_bytes_forward) + " in " +
                        Decimal("%.1f s", row.first_visit_step_seconds)});
  }
  const BenchOptions& o = report.options;
  std::string text = FormatTable(rows);
  text += "\n" + std::to_string(o.stages) + " stages, " + std::to_string(o.micro_batches) +
          " micro-batches of " + std::to_string(o.rows) + " x " + std::to_string(o.tokens) + " x " +
          std::to_string(o.hidden) + " values, " + Decimal("%g", o.forward_ms) + " + " +
          Decimal("%g", o.backward_ms) + " ms (of these " + Decimal("%g", o.weight_ms) +
          " ms for the weights, in " + std::to_string(o.weight_parts) + " parts)\n";
  if (o.dilation > 1) {
    text += "in slow motion, " + Decimal("%g", o.dilation) +
            " times: each peer has as much of this machine as of " +
            Decimal("%.2g cores", report.cores_per_peer()) +
            "; times and rates are converted back, CPU s are not\n";
  }
  text += "raw, unlimited: " + Decimal("%.3f seq/s", report.reference_sequences_per_second) +
          (report.reference_simulated
               ? " (simulated 1f1b: raw messages would measure the cores of this machine)\n"
               : " (measured)\n");
  text +=
      "bound: simulated from the payload; of line: of the same with the line's headers; bytes: "
      "payload per micro-batch and boundary; CPU s: per micro-batch, all peers and "
      "boundaries, without making the synthetic values; waits for an input, a gradient, the own "
      "codec and store, the step's end, and stalls of links: part of the time\n";
  return text + Warnings(report);
}

std::string FormatBenchJson(const BenchReport& report) {
  const BenchOptions& o = report.options;
  Json json = {{"schemaVersion", 1},
               {"machine",
                {{"cpus", report.cpus},
                 {"cpu", report.cpu_model},
                 {"kernel", report.kernel},
                 {"coresPerPeer", report.cores_per_peer()}}},
               {"dilation", o.dilation},
               {"shape",
                {{"stages", o.stages},
                 {"microBatches", o.micro_batches},
                 {"rows", o.rows},
                 {"tokens", o.tokens},
                 {"hidden", o.hidden},
                 {"forwardMs", o.forward_ms},
                 {"backwardMs", o.backward_ms},
                 {"weightMs", o.weight_ms},
                 {"weightParts", o.weight_parts},
                 {"epochSteps", o.epoch_steps},
                 {"warmupSteps", o.warmup},
                 {"steps", o.steps},
                 {"change", o.change},
                 {"changeDecay", o.change_decay}}},
               {"unlimitedRaw",
                {{"sequencesPerSecond", report.reference_sequences_per_second},
                 {"simulated", report.reference_simulated}}},
               {"complete", report.complete},
               {"rows", Json::array()}};
  for (const BenchRow& row : report.rows) json["rows"].push_back(RowJson(report, row));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shoal::bench
