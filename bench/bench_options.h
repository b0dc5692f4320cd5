// What `shoal-bench pipeline` is asked to measure, read from its command line and checked.

#ifndef SHOAL_BENCH_BENCH_OPTIONS_H_
#define SHOAL_BENCH_BENCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/units.h"

namespace shoal::bench {

// Codec specs as run.toml takes them.
struct CodecPair {
  std::string forward, backward;
  bool operator==(const CodecPair&) const = default;
};

// As typed.
struct BenchArguments {
  std::uint32_t stages = 8, micro_batches = 32;
  std::string shape = "1x1024x1600";
  double forward_ms = 45, backward_ms = 135, weight_ms = -1;  // negative: half of the backward
  std::uint32_t weight_parts = 6;
  std::string links = "10gbit,1gbit,500mbit,300mbit,100mbit,50mbit";
  std::string codecs =
      "raw/raw,aqsgd:delta=dithered:step=0.6/klt=64/channels=on/"
      "dithered:step=0.4,klt=64,channels=on";
  std::string schedules = "1f1b,zero-bubble";
  std::string rtt = "0ms";
  std::string step_limit;
  std::uint32_t epoch_steps = 3, warmup = 4, steps = 2, in_flight = 0;
  double change = 0.1, change_decay = 0.9;
  double dilation = 1;
  bool no_reference = false, no_namespaces = false, json = false, keep = false;
  std::string plot, trace, directory;
};

struct BenchOptions {
  std::uint32_t stages = 0, micro_batches = 0;
  std::uint32_t rows = 0, tokens = 0, hidden = 0;  // of a micro-batch
  double forward_ms = 0, backward_ms = 0, weight_ms = 0;
  std::uint32_t weight_parts = 1;    // in which a stage computes the weights' gradients
  std::vector<BitsPerSecond> links;  // 0: unlimited
  std::vector<CodecPair> codecs;
  std::vector<std::string> schedules;
  Duration rtt{};  // between any two machines, added to the links
  // Steps until every sample was visited once; these are the first visits. With one, each step
  // would wait for the step before it to be stored, which data of any size does not make it do.
  std::uint32_t epoch_steps = 0;
  // Steps before the measured ones: the first visits, then what the choice of micro-batches in
  // flight needs to see.
  std::uint32_t warmup = 0, steps = 0;
  // A row fails when no step ended for so long; zero: what follows from the simulated step.
  Duration step_limit{};
  std::uint32_t in_flight = 0;  // per stage; 0: the peers choose
  double change = 0, change_decay = 0;
  // By how much longer the machine takes for everything, 1 and more: see Slowed.
  double dilation = 1;
  bool reference = true;   // measure raw activations on unlimited links, too
  bool namespaces = true;  // one per peer where the machine allows it
  bool json = false, keep = false;
  std::string plot, trace;  // files to write, or empty
  std::string directory;    // where the swarms live; empty: a temporary folder

  std::uint64_t values() const { return std::uint64_t{rows} * tokens * hidden; }
};

// Errors name the option and what it takes.
Result<BenchOptions> ReadBenchOptions(const BenchArguments& arguments);

// Time dilation (Gupta et al., "To Infinity and Beyond: Time-Warped Network Emulation", NSDI 2006,
// section 2). Compute times and round trips become `dilation` times longer, and lines carry as much
// less. To the slowed swarm the machine's processors look `dilation` times as fast. Steps and
// statuses use the machine's clock; divide their times by `dilation` to compare them with these
// options.
BenchOptions Slowed(const BenchOptions& options);
BitsPerSecond Slowed(BitsPerSecond rate, double dilation);  // 0 stays: unlimited

// "FORWARD/BACKWARD" pairs, separated by commas or semicolons. A comma or slash belongs to a spec
// where key=value follows it, else it ends the spec. "raw" is raw:dtype=fp32. An entropy coder may
// stand at the end: aqsgd:bits=2+zstd is aqsgd+zstd:bits=2.
Result<std::vector<CodecPair>> ParseCodecPairs(const std::string& text);

}  // namespace shoal::bench

#endif  // SHOAL_BENCH_BENCH_OPTIONS_H_
