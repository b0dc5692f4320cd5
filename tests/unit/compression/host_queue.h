// A DeviceQueue without a device: memory is the host's, and loops run the lanes of a warp one
// after the other through the same functions that the kernels call.

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_HOST_QUEUE_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_HOST_QUEUE_H_

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "compression/device_queue.h"
#include "compression/lane_groups.h"
#include "compression/lane_raw.h"
#include "compression/lane_units.h"

namespace shoal::compression {

class HostQueue : public DeviceQueue {
 public:
  void Use(void*) override {}
  Result<std::byte*> Allocate(std::size_t bytes) override {
    const std::size_t size = (bytes + 255) / 256 * 256 + 256;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(256, size));
    std::memset(memory, 0xcd, size);  // nothing may rely on what was there
    return memory;
  }
  void Free(std::byte* memory) override { std::free(memory); }
  void ToDevice(std::byte* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void ToHost(void* to, const std::byte* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void Zero(std::byte* at, std::size_t bytes) override {
    if (bytes > 0) std::memset(at, 0, bytes);
  }

  void EncodeBuckets(const BucketJob& job) override {
    if (OnePassJob(job)) {
      return BucketsOfUnit(job.bucket) == 1 ? OnePass<1>(job) : OnePass<2>(job);
    }
    FindScales(job);
    Over(job, [&](const DeviceSample& sample, std::uint32_t group, Extremes& extremes) {
      job.delta ? EncodeGroup<true>(job, sample, group, extremes)
                : EncodeGroup<false>(job, sample, group, extremes);
    });
  }
  void DecodeBuckets(const BucketJob& job) override {
    Over(job, [&](const DeviceSample& sample, std::uint32_t group, Extremes& extremes) {
      job.delta ? DecodeGroup<true>(job, sample, group, extremes)
                : DecodeGroup<false>(job, sample, group, extremes);
    });
  }
  void EncodeRaw(const RawJob& job) override {
    Over(job, [&](const DeviceSample& sample, std::uint32_t group, Extremes& extremes) {
      EncodeRawGroup(job, sample, group, extremes);
    });
  }
  void DecodeRaw(const RawJob& job) override {
    Over(job, [&](const DeviceSample& sample, std::uint32_t group, Extremes& extremes) {
      DecodeRawGroup(job, sample, group, extremes);
    });
  }
  void ToImages(const RawJob& job) override {
    Over(job, [&](const DeviceSample& sample, std::uint32_t group, Extremes& extremes) {
      ToImageGroup(job, sample, group, extremes);
    });
  }
  void FromImages(const RawJob& job) override {
    Over(job, [&](const DeviceSample& sample, std::uint32_t group, Extremes&) {
      FromImageGroup(job, sample, group);
    });
  }
  Status Wait() override { return Status::Ok(); }

 private:
  static void Report(const Extremes& seen, Extremes& all) {
    Raise(all.x, seen.x);
    Raise(all.m, seen.m);
    Raise(all.sum, seen.sum);
  }

  template <typename Job, typename Pass>
  static void Over(const Job& job, const Pass& pass) {
    for (std::uint32_t s = 0; s < job.count; ++s) {
      for (std::uint32_t g = 0; g < (job.values + kLaneGroup - 1) / kLaneGroup; ++g) {
        Extremes extremes;
        pass(job.samples[s], g, extremes);
        Report(extremes, job.extremes[s]);
      }
    }
  }

  template <int kBuckets>
  static void OnePass(const BucketJob& job) {
    const std::uint32_t groups = GroupsOfLane(job.bucket);
    if (groups <= 1) return OnePass<kBuckets, 1>(job);
    if (groups <= 2) return OnePass<kBuckets, 2>(job);
    if (groups <= 4) return OnePass<kBuckets, 4>(job);
    if (groups <= 8) return OnePass<kBuckets, 8>(job);
    OnePass<kBuckets, 16>(job);
  }
  template <int kBuckets, int kGroups>
  static void OnePass(const BucketJob& job) {
    job.delta ? OnePass<kBuckets, kGroups, true>(job) : OnePass<kBuckets, kGroups, false>(job);
  }
  template <int kBuckets, int kGroups, bool kDelta>
  static void OnePass(const BucketJob& job) {
    const std::uint32_t lanes = LanesOfUnit(job.bucket);
    std::vector<LaneState<kGroups, kDelta>> states(lanes);
    for (std::uint32_t s = 0; s < job.count; ++s) {
      for (std::uint32_t unit = 0; unit < UnitsOf(job); ++unit) {
        Extremes extremes;
        UnitRange<kBuckets> range;
        for (std::uint32_t lane = 0; lane < lanes; ++lane) {
          const auto part =
              LoadLane<kBuckets>(job, job.samples[s], unit, lane, lanes, states[lane], extremes);
          for (int b = 0; b < kBuckets; ++b) range.of[b].Add(part.of[b]);
        }
        for (std::uint32_t lane = lanes; lane-- > 0;) {
          CodeLane(job, job.samples[s], unit, lane, lanes, range, states[lane], extremes);
        }
        Report(extremes, job.extremes[s]);
      }
    }
  }

  static void FindScales(const BucketJob& job) {
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
        Report(extremes, job.extremes[s]);
      }
    }
  }
};

}  // namespace shoal::compression

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_HOST_QUEUE_H_
