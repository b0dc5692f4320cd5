// RingMerge: how two partial vectors of a ring become one.

#ifndef SHOAL_REPLICA_COLLECTIVE_RING_RING_MERGE_H_
#define SHOAL_REPLICA_COLLECTIVE_RING_RING_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/status.h"
#include "replica/collective/ring/ring_message.h"
#include "replica/collective/ring/ring_plan.h"

namespace shoal::collective {

// Which elements of which merge these are.
struct MergeContext {
  std::uint64_t round = 0;
  RingPhase phase = RingPhase::kRowReduce;
  std::size_t hop = 0, member = 0;  // of the merging member
  std::size_t slice = 0;
  std::size_t in_slice = 0, in_vector = 0;  // first element
  std::uint32_t received = 0, own = 0;      // members in both sides, neither 0
};

// Immutable. Thread: any; different chunks are merged at the same time.
class RingMerge {
 public:
  virtual ~RingMerge() = default;
  virtual RingKind kind() const = 0;
  virtual std::size_t element_bytes() const = 0;
  // What must be equal on all members, for the method of the messages: docs/WIRE.md.
  virtual std::string spec() const = 0;
  // OK if `received`, elements from `in_vector` on, may come from a member.
  virtual Status Check(std::size_t in_vector, std::span<const std::byte> received) const = 0;
  // `own` becomes the merge of both. Equal sizes, whole elements, aligned for them; checked before.
  virtual void Merge(const MergeContext& context, std::span<const std::byte> received,
                     std::span<std::byte> own) const = 0;
};

// fp32: received + own. Elements are values.
std::shared_ptr<const RingMerge> NewSumMerge();

// A vector of SignWords(signs) words of signs, then SignWords(marks) words of marks. Signs merge by
// MergeSigns with draws of `seed`, which must differ between vectors of one round; marks by OR.
// Elements are words of 64 bits. Unused bits must be 0.
std::shared_ptr<const RingMerge> NewOneBitMerge(std::uint64_t seed, std::size_t signs,
                                                std::size_t marks);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_RING_RING_MERGE_H_
