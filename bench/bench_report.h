// What a bench of the pipeline found: rows, and how they are shown. Pure.

#ifndef SHOAL_BENCH_BENCH_REPORT_H_
#define SHOAL_BENCH_BENCH_REPORT_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "bench/bench_options.h"
#include "bench/bench_swarm.h"

namespace shoal::bench {

// One case, measured over some steps.
struct BenchRow {
  BenchCase bench_case;
  double rtt_ms = 0;           // added to the links; 0: none
  const char* shaped_by = "";  // "tbf", "caps" or "none"
  double step_seconds = 0;
  double first_visit_step_seconds = 0;
  double sequences_per_second = 0;
  double bound_sequences_per_second = 0;  // simulated; 0: not known
  // The same with the headers that the line carries, too.
  double line_bound_sequences_per_second = 0;
  // Payload per micro-batch and boundary, in the measured steps and where samples came first.
  double wire_bytes_forward = 0, wire_bytes_backward = 0, first_visit_wire_bytes_forward = 0;
  double link_overhead = 0;  // bytes on the links over payload, minus 1
  // Averaged over peers: parts of the time by use, as the peers' status names them, and of links
  // that had something to send.
  std::map<std::string, double> time;
  double stall_rate = 0, stall_network = 0;
  CpuParts cpu;                      // seconds per micro-batch, all peers
  double scheduler_cpu_seconds = 0;  // per micro-batch
  double delay_cpu_seconds = 0;      // per micro-batch: what adds the round trip to the links
  double cpu_wait = 0;               // threads of a peer waiting for a core, as a part of the time
  double machine_busy = 0;           // part of all cores, 0 .. 1
  double others_busy = 0;            // of these, what did not belong to the swarm
  double encode_ms = 0, decode_ms = 0, store_ms = 0;  // wall time per micro-batch and boundary
  std::vector<std::uint32_t> in_flight;               // by stage
  double relative_delta = 0;
  std::uint64_t resends = 0, mismatches = 0;

  // Reached of each bound, 1: all; 0: the bound is not known.
  double of_bound() const;
  double of_line_bound() const;
  // The part of these uses together.
  double Time(std::initializer_list<const char*> uses) const;
  // Whether the cores, not the links, set the pace.
  bool cpu_limited() const;
};

struct BenchReport {
  BenchOptions options;
  std::string cpu_model, kernel;
  int cpus = 0;
  double reference_sequences_per_second = 0;  // raw activations, unlimited links
  bool reference_simulated = false;
  std::vector<BenchRow> rows;
  bool complete = false;  // all rows that were asked for

  // What each peer has of the machine, in cores; dilation makes it more.
  double cores_per_peer() const { return cpus * options.dilation / options.stages; }
  // Whether both ends of each boundary had the same m in all rows.
  bool consistent() const;
  double Fraction(const BenchRow& row) const {
    return reference_sequences_per_second > 0
               ? row.sequences_per_second / reference_sequences_per_second
               : 0;
  }
};

// The row between two samples. `applied` steps lie between them.
BenchRow MakeBenchRow(const BenchOptions& options, const BenchCase& bench_case,
                      const BenchSample& first, const BenchSample& before, const BenchSample& after,
                      int cpus);

std::string FormatBenchTable(const BenchReport& report);
// One line, schemaVersion first.
std::string FormatBenchJson(const BenchReport& report);
// The part of the raw run's pace against the link rate: a line per codecs and schedule, its bound
// dashed.
std::string FormatBenchPlot(const BenchReport& report);

// "aqsgd+rans:bits=3 / direct:bits=6": without what is about first visits.
std::string CodecLabel(const CodecPair& codecs);

}  // namespace shoal::bench

#endif  // SHOAL_BENCH_BENCH_REPORT_H_
