// What the end of a step is told, and what the replica exchange reports.

#ifndef SHOAL_REPLICA_STEP_TYPES_H_
#define SHOAL_REPLICA_STEP_TYPES_H_

#include <atomic>
#include <cstdint>
#include <vector>

namespace shoal::replica {

// Whether a gradient of the running step is lost. One that is not finite must reach no codec and no
// error memory: zeros go in its place, so that everybody ends the step's exchanges, and the mark
// makes all of them skip the step. Thread: any.
class GradientMark {
 public:
  void Set() { lost_.store(true); }
  void Clear() { lost_.store(false); }
  bool lost() const { return lost_.load(); }

 private:
  std::atomic<bool> lost_{false};
};

// A gradient with a larger magnitude counts as not finite, too: sums of those of all pipelines, and
// what codecs and factors make of them, stay far below the largest fp32 number.
inline constexpr float kGradientMost = 0x1p90F;

struct ReduceOrder {
  std::uint64_t step = 0;
  std::vector<std::uint32_t> pipelines;  // that count, each once
  std::uint64_t labels = 0;              // of theirs
  double learning_rate = 0;
  // By pipeline: norm of its gradient of the token mean; empty unless the method asks for it.
  std::vector<double> local_norms = {};
  std::vector<std::uint64_t> local_labels = {};  // by pipeline
  bool checkpoint = false;                       // the stage is saved after this step
  bool sync = true;  // with local steps: the group agrees on parameters; else without a meaning
  std::vector<std::uint32_t> exact_stages = {};  // exchange exactly, whatever the method
};

struct ApplyOrder {
  std::uint64_t step = 0;
  double global_norm = 0;  // of the gradient of the token mean
  double learning_rate = 0;
  std::uint64_t labels = 0;  // over the global batch
  bool skip = false;         // a gradient was lost: nothing of the step is applied
};

// Raw and wire bytes of payloads, for status and metrics.
struct KindBytes {
  std::uint64_t raw_sent = 0, wire_sent = 0;  // raw: as fp32; wire: after the codec
  std::uint64_t raw_received = 0, wire_received = 0;
};

// How long a stage group took to add up its own parameters' gradients exactly, and what another
// way would send; zeros if it did not.
struct ExactExchange {
  double ms = 0;
  std::uint64_t values = 0, factor_values = 0;
};

struct ReplicaStats {
  KindBytes replica;
  ExactExchange exchange;         // of the last step
  std::uint64_t shard_bytes = 0;  // weights and moments that the replica method holds
  // Weights and gradients that the model holds now, and held at most, if it does so by units.
  std::uint64_t unit_bytes = 0, unit_peak_bytes = 0;
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_STEP_TYPES_H_
