// Exchange: the members of a stage group agree on the (weighted) sum of their vectors. Every member
// gets the same bits.
//
// Transaction: a round reads error memories as of the last Commit (or of the rounds since) and
// stages new ones. Commit keeps the memories of all finished rounds, Rollback drops them. A round
// that failed or was aborted leaves nothing. Random numbers depend on (seed, round, member, shard,
// chunk) alone, and inputs are never written. So a retry in a new round gives the result of a first
// attempt. The retry may have fewer members: one with weight 0, or a smaller channel.
//
// Error memories are fp32 and keyed by tensor. What this member sends needs one value per value of
// the vector; what it answers, one per value of its own shard. They are the member's own: where
// members or shares differ from those of its last round, what it has not sent and not answered
// becomes part of what it contributes, so that results lack no more than before. What a member has
// that only listens waits. Another number of values starts with memories of zero. Tensors whose
// rounds have different flows need different numbers.

#ifndef SHOAL_REPLICA_COLLECTIVE_EXCHANGE_H_
#define SHOAL_REPLICA_COLLECTIVE_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/memory/buffer.h"
#include "common/status.h"
#include "compression/api/codec.h"
#include "compression/api/value_home.h"
#include "replica/collective/group_channel.h"

namespace shoal::collective {

enum class Combine : std::uint8_t {
  kSum = 0,           // for what is a sum over labels already: gradients
  kWeightedMean = 1,  // sum of weight / all weights x values: momenta, parameters
};

enum class CollectiveOp : std::uint8_t {
  kAllReduce = 0,  // everybody contributes to all shards and gets all: the sum of all
  kAllGather = 1,  // nobody contributes: an owner's own values of its shard count, and everybody
                   // gets all
  kReduceScatter =
      2,  // everybody contributes to all shards, and gets the sum of its own only, exact
};

// What an owner does to `values`, which begin at `first` of the vector, before they are encoded.
// Runs on `compute`, chunk by chunk, in any order and several at once on a pool. A round that ends
// well runs it on each value of the own shard exactly once, another round at most once. What it
// changes beside `values` is its owner's to keep apart until the round counts. It may run, or be
// kept, until `compute` is done with what was posted, also after Abort and destruction. An error
// ends the round.
using Transform = std::function<Status(std::size_t first, std::span<float> values)>;

// Equal on all members, but for `values` and what `transform` does.
struct ExchangeRequest {
  std::uint64_t round = 0;   // grows with every Start, whatever the tensor
  std::uint32_t tensor = 0;  // names the vector over the rounds, for its error memories
  // By member; token counts, say. A member of weight 0 only listens: it sends nothing, owns no
  // shard, and gets the result. At least one is not 0; their sum fits 64 bits.
  std::vector<std::uint64_t> weights;
  Combine combine = Combine::kSum;
  // fp32, as many on all members; kept, never written. Null only in an all-gather with a transform,
  // which is then given zeros, of a vector of `count` values.
  std::shared_ptr<const Buffer> values = nullptr;
  std::size_t count = 0;
  CollectiveOp op = CollectiveOp::kAllReduce;
  // Null, on all members or none: the sum as it is. With a transform and kAllReduce a round is a
  // step of a sharded optimizer: gradients go in, and the owners' new parameters come back.
  Transform transform = nullptr;
  bool exact = false;  // powersgd: no factors in this round, the same on all members
  // All contribute gradients by the same weights: one that is not finite, or far larger than the
  // own one, is refused, and so is such an answer (contribution_check.h).
  bool alike = false;
  // In the place of the config's; empty: those. Not with two levels.
  std::vector<double> shares = {};
  // Specs in the place of the config's for this round, such as one with levels learned since;
  // empty: the config's. Error memories go on.
  std::string codec = {}, result_codec = {};
};

// Equal on all members.
struct ExchangeConfig {
  // What the contributions and the sums travel as: `raw:dtype=fp32` (exact, whatever the values),
  // `onebit` or `onebit:bucket=N`, or the spec of any codec without memory of its own. Such a codec
  // sees a chunk as rows of `row` values, the last one filled with zeros. Empty result codec: the
  // same.
  std::string codec = compression::kLosslessCodec;
  std::string result_codec;
  // Adds what was not sent before, and keeps what is not sent now: of contributions, and of sums
  // (empty: as for contributions). False for sums that a transform made parameters of.
  bool error_feedback = false;
  std::optional<bool> result_feedback;
  std::uint32_t row = 1024;  // values; shards and chunks begin at multiples of it
  // A message is at most so large, header included, and has at most so many values. Larger ones
  // from several members at once queue before the line of their receiver while other lines idle.
  std::size_t chunk_bytes = 192u << 10;
  std::size_t chunk_values = 1u << 17;
  // Bytes of contributions that a member may have sent and not yet had answered. The window is
  // divided evenly among the owners, four chunks each at least, and must cover the links' delay.
  // All shards advance in step, as fractions of their size: none runs further ahead of the slowest
  // owner than its part of the window. A larger window lets one link fall behind the others, which
  // then idle at the end. With 16 MiB to each of 3 or 7 owners an exchange took 5 % longer.
  std::size_t window_bytes = 4u << 20;
  // Keeps the memory that a Commit replaces, and that of Recycle, for the next round. Otherwise it
  // returns to the system, and clearing new pages takes most of the CPU time of large vectors. The
  // price is as many bytes as the vector between rounds.
  bool reuse_memory = false;
  // Where values, results and error memories lie. Rounds on a device have no transform, and nothing
  // of them counts in part.
  std::shared_ptr<const compression::ValueHome> home = compression::HostValues();
  // Share of the reduction that each member owns, relative to each other (shares.h), >= 0; empty:
  // equal ones.
  std::vector<double> shares;
  std::uint64_t seed = 0;   // of the run
  std::uint64_t epoch = 0;  // of the membership: the plan's generation
  std::string label;        // what else must be equal on all members, compared by checksum
  // Bytes of messages of later rounds that are held per member; more is an error. A member can be
  // ahead by one round as long as each round waits for all: twice the vector's fp32 bytes suffice.
  std::size_t early_bytes_max = 64u << 20;
};

// Of the running or the last round; headers included.
struct ExchangeTraffic {
  std::uint64_t sent_bytes = 0, received_bytes = 0;
  std::uint64_t sent_messages = 0, received_messages = 0;
};

struct ErrorMemory;
struct PowerSgdState;

// What an exchange of a vector leaves for the next one of the same, in another group; internal to
// collective/. Thread: one at a time.
struct KeptErrors {
  std::map<std::uint32_t, std::shared_ptr<ErrorMemory>> memories = {};  // by tensor
  std::shared_ptr<std::vector<PowerSgdState>> residuals = nullptr;
  bool on_host = true;  // all of it
};

// Thread: control; coding and summing happen on `compute`.
class Exchange {
 public:
  virtual ~Exchange() = default;  // a running round ends without its callback

  // One round at a time. `done` runs in a task of its own on control. It gets the agreed vector
  // (kReduceScatter: the own shard), or why there is none: a wrong message, of which the channel
  // has heard whose it is (Blame); values that are not finite; an abort.
  virtual void Start(ExchangeRequest request, std::function<void(Result<Buffer>)> done) = 0;
  // Ends the round, if any: `done` gets an aborted status, late messages are dropped.
  virtual void Abort() = 0;

  // The finished rounds since the last Commit or Rollback count, or never were. No round may run
  // during Commit; Rollback aborts it.
  virtual void Commit() = 0;
  virtual void Rollback() = 0;

  // The error memories as of the last Commit, and the end of this exchange. And those of an earlier
  // one, before the first round: of the same vector, with the same unit of what was not sent.
  virtual KeptErrors TakeErrors() { return {}; }
  virtual void Adopt(KeptErrors kept) { static_cast<void>(kept); }

  // Where its values and results lie. Thread: any.
  virtual const compression::ValueHome& home() const { return *compression::HostValues(); }

  // Memory of a result that is not needed any more.
  virtual void Recycle(Buffer result) { static_cast<void>(result); }

  // Values of the factors that travel in the vector's place; 0: it always travels itself.
  virtual std::uint64_t FactorValues() const { return 0; }

  // Members whose messages the running round waits for, in rank order; none while it has work of
  // its own to do.
  virtual std::vector<std::size_t> Awaited() const = 0;
  virtual ExchangeTraffic traffic() const = 0;
};

// The factors by which a round may count. Above 1, memories move further than the round moved them,
// and their errors grow. The least factor is far above the smallest fp32 number.
inline constexpr double kBlendLeast = 0x1p-64, kBlendMost = 1.25;
inline bool MayBlend(double factor) { return factor >= kBlendLeast && factor <= kBlendMost; }

// An exchange whose rounds may count in part. All that follows the coding is linear. So a user may
// take base + factor x (result - base) as the agreed vector, with the same `base` on all members.
// The sum of all agreed vectors is then still the sum of the targets less the memories.
class BlendingExchange : public Exchange {
 public:
  using Exchange::Commit;
  // Commits memories on a part of the way: before + factor x (after - before). Before: at the last
  // Commit; after: as the rounds since then left them. All members give the same factor; 1 is
  // Commit. `done` comes in a task of its own, and nothing else may be called before it. An error,
  // for a factor that is out of bounds, leaves things as they were.
  virtual void CommitPart(double factor, std::function<void(Status)> done) = 0;
};

// Two latencies: everybody sends each owner its shard, owners send sums to everybody (direct
// reduce-scatter and all-gather), chunk by chunk. Who owns what: Shards (shard_layout.h). Channel
// and executors outlive it, `control` also what was posted to `compute`. An unknown codec, or one
// with a memory of its own, is an error.
Result<std::unique_ptr<Exchange>> NewDirectExchange(const ExchangeConfig& config,
                                                    GroupChannel* channel, Executor* control,
                                                    Executor* compute);
Result<std::unique_ptr<BlendingExchange>> NewBlendingExchange(const ExchangeConfig& config,
                                                              GroupChannel* channel,
                                                              Executor* control, Executor* compute);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_EXCHANGE_H_
