// Marsit: one bit per value over a ring or torus, with compensation and a periodic exact round.
//
// Source: "Sign Bit is Enough" (DAC 2022), algorithm 1. With input x, memory c of this member and
// the rates eta_l, eta_s of the round, y = eta_l x + c. One-bit round: the merged sign of all
// members' y gives the update g = eta_s x sign, and c <- y - g. Exact round: g is the average of
// all members' y, and c <- 0. All members get the same bits of g; parameters then lose g. Masked
// rows (of embeddings, say): a one-bit round leaves out those rows in which no member's x has a
// value other than 0, which would else be pushed by eta_s for ever; their c stays. Pure. Thread:
// any.

#ifndef SHOAL_COLLECTIVE_MARSIT_H_
#define SHOAL_COLLECTIVE_MARSIT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collective/ring_merge.h"
#include "common/buffer.h"
#include "common/status.h"

namespace shoal::collective {

// Rows of `columns` values each: values [first, first + rows x columns) of the vector.
struct RowRange {
  std::size_t first = 0, rows = 0, columns = 0;
};

struct MarsitOptions {
  std::uint64_t every = 50;  // K, at least 1: one round of K is exact; 1: every round
  std::uint64_t seed = 0;    // of the draws; differs between vectors that share round numbers
  std::vector<RowRange> masked = {};  // in order, not overlapping
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

// Bits per value and round over many rounds, times 2 (M-1)/M on a member's wire: (31 + K) / K.
double MarsitBitsPerValue(std::uint64_t every);

// A round that is under way at one member.
struct MarsitRound {
  bool exact = false;
  MarsitRates rates;
  Buffer vector;        // to be exchanged: y if exact, else signs of y and marks of touched rows
  Buffer compensation;  // the member's next c once the round is closed
};

// What an exchange of this vector needs for such a round.
std::shared_ptr<const RingMerge> MarsitMerge(const MarsitOptions& options, std::size_t values,
                                             bool exact);

// Begins a round: y and what is sent of it. `compensation`, `input`: c and x, n values each. A y
// that is not finite is an error.
Result<MarsitRound> OpenMarsitRound(const MarsitOptions& options, const MarsitRates& rates,
                                    bool exact, std::span<const float> compensation,
                                    std::span<const float> input);

// The same for a member whose values do not count in this round: its c stays.
MarsitRound OpenMarsitListener(const MarsitOptions& options, const MarsitRates& rates, bool exact,
                               std::span<const float> compensation);

// Ends a round with what the exchange made of `contributors` members' vectors: the update g, n fp32
// values, and round->compensation. `contributes`: whether this member is one of them.
Result<Buffer> CloseMarsitRound(const MarsitOptions& options, Buffer exchanged,
                                std::uint32_t contributors, bool contributes, MarsitRound* round);

}  // namespace shoal::collective

#endif  // SHOAL_COLLECTIVE_MARSIT_H_
