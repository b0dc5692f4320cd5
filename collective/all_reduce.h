// AllReduce: the exact fp32 sum over the members of a group, the same bits on every member.
//
// Direct reduce-scatter + all-gather: member r owns the r-th of `size` nearly equal shards; every
// member sends each owner its shard (one latency), the owner sums in rank order and sends the sum
// to all (second latency). Bytes sent per member: 2 (D-1)/D x 4 bytes x values.
// State: the running operation only. Thread: control; summing happens on `compute`.

#ifndef SHOAL_COLLECTIVE_ALL_REDUCE_H_
#define SHOAL_COLLECTIVE_ALL_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "collective/group_channel.h"
#include "common/buffer.h"
#include "common/executor.h"
#include "common/status.h"

namespace shoal::collective {

class AllReduce {
 public:
  virtual ~AllReduce() = default;  // a running operation ends without its callback

  // Sums `values` (fp32, equal size on all members) over the members whose bit is set in
  // `contributors` (all members receive). `done` gets the sum or an error (a message of a wrong
  // size, say). One operation at a time; `round` must be equal on all members and grow.
  virtual void Start(std::uint64_t round, std::uint64_t contributors, Buffer values,
                     std::function<void(Result<Buffer>)> done) = 0;
  // Ends the operation, if any: its callback gets an aborted status, late messages are dropped.
  virtual void Abort() = 0;
  // Members whose message the running operation waits for, in rank order; none if it waits for the
  // own sum.
  virtual std::vector<std::size_t> Awaited() const = 0;
};

std::unique_ptr<AllReduce> NewDirectAllReduce(GroupChannel* channel, Executor* control,
                                              Executor* compute);

}  // namespace shoal::collective

#endif  // SHOAL_COLLECTIVE_ALL_REDUCE_H_
