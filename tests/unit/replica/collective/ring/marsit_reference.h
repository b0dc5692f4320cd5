// Marsit's rounds over whole vectors, value by value, and the ring in one place: what marsit.h does
// chunk by chunk must be this, bit for bit.

#ifndef SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_RING_MARSIT_REFERENCE_H_
#define SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_RING_MARSIT_REFERENCE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "replica/collective/one_bit.h"
#include "replica/collective/ring/marsit.h"
#include "replica/collective/ring/ring_plan.h"

namespace shoal::collective::reference {

using Floats = std::vector<float>;

inline bool Bit(const Buffer& vector, std::size_t bit) {
  return (std::to_integer<unsigned>(vector.data()[bit / 8]) >> bit % 8 & 1) != 0;
}

// Calls visit(mark, first value, values) for every masked row.
template <typename Visit>
void ForEachRow(const MarsitOptions& options, Visit visit) {
  std::size_t mark = 0;
  for (const RowRange& range : options.masked) {
    for (std::size_t row = 0; row < range.rows; ++row) {
      visit(mark++, range.first + row * range.columns, range.columns);
    }
  }
}

// eta_l x + c.
inline Floats Compensated(const MarsitRates& rates, const Floats& x, const Floats& c) {
  Floats y(x.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const float scaled = x[i] * rates.local;
    y[i] = scaled + c[i];
  }
  return y;
}

// What travels of an x that counts.
inline Buffer Open(const MarsitOptions& options, const MarsitRates& rates, bool exact,
                   const Floats& c, const Floats& x) {
  const Floats y = Compensated(rates, x, c);
  if (exact) return Buffer::CopyOf(std::as_bytes(std::span(y)));
  std::size_t marks = 0;
  ForEachRow(options, [&](std::size_t, std::size_t, std::size_t) { ++marks; });
  std::vector<std::uint64_t> words(SignWords(y.size()) + SignWords(marks));
  for (std::size_t i = 0; i < y.size(); ++i) {
    words[i / 64] |= static_cast<std::uint64_t>(y[i] >= 0) << i % 64;
  }
  ForEachRow(options, [&](std::size_t mark, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      if (x[i] != 0) words[SignWords(y.size()) + mark / 64] |= std::uint64_t{1} << mark % 64;
    }
  });
  return Buffer::CopyOf(std::as_bytes(std::span(words)));
}

struct Closed {
  Floats update, compensation;
};

// What comes of the vector that travelled; for a member that does not count an empty x.
inline Closed Close(const MarsitOptions& options, const MarsitRates& rates, bool exact,
                    std::uint32_t contributors, const Floats& c, const Floats& x,
                    const Buffer& vector) {
  Closed closed{Floats(c.size()), c};
  Floats& g = closed.update;
  if (exact) {
    const float share = 1.0F / static_cast<float>(contributors);
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = vector.floats()[i] * share;
    if (!x.empty()) closed.compensation.assign(c.size(), 0);
    return closed;
  }
  for (std::size_t i = 0; i < g.size(); ++i) {
    g[i] = Bit(vector, i) ? rates.global : -rates.global;
  }
  ForEachRow(options, [&](std::size_t mark, std::size_t first, std::size_t count) {
    if (Bit(vector, SignWords(g.size()) * 64 + mark)) return;
    for (std::size_t i = first; i < first + count; ++i) g[i] = 0;
  });
  if (x.empty()) return closed;
  closed.compensation = Compensated(rates, x, c);
  for (std::size_t i = 0; i < g.size(); ++i) closed.compensation[i] -= g[i];
  return closed;
}

// The ring in one place: every slice's members merged in the order of its hops. `contributors`:
// bit r, member r counts.
inline Buffer MergeAround(std::vector<Buffer>& vectors, const RingMerge& merge, std::uint64_t round,
                          std::uint64_t contributors) {
  const std::size_t members = vectors.size(), size = merge.element_bytes();
  Buffer all(vectors[0].size());
  for (std::size_t s = 0; s < members; ++s) {
    const Extent extent = SliceOf(all.size() / size, s, members);
    const auto part = [&](std::size_t member) {
      return vectors[member].bytes().subspan(extent.begin * size, extent.size() * size);
    };
    std::uint32_t received = 0;
    for (std::size_t hop = 0; hop < members; ++hop) {
      const std::size_t member = (s + hop) % members;
      const std::uint32_t own = contributors >> member & 1;
      const auto before = part((member + members - 1) % members);
      if (own == 0 && hop > 0) std::ranges::copy(before, part(member).begin());
      if (own != 0 && received != 0) {
        merge.Merge({.round = round,
                     .phase = RingPhase::kRowReduce,
                     .hop = hop,
                     .member = member,
                     .slice = s,
                     .in_slice = 0,
                     .in_vector = extent.begin,
                     .received = received,
                     .own = 1},
                    before, part(member));
      }
      received += own;
    }
    const auto last = part((s + members - 1) % members);
    std::ranges::copy(last, all.data() + extent.begin * size);
  }
  return all;
}

}  // namespace shoal::collective::reference

#endif  // SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_RING_MARSIT_REFERENCE_H_
