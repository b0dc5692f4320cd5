// The hops of a ring and of a 2-D torus: which slice goes from whom to whom, and whose values it
// carries by then.
//
// A group of D = rows x columns members, member r in row r / columns and column r % columns; a ring
// is a torus of one row. A vector is cut into D slices; slice s belongs to column s / rows and,
// inside it, to row s % rows. Every slice travels, in four phases:
//   1. along each row, from its column once around, collecting the row's members;
//   2. down the column where phase 1 ended, from its row once around, collecting rows;
//   3. on down that column: the finished slice goes to the other rows;
//   4. along each row, to the other columns.
// A member sends 2 (D-1)/D of the vector, as with direct messages, and only to its right and its
// lower neighbour. Source of the ring: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms
// for clusters of workstations" (JPDC 2009). Of the torus: Mikami et al., "Massively distributed
// SGD" (2018), which Marsit (DAC 2022) builds on. Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_RING_RING_PLAN_H_
#define SHOAL_REPLICA_COLLECTIVE_RING_RING_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shoal::collective {

struct Torus {
  std::size_t rows = 1, columns = 1;
  std::size_t members() const { return rows * columns; }
  bool operator==(const Torus&) const = default;
};

// One row of `members`.
Torus RingOf(std::size_t members);
// `columns` columns, or a ring where they do not divide the members.
Torus TorusOf(std::size_t members, std::size_t columns);
// The most square torus of that many members, rows <= columns; a ring for a prime number.
Torus SquarestTorusOf(std::size_t members);

// Elements [begin, end).
struct Extent {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const Extent&) const = default;
};
// Slice `slice` of `slices` nearly equal ones; the first ones are one element longer.
Extent SliceOf(std::size_t elements, std::size_t slice, std::size_t slices);

enum class RingPhase : std::uint8_t {
  kRowReduce = 0,
  kColumnReduce = 1,
  kColumnGather = 2,
  kRowGather = 3,
};
inline constexpr std::size_t kRingPhases = 4;

// What a member does with a slice: waits for it, if `from`; merges it with its own (reduce) or
// adopts it (gather); sends the outcome on, if `to`.
struct RingStep {
  RingPhase phase = RingPhase::kRowReduce;
  // Hop in the phase's path, from 0: the member's message has this hop, the one it receives the
  // hop before. It is not the member's rank.
  std::size_t hop = 0;
  std::optional<std::size_t> from, to;
  // Members whose values are in what arrives (with `from`) and in what this member adds to it. In
  // phase 2 the own part is a whole row's. A step that gathers adds nothing.
  std::uint32_t received = 0, own = 0;

  bool gathers() const {
    return phase == RingPhase::kColumnGather || phase == RingPhase::kRowGather;
  }
  bool operator==(const RingStep&) const = default;
};

// The steps of `member` with `slice` in order, at most one a phase; none in a group of one.
// `contributors`: bit r says that member r has values in this sum; all members take part in the
// hops. Needs torus.members() <= replica::kRingMembersMax, member and slice below it.
std::vector<RingStep> RingStepsOf(const Torus& torus, std::uint64_t contributors,
                                  std::size_t member, std::size_t slice);

// A number that no two merges of one slice share: for the key of a merge's random bits. `hop`
// is that of the merging member.
std::uint32_t RingDrawOf(RingPhase phase, std::size_t hop, std::size_t member);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_RING_RING_PLAN_H_
