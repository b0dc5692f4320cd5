// Buckets: pieces of a part's gradient that are exchanged apart, each as soon as its backward is
// complete, while the backward goes on with the others. Pure. Thread: any.

#ifndef SHOAL_PIPELINE_GRADIENT_BUCKETS_H_
#define SHOAL_PIPELINE_GRADIENT_BUCKETS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/replica_step.h"

namespace shoal::pipeline {

// A group's links carry so many exchanges at once at most.
inline constexpr std::size_t kBucketsMax = 64;

struct GradientBucket {
  std::shared_ptr<const ReplicaPart> part;  // of the same group
  // Its gradient is final behind so many parts of the last micro-batch's weight gradients.
  std::size_t final_after = 0;
};

// In the order in which they become final; together all tensors of `part`, each once. A bucket has
// at least `values_min` values (more if there were too many), but for the last one. Empty
// `final_after`: a single bucket, which is never final before Reduce.
std::vector<GradientBucket> CutBuckets(const std::shared_ptr<const ReplicaPart>& part,
                                       const FinalParts& final_after, std::uint64_t values_min);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_GRADIENT_BUCKETS_H_
