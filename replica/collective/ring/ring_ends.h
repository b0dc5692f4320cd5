// RingEnds: a member's work on its vector before the first hop of a ring and after the last. It is
// done chunk by chunk, so that it overlaps with the transfer of other chunks.

#ifndef SHOAL_REPLICA_COLLECTIVE_RING_RING_ENDS_H_
#define SHOAL_REPLICA_COLLECTIVE_RING_RING_ENDS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"

namespace shoal::collective {

// Elements are those of the operation's merge; `first` is one's number in the vector. Each element
// is opened once and, in an operation that ends well, closed once. An error ends the operation.
// Thread: any; different chunks are opened and closed at the same time.
class RingEnds {
 public:
  virtual ~RingEnds() = default;
  // Writes the own elements from `first` on, not written before, which are merged and sent next.
  virtual Status Open(std::size_t first, std::span<std::byte> own) = 0;
  // Elements [first, first + count) of `vector`, the whole one, are the outcome, and so are all
  // from settled_first() on. May change the former, if they are none of the latter.
  virtual Status Close(std::size_t first, std::size_t count, std::span<std::byte> vector) = 0;
  // Nothing is closed before the elements from here on are the outcome.
  virtual std::size_t settled_first() const { return SIZE_MAX; }
};

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_RING_RING_ENDS_H_
