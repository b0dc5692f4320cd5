// RingReduce: one vector out of those of all members of a group, by hops around a ring or torus
// (ring_plan.h). It serves members that reach few of the others, and merges that work by hops.
//
// Slices are cut into chunks, each a message: a chunk goes on as soon as it is merged, while the
// next one arrives. What a member does to its values before and after that (RingEnds) is done by
// chunk, too. The finished chunks are sent round verbatim, so all members end with the same
// bits. The order of a sum is that of the hops, fixed by the plan. Latencies: 2 (D-1) in a ring,
// 2 (rows + columns - 2) in a torus, one chunk long each. Bytes sent per member: 2 (D-1)/D of the
// vector and 48 per chunk, to one neighbour in a ring and to two in a torus.
// State: the running operation, its vector and the messages that came early.
// Thread: control; copies, checksums and merges run on `compute`, which may be a pool.

#ifndef SHOAL_REPLICA_COLLECTIVE_RING_RING_REDUCE_H_
#define SHOAL_REPLICA_COLLECTIVE_RING_RING_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/memory/buffer.h"
#include "common/status.h"
#include "replica/collective/group_channel.h"
#include "replica/collective/ring/ring_ends.h"
#include "replica/collective/ring/ring_merge.h"
#include "replica/collective/ring/ring_plan.h"

namespace shoal::collective {

struct RingOptions {
  std::size_t columns = 0;  // of a torus; 0, or one that does not divide the group: a ring
  std::size_t chunk_bytes = 64 << 10;  // payload of a message; at least one element. Equal on all
  std::uint64_t epoch = 0;             // of the membership: the plan's generation
  // What a member may send of rounds that did not start here yet: bytes held per member, each
  // message counted with 256 bytes more. A neighbour can be ahead by nearly a whole vector.
  std::size_t early_bytes_max = std::size_t{512} << 20;
};

// Equal on all members, but for the values of `vector`.
struct RingRequest {
  std::uint64_t round = 0;         // grows with every Start
  std::uint64_t contributors = 0;  // bit r: member r's vector counts; all members receive
  std::string label;  // what else must be equal (name of the vector, rates): compared by checksum
  Buffer vector;      // whole elements of `merge`; with `ends` only as many bytes as they have
  std::shared_ptr<const RingMerge> merge;
  std::shared_ptr<RingEnds> ends = nullptr;  // null: `vector` is ready, and the outcome left alone
};

// Of the running or the last round; headers included.
struct RingTraffic {
  std::uint64_t sent_bytes = 0, received_bytes = 0;
  std::uint64_t sent_messages = 0, received_messages = 0;
};

class RingReduce {
 public:
  virtual ~RingReduce() = default;  // a running operation ends without its callback

  // Merges the members' vectors. `done` gets the outcome or an error (a message that is not of this
  // operation, say), never from inside Start. One operation at a time.
  virtual void Start(RingRequest request, std::function<void(Result<Buffer>)> done) = 0;
  // Ends the operation, if any: its callback gets an aborted status, late messages are dropped.
  virtual void Abort() = 0;
  // Members whose message the running operation waits for, in rank order.
  virtual std::vector<std::size_t> Awaited() const = 0;
  virtual std::size_t rank() const = 0;  // own, of the channel
  virtual RingTraffic traffic() const = 0;
};

// Channel and executors outlive what is returned, `control` also what was posted to `compute`.
std::unique_ptr<RingReduce> NewRingReduce(GroupChannel* channel, Executor* control,
                                          Executor* compute, const RingOptions& options);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_RING_RING_REDUCE_H_
