// The passes of every kind of job as loops on the host: the lanes of a warp run one after the other
// through the same functions that the kernels call.

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_LANES_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_LANES_H_

#include <vector>

#include "compression/device/codecs/lane_groups.h"
#include "compression/device/codecs/lane_raw.h"
#include "compression/device/codecs/lane_units.h"
#include "compression/device/jobs/device_jobs.h"
#include "compression/device/lane_images.h"
#include "compression/device/lane_stats.h"
#include "compression/device/lane_vectors.h"

namespace shoal::compression {

inline void ReportOnHost(const Extremes& seen, Extremes& all) {
  Raise(all.x, seen.x);
  Raise(all.m, seen.m);
  Raise(all.sum, seen.sum);
}

template <typename Job, typename Pass>
void OverGroupsOnHost(const Job& job, const Pass& pass) {
  for (std::uint32_t s = 0; s < job.count; ++s) {
    for (std::uint32_t g = 0; g < (job.values + kLaneGroup - 1) / kLaneGroup; ++g) {
      Extremes extremes;
      pass(job.samples[s], g, extremes);
      ReportOnHost(extremes, job.extremes[s]);
    }
  }
}

// ---- bucket codes ----------------------------------------------------------------------------

template <int kBuckets, int kGroups, bool kDelta>
void OnePassLanes(const BucketJob& job) {
  const std::uint32_t lanes = LanesOfUnit(job);
  std::vector<StripeState<kGroups, kDelta>> states(lanes);
  for (std::uint32_t s = 0; s < job.count; ++s) {
    for (std::uint32_t unit = 0; unit < UnitsOf(job); ++unit) {
      Extremes extremes;
      UnitRange<kBuckets> range;
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        const DeviceSample& sample = job.samples[s];
        const UnitRange<kBuckets> part =
            job.rule.levels() == Levels::kAffine
                ? LoadLane<kBuckets, true>(job, sample, unit, lane, lanes, states[lane], extremes)
                : LoadLane<kBuckets, false>(job, sample, unit, lane, lanes, states[lane], extremes);
        for (int b = 0; b < kBuckets; ++b) range.of[b].Add(part.of[b]);
      }
      for (std::uint32_t lane = lanes; lane-- > 0;) {
        CodeLane(job, job.samples[s], unit, lane, lanes, range, states[lane], extremes);
      }
      ReportOnHost(extremes, job.extremes[s]);
    }
  }
}

template <int kBuckets, int kGroups>
void OnePassGroups(const BucketJob& job) {
  job.delta ? OnePassLanes<kBuckets, kGroups, true>(job)
            : OnePassLanes<kBuckets, kGroups, false>(job);
}
template <int kBuckets>
void OnePass(const BucketJob& job) {
  const std::uint32_t groups = GroupsOfLane(job);
  if (groups <= 1) return OnePassGroups<kBuckets, 1>(job);
  if (groups <= 2) return OnePassGroups<kBuckets, 2>(job);
  if (groups <= 3) return OnePassGroups<kBuckets, 3>(job);
  if (groups <= 4) return OnePassGroups<kBuckets, 4>(job);
  if (groups <= 5) return OnePassGroups<kBuckets, 5>(job);
  if (groups <= 8) return OnePassGroups<kBuckets, 8>(job);
  OnePassGroups<kBuckets, 16>(job);
}
inline void FindScales(const BucketJob& job) {
  constexpr std::uint32_t kLanes = 32;
  for (std::uint32_t s = 0; s < job.count; ++s) {
    const DeviceSample& sample = job.samples[s];
    for (std::uint32_t bucket = 0; bucket < job.buckets; ++bucket) {
      Extremes extremes;
      LaneRange range;
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
        range.Add(RangeOfLane(job, sample, bucket, lane, kLanes, extremes));
      }
      ScaleBits scale = RangeScale(job.rule, range);
      if (job.rule.scale() == ScaleRule::kOptimal) {
        ScaleTry best = TryScale(job, sample, bucket, scale.first, kLanes - 1);
        for (std::uint32_t lane = kLanes - 1; lane-- > 0;) {
          best.Add(TryScale(job, sample, bucket, scale.first, lane));
        }
        scale.first = best.scale;
      }
      StoreScale(job, sample.index, bucket, scale);
      ReportOnHost(extremes, job.extremes[s]);
    }
  }
}
inline void RunOnHost(const BucketJob& job) {
  if (job.pass == CodingPass::kDecode) {
    return OverGroupsOnHost(
        job, [&](const DeviceSample& sample, std::uint32_t group, Extremes& extremes) {
          job.delta ? DecodeGroup<true>(job, sample, group, extremes)
                    : DecodeGroup<false>(job, sample, group, extremes);
        });
  }
  if (OnePassJob(job)) {
    return BucketsOfUnit(job.bucket) == 1 ? OnePass<1>(job) : OnePass<2>(job);
  }
  FindScales(job);
  OverGroupsOnHost(job, [&](const DeviceSample& sample, std::uint32_t group, Extremes& extremes) {
    job.delta ? EncodeGroup<true>(job, sample, group, extremes)
              : EncodeGroup<false>(job, sample, group, extremes);
  });
}

// ---- plain values and images -----------------------------------------------------------------

inline void RunOnHost(const RawJob& job) {
  OverGroupsOnHost(job, [&](const DeviceSample& sample, std::uint32_t group, Extremes& extremes) {
    job.pass == CodingPass::kEncode ? EncodeRawGroup(job, sample, group, extremes)
                                    : DecodeRawGroup(job, sample, group, extremes);
  });
}

inline void MeasureColumns(const ImageJob& job) {
  for (std::uint32_t s = 0; s < job.count; ++s) {
    for (std::uint32_t lane = 0; lane < LanesOfColumns(job); ++lane) {
      Extremes extremes;
      std::uint32_t& column = job.columns[std::size_t{s} * job.hidden + ColumnOfLane(job, lane)];
      Raise(column, MeasureColumn(job, job.samples[s], lane, extremes));
      ReportOnHost(extremes, job.extremes[s]);
    }
  }
}

inline void RunOnHost(const ImageJob& job) {
  if (job.pass == ImagePass::kMeasure) return MeasureColumns(job);
  OverGroupsOnHost(job, [&](const DeviceSample& sample, std::uint32_t group, Extremes& extremes) {
    switch (job.pass) {
      case ImagePass::kCheck: return CheckImageGroup(job, sample, group, extremes);
      case ImagePass::kSubtract: return SubtractGroup(job, sample, group, extremes);
      case ImagePass::kStore: return StoreImageGroup(job, sample, group, extremes);
      case ImagePass::kLoad: return LoadImageGroup(job, sample, group);
      case ImagePass::kAdvance: return AdvanceImageGroup(job, sample, group, extremes);
      case ImagePass::kMeasure: return;
      case ImagePass::kCode:
        return CodeImageGroup(job, sample, group,
                              job.columns + (&sample - job.samples) * std::ptrdiff_t{job.hidden});
    }
  });
}

inline void RunOnHost(const RangeJob& job) {
  OverGroupsOnHost(job, [&](const DeviceSample& sample, std::uint32_t group, Extremes& extremes) {
    RangeOfGroup(job, sample, group, extremes);
  });
}
inline void RunOnHost(const VectorJob& job) {
  for (std::uint64_t i = 0; i < job.count; ++i) UpdateValue(job, i);
}
// As a warp does it, but in the order of lanes.
template <typename Job, typename Sums>
void SumRunsOnHost(const Job& job, std::uint32_t runs, Sums* out) {
  for (std::uint32_t s = 0; s < job.count; ++s) {
    const DeviceSample& sample = job.samples[s];
    for (std::uint32_t number = 0; number < runs; ++number) {
      const StatsRun run = RunOf(job, sample, number);
      Sums all;
      for (std::uint32_t lane = 0; lane < kStatsLanes; ++lane) {
        Sums sums;
        for (std::uint32_t i = lane; i < run.whole(); i += kStatsLanes) {
          AddPair(PairAt(job, sample, run.start + i), sums);
        }
        if (lane == 0) AddRest(job, sample, run, sums);
        AddLane(sums, all);
      }
      out[std::size_t{s} * runs + number] = all;
    }
  }
}
inline void RunOnHost(const TokenJob& job) { SumRunsOnHost(job, job.tokens, job.sums); }
inline void RunOnHost(const StatsJob& job) { SumRunsOnHost(job, job.blocks, job.sums); }

}  // namespace shoal::compression

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_LANES_H_
