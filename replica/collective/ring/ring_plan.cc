#include "replica/collective/ring/ring_plan.h"

#include <algorithm>

#include "common/status.h"
#include "replica/methods/group_limits.h"

namespace shoal::collective {
namespace {

// Where a member stands on a path that runs once around `size` hops from `start`.
std::size_t HopOf(std::size_t at, std::size_t start, std::size_t size) {
  return (at + size - start) % size;
}

std::uint32_t ContributorsOfRow(const Torus& torus, std::uint64_t contributors, std::size_t row) {
  std::uint32_t count = 0;
  for (std::size_t c = 0; c < torus.columns; ++c) {
    count += contributors >> (row * torus.columns + c) & 1;
  }
  return count;
}

// One way around, of which `member` is one hop: neighbours of a row or of a column.
struct Circle {
  std::size_t hop, size, before, after;

  RingStep Step(RingPhase phase) const {
    RingStep step;
    step.phase = phase;
    step.hop = hop;
    if (hop > 0) step.from = before;
    if (hop + 1 < size) step.to = after;
    return step;
  }
};

Circle RowCircle(const Torus& torus, std::size_t member, std::size_t start) {
  const std::size_t n = torus.columns, column = member % n, first = member - column;
  return {HopOf(column, start, n), n, first + (column + n - 1) % n, first + (column + 1) % n};
}

Circle ColumnCircle(const Torus& torus, std::size_t member, std::size_t start) {
  const std::size_t n = torus.rows, row = member / torus.columns, column = member % torus.columns;
  const auto at = [&](std::size_t r) { return r % n * torus.columns + column; };
  return {HopOf(row, start, n), n, at(row + n - 1), at(row + 1)};
}

}  // namespace

Torus RingOf(std::size_t members) { return {1, members}; }

Torus TorusOf(std::size_t members, std::size_t columns) {
  if (columns == 0 || members % columns != 0) return RingOf(members);
  return {members / columns, columns};
}

Torus SquarestTorusOf(std::size_t members) {
  std::size_t rows = 1;
  for (std::size_t r = 1; r * r <= members; ++r) {
    if (members % r == 0) rows = r;
  }
  return {rows, members / rows};
}

Extent SliceOf(std::size_t elements, std::size_t slice, std::size_t slices) {
  // No product of elements and slices, so no overflow.
  const std::size_t base = elements / slices, extra = elements % slices;
  const std::size_t begin = slice * base + std::min(slice, extra);
  return {begin, begin + base + (slice < extra ? 1 : 0)};
}

std::vector<RingStep> RingStepsOf(const Torus& torus, std::uint64_t contributors,
                                  std::size_t member, std::size_t slice) {
  SHOAL_CHECK(torus.members() <= replica::kRingMembersMax && member < torus.members() &&
              slice < torus.members());
  const std::size_t R = torus.rows, C = torus.columns;
  const std::size_t first_column = slice / R, first_row = slice % R;
  const std::size_t last_column = (first_column + C - 1) % C, last_row = (first_row + R - 1) % R;
  const std::size_t row = member / C;
  const bool in_last_column = member % C == last_column;
  std::uint32_t all = 0;
  for (std::size_t r = 0; r < R; ++r) all += ContributorsOfRow(torus, contributors, r);

  std::vector<RingStep> steps;
  if (C > 1) {
    RingStep step = RowCircle(torus, member, first_column).Step(RingPhase::kRowReduce);
    for (std::size_t i = 0; i < step.hop; ++i) {
      step.received += contributors >> (row * C + (first_column + i) % C) & 1;
    }
    step.own = contributors >> member & 1;
    steps.push_back(step);
  }
  if (R > 1 && in_last_column) {
    RingStep step = ColumnCircle(torus, member, first_row).Step(RingPhase::kColumnReduce);
    for (std::size_t i = 0; i < step.hop; ++i) {
      step.received += ContributorsOfRow(torus, contributors, (first_row + i) % R);
    }
    step.own = ContributorsOfRow(torus, contributors, row);
    steps.push_back(step);
    steps.push_back(ColumnCircle(torus, member, last_row).Step(RingPhase::kColumnGather));
    steps.back().received = all;
  }
  if (C > 1) {
    steps.push_back(RowCircle(torus, member, last_column).Step(RingPhase::kRowGather));
    steps.back().received = all;
  }
  return steps;
}

std::uint32_t RingDrawOf(RingPhase phase, std::size_t hop, std::size_t member) {
  return static_cast<std::uint32_t>(phase) << 16 | static_cast<std::uint32_t>(hop) << 8 |
         static_cast<std::uint32_t>(member);
}

}  // namespace shoal::collective
