// ErrorMemories: what a member of a stage group did not send yet, by tensor, as a transaction.
//
// Internal to collective/. Thread: the owner's; a memory that was handed out never changes.

#ifndef SHOAL_REPLICA_COLLECTIVE_ERROR_MEMORIES_H_
#define SHOAL_REPLICA_COLLECTIVE_ERROR_MEMORIES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "compression/api/value_home.h"
#include "replica/collective/shard_layout.h"

namespace shoal::collective {

// Where a member stands in the rounds of a vector.
struct MemoryPlace {
  MemoryPlace() = default;
  MemoryPlace(const ShardLayout& of, std::size_t rank, float counts = 1)
      : layout(of), own(of.shard(rank)), part(counts) {}
  bool operator==(const MemoryPlace&) const = default;

  ShardLayout layout;
  ValueRange own;  // shard
  float part = 1;  // that a contribution counts in the result; above 0
};

// What a round leaves; its chunks are written by different tasks.
struct ErrorMemory {
  // Nothing, which stands for zeros.
  explicit ErrorMemory(const MemoryPlace& at) : place(at) {}
  // With uninitialised memory of `home` where there are errors to come.
  static Result<std::shared_ptr<ErrorMemory>> New(const compression::ValueHome& home,
                                                  const MemoryPlace& at, bool worker_errs,
                                                  bool server_errs);
  bool empty() const { return worker.empty() && server.empty(); }

  MemoryPlace place;
  Buffer worker;      // of contributions: fp32, all values of the vector
  Buffer server;      // of sums: fp32, values of the own shard
  bool read = false;  // perhaps still by a task of a round that failed: not to be written again
};

// The part of `memory` (may be null) for a chunk of a round at `place`: empty if it is nothing,
// that is, zeros. A memory of another place goes on as errors of contributions alone. What the
// result lacks by it is the same: part x worker, and server where the own shard was. `folded` holds
// it then.
Result<std::span<const float>> WorkerError(const compression::ValueHome& home,
                                           const ErrorMemory* memory, const MemoryPlace& place,
                                           ValueRange chunk, Buffer* folded);
std::span<const float> ServerError(const ErrorMemory* memory, const MemoryPlace& place,
                                   ValueRange chunk);
// The same to write to.
std::span<float> WorkerError(ErrorMemory* memory, ValueRange chunk);
std::span<float> ServerError(ErrorMemory* memory, ValueRange chunk);

// The way from what counts to what a round left, of which a part is to be gone.
struct MemoryStep {
  std::shared_ptr<const ErrorMemory> before, after;  // before: may be null
  std::shared_ptr<ErrorMemory> result;               // may be `after`
};

// result = before + factor x (after - before), value by value, at the place of `after`. Thread:
// any; nobody else uses `result` meanwhile. Memories of the host only.
Status Blend(const MemoryStep& step, float factor);

class ErrorMemories {
 public:
  // `reuse`: keeps the memory that a Commit replaces, for Fresh. `home`: where memories lie.
  explicit ErrorMemories(
      bool reuse, std::shared_ptr<const compression::ValueHome> home = compression::HostValues())
      : reuse_(reuse), home_(std::move(home)) {}

  // What a round of so many values builds on, of this or another place; null: zeros.
  std::shared_ptr<const ErrorMemory> Find(std::uint32_t tensor, std::size_t values) const;
  // A memory for a round to write; arguments as ErrorMemory's.
  Result<std::shared_ptr<ErrorMemory>> Fresh(std::uint32_t tensor, const MemoryPlace& place,
                                             bool worker_errs, bool server_errs);
  // What a finished round leaves.
  void Put(std::uint32_t tensor, std::shared_ptr<ErrorMemory> memory);
  // A round that built on the tensor's memory failed: its tasks may go on reading it.
  void MarkRead(std::uint32_t tensor);
  // The ways of all that was put since the last Commit or Rollback; their results, which are not
  // written yet, count with the next Commit in its place.
  Result<std::vector<MemoryStep>> Steps();
  // What was put since the last of these two counts from now on, or is dropped.
  void Commit();
  void Rollback();

  bool empty() const { return committed_.empty() && put_.empty(); }

  using ByTensor = std::map<std::uint32_t, std::shared_ptr<ErrorMemory>>;
  // What counts, for the memories of another exchange; nothing is left here.
  ByTensor Take();
  void Adopt(ByTensor kept) { committed_ = std::move(kept); }

 private:
  const bool reuse_;
  const std::shared_ptr<const compression::ValueHome> home_;
  ByTensor committed_, put_, spare_;
};

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_ERROR_MEMORIES_H_
