// Jobs of topk as loops on the host (host_lanes.h).

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_TOPK_LANES_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_TOPK_LANES_H_

#include <vector>

#include "compression/device/codecs/lane_kept.h"
#include "compression/device/codecs/lane_select.h"
#include "tests/unit/compression/device/host_lanes.h"

namespace shoal::compression {

inline constexpr std::uint32_t kScanThreadsOnHost = 512;

inline LeastKept FindLeastKeptOnHost(const SelectJob& job, std::uint32_t s) {
  LeastKept least{0, job.kept};
  std::uint32_t* const all = job.counters + s * kDigitCounters;
  for (int level = 0; level < kDigitLevels; ++level) {
    std::uint32_t* const counters = all + DigitStart(level);
    for (std::uint32_t g = (job.values + kLaneGroup - 1) / kLaneGroup; g-- > 0;) {
      CountDigits(job, job.samples[s], g, level, least.bits, job.extremes[s],
                  [&](std::uint32_t digit) { ++counters[digit]; });
    }
    const LeastKept known = least;
    std::uint32_t before = 0;
    int found = 0;
    for (std::uint32_t thread = 0; thread < kScanThreadsOnHost; ++thread) {
      const DigitRange range = DigitsOfThread(level, thread, kScanThreadsOnHost);
      LeastKept next = known;
      if (ChooseDigit(counters, range, level, before, next)) least = next, ++found;
      before += CountOfDigits(counters, range);
    }
    SHOAL_CHECK(found == 1);  // one thread writes
  }
  return least;
}

inline void RunOnHost(const SelectJob& job) {
  const std::size_t runs = RunsOf(job.values);
  constexpr std::uint32_t kGroupsOfRun = kRunValues / kLaneGroup;
  for (std::uint32_t s = 0; s < job.count; ++s) {
    const DeviceSample& sample = job.samples[s];
    const LeastKept least = job.least[s] = FindLeastKeptOnHost(job, s);
    std::uint64_t* const before = job.before + s * runs;
    for (std::uint32_t run = 0; run < runs; ++run) {
      before[run] = 0;
      for (std::uint32_t g = 0; g < kGroupsOfRun; ++g) {
        before[run] += CountGroup(job, sample, run * kGroupsOfRun + g, least.bits).Counts();
      }
    }
    std::uint64_t sum = 0;
    for (std::uint32_t thread = 0; thread < kScanThreadsOnHost; ++thread) {
      const RunRange range = RunsOfThread(job, thread, kScanThreadsOnHost);
      const std::uint64_t own = SumOfRuns(before, range);
      StoreSumsOfRuns(before, range, sum);
      sum += own;
    }
    for (std::uint32_t run = 0; run < runs; ++run) {
      std::uint64_t in_front = before[run];
      for (std::uint32_t g = run * kGroupsOfRun; g < (run + 1) * kGroupsOfRun; ++g) {
        KeepGroup(job, sample, g, least, in_front);
        in_front += CountGroup(job, sample, g, least.bits).Counts();
      }
    }
  }
}

inline void RunOnHost(const KeptJob& job) {
  if (job.pass == CodingPass::kDecode) {
    return OverGroupsOnHost(job, [&](const DeviceSample& sample, std::uint32_t group, Extremes&) {
      DecodeKeptGroup(job, sample, group);
    });
  }
  constexpr std::uint32_t kLanes = 32;
  for (std::size_t bucket = 0; bucket < std::size_t{job.count} * BucketsOfKept(job); ++bucket) {
    std::uint32_t most = 0;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      Raise(most, MostOfKept(job, bucket, lane, kLanes));
    }
    StoreKeptScale(job, bucket, most);
  }
  for (std::size_t group = 0; group < GroupsOfKept(job); ++group) CodeKeptGroup(job, group);
}

}  // namespace shoal::compression

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_TOPK_LANES_H_
