// MarsitExchange: a member's Marsit memory of one vector and its rounds over a ring or torus.
//
// The vectors of a stage (its buckets, say) have a MarsitExchange each and share a RingReduce.
// Their rounds run one after the other, in the same order on all members.
//
// A round is a transaction: Start, then the update comes, then Commit or Rollback. Until Commit the
// memory (c and the count towards the next exact round) is that of before; an abort or an error at
// any message is a rollback. Draws are by counter (round), so there is no random state.
// An exact round that fails is due again: the next round is exact, too.
// Membership: c belongs to a member. When the members of a group change, RequestExact() on all of
// them before the next round; counts need not be compared then. A member that leaves should take
// part in one exact round first, or what its c holds is lost.
// Thread: control; the work on values is the ring's, chunk by chunk.

#ifndef SHOAL_REPLICA_COLLECTIVE_RING_MARSIT_EXCHANGE_H_
#define SHOAL_REPLICA_COLLECTIVE_RING_MARSIT_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "common/executor.h"
#include "common/memory/buffer.h"
#include "common/status.h"
#include "replica/collective/ring/marsit.h"
#include "replica/collective/ring/ring_reduce.h"

namespace shoal::collective {

class MarsitExchange {
 public:
  virtual ~MarsitExchange() = default;  // a running round ends without its callback

  // Begins a round. `input`, n fp32 values, is only read. It may be null if this member is not
  // among `contributors` (bit r: member r). `done` gets the update, never from inside Start: n fp32
  // values to subtract from the parameters, the same bits on all members. After an error nothing
  // has changed. `round` grows with every Start on the same ring, also after a failure. Arguments
  // other than `input` are equal on all members, and so is NextIsExact().
  virtual void Start(std::uint64_t round, std::uint64_t contributors, const MarsitRates& rates,
                     std::shared_ptr<const Buffer> input,
                     std::function<void(Result<Buffer>)> done) = 0;
  // Ends the round after its update came: the memory moves on, or stays as it was. A running round,
  // or none, is left alone.
  virtual void Commit() = 0;
  virtual void Rollback() = 0;
  // Ends a running round (its callback gets an aborted status) or rolls back one that is not
  // committed.
  virtual void Abort() = 0;
  // Memory of an update that is not needed any more.
  virtual void Recycle(Buffer update) = 0;

  virtual bool NextIsExact() const = 0;
  virtual void RequestExact() = 0;  // the next round is exact; kept until one is committed

  // The memory, for checkpoints: c, and the one-bit rounds since the last exact one.
  virtual std::span<const float> compensation() const = 0;
  virtual std::uint64_t one_bit_rounds() const = 0;
  // c, and the end of this exchange.
  virtual std::shared_ptr<const Buffer> TakeCompensation() = 0;
  // Puts a memory back; between rounds. An error (wrong size, not finite) changes nothing.
  virtual Status Restore(Buffer compensation, std::uint64_t one_bit_rounds) = 0;
};

// A member of `ring`'s group with c = 0, whose first round is exact. `values`: n. `options.seed`
// differs between vectors that share a ring. The ring and `control` outlive what is returned.
Result<std::unique_ptr<MarsitExchange>> NewMarsitExchange(const MarsitOptions& options,
                                                          std::size_t values, RingReduce* ring,
                                                          Executor* control);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_RING_MARSIT_EXCHANGE_H_
