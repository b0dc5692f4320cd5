// The largest values of a sample as threads of a GPU find them (lane_values.h says how this is
// built and tested).
//
// SelectJob, per sample: for each digit, CountDigits over all groups, then ChooseDigit; CountGroup
// over all groups, sums over runs, KeepGroup over all groups. Counting is all that happens in no
// order; what it gives does not depend on one. Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_LANE_SELECT_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_LANE_SELECT_H_

#include "compression/device/jobs/topk_jobs.h"
#include "compression/device/lane_values.h"

namespace shoal::compression {

// ---- the least kept magnitude ----------------------------------------------------------------

inline constexpr std::uint32_t kNoDigit = 0xffffffff;

// The digit of a value, or kNoDigit if its upper bits are not those that were found.
SHOAL_LANE std::uint32_t DigitOf(float value, int level, std::uint32_t upper) {
  const std::uint32_t bits = MagnitudeBits(value);
  const int shift = 20 - 10 * level;
  if (level == 0) return bits >> shift;
  return bits >> (shift + 10) == upper ? bits >> shift & 1023U : kNoDigit;
}

// Calls count(digit) for the values of a group.
template <typename Count>
SHOAL_LANE void CountDigits(const SelectJob& job, const DeviceSample& sample, std::uint32_t group,
                            int level, std::uint32_t upper, Extremes& extremes,
                            const Count& count) {
  const std::uint32_t position = group * kLaneGroup;
  const int values = GroupCount(job.values, position);
  float x[kLaneGroup];
  LoadFloats(sample.x + position, values, x);
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    if (j >= values) continue;
    Raise(extremes.x, MagnitudeBits(x[j]));
    if (const std::uint32_t digit = DigitOf(x[j], level, upper); digit != kNoDigit) count(digit);
  }
}

// Thread `thread` of `threads` looks at a range of digits; earlier threads at larger ones.
struct DigitRange {
  std::uint32_t first;  // the largest
  std::uint32_t count;
};
SHOAL_LANE DigitRange DigitsOfThread(int level, std::uint32_t thread, std::uint32_t threads) {
  const std::uint32_t each = DigitsOfLevel(level) / threads;
  return {DigitsOfLevel(level) - 1 - thread * each, each};
}
SHOAL_LANE std::uint32_t CountOfDigits(const std::uint32_t* counters, DigitRange range) {
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < range.count; ++i) sum += counters[range.first - i];
  return sum;
}
// Whether the least kept value lies in the thread's range, `before` which so many values come; then
// `least` gets the digit.
SHOAL_LANE bool ChooseDigit(const std::uint32_t* counters, DigitRange range, int level,
                            std::uint32_t before, LeastKept& least) {
  if (before >= least.rank) return false;
  std::uint32_t rank = least.rank - before;
  for (std::uint32_t i = 0; i < range.count; ++i) {
    const std::uint32_t digit = range.first - i;
    if (rank <= counters[digit]) {
      least.bits = level == 0 ? digit : least.bits << 10 | digit;
      least.rank = rank;
      return true;
    }
    rank -= counters[digit];
  }
  return false;
}

// ---- the kept values -------------------------------------------------------------------------

// Which values of a group are larger than the least kept one, and which equal to it.
struct GroupClasses {
  std::uint32_t larger = 0;
  std::uint32_t equal = 0;

  SHOAL_LANE std::uint64_t Counts() const {
    return std::uint64_t{OnesOf(larger)} << 32 | OnesOf(equal);
  }
};
SHOAL_LANE GroupClasses ClassesOf(const float (&x)[kLaneGroup], int count, std::uint32_t least) {
  GroupClasses classes;
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    const std::uint32_t bits = MagnitudeBits(x[j]);
    classes.larger |= (j < count && bits > least ? 1U : 0U) << j;
    classes.equal |= (j < count && bits == least ? 1U : 0U) << j;
  }
  return classes;
}
SHOAL_LANE GroupClasses CountGroup(const SelectJob& job, const DeviceSample& sample,
                                   std::uint32_t group, std::uint32_t least) {
  const std::uint32_t position = group * kLaneGroup;
  if (position >= job.values) return {};
  const int count = GroupCount(job.values, position);
  float x[kLaneGroup];
  LoadFloats(sample.x + position, count, x);
  return ClassesOf(x, count, least);
}

// Of values in front of which so many are larger than the least kept or equal to it (SelectJob):
// how many are kept. Of equals the first ones are.
SHOAL_LANE std::uint32_t KeptBefore(std::uint64_t before, const LeastKept& least) {
  const auto equal = static_cast<std::uint32_t>(before);
  return static_cast<std::uint32_t>(before >> 32) + (equal < least.rank ? equal : least.rank);
}

// Thread `thread` of `threads` turns counts of runs into sums: first `Sum` of its own, then, with
// the sum of all threads in front, `Write`.
struct RunRange {
  std::size_t first, end;
};
SHOAL_LANE RunRange RunsOfThread(const SelectJob& job, std::uint32_t thread,
                                 std::uint32_t threads) {
  const std::size_t runs = RunsOf(job.values);
  const std::size_t each = (runs + threads - 1) / threads;
  const std::size_t first = thread * each < runs ? thread * each : runs;
  return {first, first + each < runs ? first + each : runs};
}
SHOAL_LANE std::uint64_t SumOfRuns(const std::uint64_t* counts, RunRange range) {
  std::uint64_t sum = 0;
  for (std::size_t run = range.first; run < range.end; ++run) sum += counts[run];
  return sum;
}
SHOAL_LANE void StoreSumsOfRuns(std::uint64_t* counts, RunRange range, std::uint64_t before) {
  for (std::size_t run = range.first; run < range.end; ++run) {
    const std::uint64_t count = counts[run];
    counts[run] = before;
    before += count;
  }
}

// Writes the kept values of a group, its byte of the bitmap and, if it is the first of its run, the
// run's rank; groups go on to the end of the last run. `before`: what lies in front of the group in
// its sample.
SHOAL_LANE void KeepGroup(const SelectJob& job, const DeviceSample& sample, std::uint32_t group,
                          const LeastKept& least, std::uint64_t before) {
  const std::uint32_t position = group * kLaneGroup;
  const std::size_t run = std::size_t{sample.index} * RunsOf(job.values) + position / kRunValues;
  std::byte* bitmap = job.bitmap + run * kRunBytes + position % kRunValues / 8;
  if (position >= job.values) {
    *bitmap = std::byte{0};
    return;
  }
  const int count = GroupCount(job.values, position);
  float x[kLaneGroup];
  LoadFloats(sample.x + position, count, x);
  const GroupClasses classes = ClassesOf(x, count, least.bits);
  const std::uint32_t rank = KeptBefore(before, least);
  auto equal = static_cast<std::uint32_t>(before);
  float* to = job.kept_values + std::size_t{sample.index} * job.kept + rank;
  std::uint32_t map = 0;
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    const bool is_equal = (classes.equal >> j & 1U) != 0;
    if (is_equal) ++equal;
    const bool keep = (classes.larger >> j & 1U) != 0 || (is_equal && equal <= least.rank);
    if (!keep) continue;
    *to++ = x[j];
    map |= 1U << j;
  }
  *bitmap = static_cast<std::byte>(map);
  if (position % kRunValues == 0) job.ranks[run] = rank;
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_LANE_SELECT_H_
