// What the replica bench compares: ways of a group to agree on one vector, as rounds of one kind.

#ifndef SHOAL_TESTS_BENCH_REPLICA_METHODS_H_
#define SHOAL_TESTS_BENCH_REPLICA_METHODS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/memory/buffer.h"
#include "common/status.h"
#include "replica/collective/group_channel.h"

namespace shoal::bench {

// Equal on all members, but for `values`.
struct ReplicaBenchOptions {
  std::string kind;          // direct, marsit or powersgd
  std::string codec;         // direct: of contributions
  std::string result_codec;  // direct: of sums; empty: the same
  bool feedback = false;     // direct
  bool owners_keep = false;  // direct: a reduce-scatter, then an all-gather of those sums
  bool mean = false;         // direct, ring: the weighted mean in place of the sum
  std::size_t columns = 0;   // marsit: of a torus; 0: a ring
  std::uint32_t rank = 32;   // powersgd: of the factors of matrices of 2048 columns
  std::optional<std::size_t> chunk_bytes, chunk_values, window_bytes;  // direct; else its defaults
  std::shared_ptr<const Buffer> values;                                // fp32
  std::string step;  // a replica method: rounds are its steps; empty: only exchanges
};

// The agreed vector, in one piece or several.
using ReplicaBenchResult = std::vector<Buffer>;

// Thread: control.
class ReplicaBenchMethod {
 public:
  virtual ~ReplicaBenchMethod() = default;
  using Done = std::function<void(Result<ReplicaBenchResult>)>;
  // A round and its commit; `round` grows from 1. One at a time.
  virtual void Round(std::uint64_t round, Done done) = 0;
  // What all members have in common now, for rounds that give no result.
  virtual ReplicaBenchResult Agreed() { return {}; }
  virtual void Recycle(ReplicaBenchResult result) { static_cast<void>(result); }
};

// Channel and executors outlive what is returned, `control` also what was posted to `compute`.
Result<std::unique_ptr<ReplicaBenchMethod>> NewReplicaBenchMethod(
    const ReplicaBenchOptions& options, collective::GroupChannel* channel, Executor* control,
    Executor* compute);

// Steps of `options.step` on a stage of these tensors (replica_steps.cc). `codec`: beside the
// thread of the stage's model.
Result<std::unique_ptr<ReplicaBenchMethod>> NewStepRounds(
    const ReplicaBenchOptions& options, const std::vector<std::vector<std::size_t>>& tensors,
    collective::GroupChannel* channel, Executor* control, Executor* codec);

}  // namespace shoal::bench

#endif  // SHOAL_TESTS_BENCH_REPLICA_METHODS_H_
