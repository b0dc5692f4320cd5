// Marsit: one bit per value over a ring or torus, with compensation and a periodic exact round.
//
// Source: "Sign Bit is Enough" (DAC 2022), algorithm 1. With input x, memory c of this member and
// the rates eta_l, eta_s of the round, y = eta_l x + c. One-bit round: the merged sign of all
// members' y gives the update g = eta_s x sign, and c <- y - g. Exact round: g is the average of
// all members' y, and c <- 0. All members get the same bits of g and subtract it from the
// parameters. Masked rows (of embeddings, say): a one-bit round skips rows in which every member's
// x is 0, since eta_s would push them without end; their c stays. Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_RING_MARSIT_H_
#define SHOAL_REPLICA_COLLECTIVE_RING_MARSIT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "replica/collective/ring/ring_ends.h"
#include "replica/collective/ring/ring_merge.h"

namespace shoal::collective {

// Rows of `columns` values each: values [first, first + rows x columns) of the vector.
struct RowRange {
  std::size_t first = 0, rows = 0, columns = 0;
};

struct MarsitOptions {
  std::uint64_t every = 50;  // K, at least 1: one round of K is exact; 1: every round
  std::uint64_t seed = 0;    // of the draws; differs between vectors that share round numbers
  std::vector<RowRange> masked = {};  // in order, not overlapping
  // Keeps the c that a Commit replaces, and what Recycle gives, for the next round, instead of
  // having new pages cleared: 8 bytes a value between rounds.
  bool reuse_memory = false;
};

// Equal on all members of a round. The paper's theory: local sqrt(M / T), global sqrt(1 / (T n)),
// for M members, T rounds and n values.
struct MarsitRates {
  float local = 1;   // eta_l, of the input
  float global = 0;  // eta_s, of the signs; above 0
};

// OK if a vector of `values` can be exchanged this way.
Status CheckMarsitOptions(const MarsitOptions& options, std::size_t values);
Status CheckMarsitRates(const MarsitRates& rates);

// What an exchange of this vector needs for such a round.
std::shared_ptr<const RingMerge> MarsitMerge(const MarsitOptions& options, std::size_t values,
                                             bool exact);

// Equal on all members, but for the buffers.
struct MarsitRoundPlan {
  std::shared_ptr<const MarsitOptions> options;
  MarsitRates rates;
  bool exact = false;
  std::uint32_t contributors = 0;              // members whose values count
  std::shared_ptr<const Buffer> compensation;  // c
  std::shared_ptr<const Buffer> input;         // x, as large; null: this member does not count
  // For the update and the next c, if they have the right size; what is in them is lost.
  Buffer spare_update = {}, spare_compensation = {};
};

// A member's ends of a round. A chunk's y is computed twice, when it is opened and when it is
// closed, in place of being kept. A y that is not finite is an error of Open.
class MarsitRound final : public RingEnds {
 public:
  explicit MarsitRound(MarsitRoundPlan plan);

  // Of the vector that travels: y if exact, else signs of y and marks of touched rows.
  std::size_t vector_bytes() const;
  bool exact() const { return plan_.exact; }

  // RingEnds; elements are values if exact, else words.
  Status Open(std::size_t first, std::span<std::byte> own) override;
  Status Close(std::size_t first, std::size_t count, std::span<std::byte> vector) override;
  std::size_t settled_first() const override;

  // Behind the last Close: the update g, n fp32 values, from the vector that travelled; once.
  Buffer TakeUpdate(Buffer vector);
  // And the member's next c; null: as it was. Once.
  std::shared_ptr<Buffer> TakeCompensation();

 private:
  bool contributes() const { return plan_.input != nullptr; }
  Status OpenExact(std::size_t first, std::span<float> own) const;
  Status OpenSigns(std::size_t first, std::span<std::byte> signs) const;
  void OpenMarks(std::size_t first, std::span<std::uint64_t> marks) const;
  Status CloseExact(std::size_t first, std::span<float> outcome);
  void CloseSigns(std::size_t first, std::size_t count, std::span<const std::byte> vector);
  void LeaveUntouched(std::size_t first, std::size_t count, std::span<const std::byte> marks);
  Status Compensated(std::size_t first, std::span<float> y) const;

  MarsitRoundPlan plan_;
  const std::size_t values_;
  std::vector<std::size_t> first_marks_;  // of the masked ranges, and the number of all
  Buffer update_;                         // not of exact rounds: there it is the vector
  Buffer next_compensation_;              // of members that count
};

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_RING_MARSIT_H_
