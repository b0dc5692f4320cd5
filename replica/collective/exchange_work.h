// The steps of an exchange that work on values: encode a contribution, sum a chunk, decode a
// result.
//
// Pure but for what they return and the result's values. Internal to collective/. Thread: any; the
// steps of a round may run at once, each touches its own chunk.

#ifndef SHOAL_REPLICA_COLLECTIVE_EXCHANGE_WORK_H_
#define SHOAL_REPLICA_COLLECTIVE_EXCHANGE_WORK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "replica/collective/chunk_coder.h"
#include "replica/collective/contribution_check.h"
#include "replica/collective/error_memories.h"
#include "replica/collective/exchange.h"
#include "replica/collective/exchange_message.h"
#include "replica/collective/shard_layout.h"

namespace shoal::collective {

// What a round is; constant while it runs, and the same on all members but for `rank`.
struct RoundPlan {
  std::size_t rank = 0;  // own
  ShardLayout layout;
  std::shared_ptr<const ChunkCoder> contribution_coder, result_coder;  // of one home
  std::uint64_t method = 0, round = 0, epoch = 0, seed = 0;
  std::uint32_t tensor = 0;
  Combine combine = Combine::kSum;
  CollectiveOp op = CollectiveOp::kAllReduce;
  Transform transform;  // may be null
  // Of contributions to the own shard, and of others' sums; null: they may be anything.
  std::shared_ptr<const ContributionCheck> check;
  std::vector<std::uint64_t> weights;  // by member
  std::uint64_t weight = 0;            // of all

  // Where all values lie that are not in messages.
  const compression::ValueHome& home() const { return contribution_coder->home(); }
  // The values that the round gives.
  ValueRange Wanted() const {
    return op == CollectiveOp::kReduceScatter ? layout.shard(rank) : ValueRange{0, layout.values()};
  }
};

// That a contribution of this member counts in the result.
float OwnPart(const RoundPlan& plan);

// The header of the message that `from` sends about a chunk of `owner`'s shard.
MessageHeader HeaderOf(const RoundPlan& plan, Phase phase, std::size_t from, std::size_t owner,
                       std::size_t chunk);
// Most bytes of that message.
std::size_t MessageBytesMax(const RoundPlan& plan, const MessageHeader& header);

struct Coded {
  Status status;
  Buffer message = {};
  std::optional<std::size_t> by = {};  // the member whose message the error is about
};

// What was not sent of a chunk. `before`: so far; empty: nothing. `next` gets the rest from now on;
// empty: nothing is kept, for the coder is exact or there is no feedback. They do not overlap.
struct ChunkErrors {
  std::span<const float> before;
  std::span<float> next;
};

// WorkerError of the round, but nothing where it is of another place and far larger than the own
// vector may be (ContributionCheck::MayAdd).
Result<std::span<const float>> ErrorsBefore(const RoundPlan& plan, const ErrorMemory* memory,
                                            const MemoryPlace& place, ValueRange chunk,
                                            Buffer* folded);
// Own values (all of the vector) of one chunk, plus errors.before, to its owner.
Coded EncodeContribution(const RoundPlan& plan, std::size_t owner, std::size_t chunk,
                         std::span<const float> values, ChunkErrors errors);
// Makes the values of a chunk of the own shard, transforms them, and codes them as the answer. The
// values are the sum of the decoded `contributions`, by member in rank order; in an all-gather, own
// `values` (all of the vector; empty: zeros). The headers of contributions are checked; those of
// members of weight 0 are not used. `result` gets these values plus errors.before as the message
// decodes them. In a reduce-scatter it gets the values as they are, and the message is empty.
// `result` has the values plan.Wanted().
Coded SumChunk(const RoundPlan& plan, std::size_t chunk, std::span<const Buffer> contributions,
               std::span<const float> values, ChunkErrors errors, std::span<float> result);
// Puts what `owner` sent (a message whose header is checked) into `result`; nothing in a
// reduce-scatter.
Status DecodeResult(const RoundPlan& plan, std::size_t owner, std::size_t chunk,
                    const Buffer& message, std::span<float> result);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_EXCHANGE_WORK_H_
