// Buckets: pieces of a part's gradient that are exchanged apart, each as soon as its backward is
// complete, while the backward goes on with the others. Thread: any, one at a time.

#ifndef SHOAL_REPLICA_GRADIENT_BUCKETS_H_
#define SHOAL_REPLICA_GRADIENT_BUCKETS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "replica/replica_step.h"

namespace shoal::replica {

// A group's links carry so many exchanges at once at most.
inline constexpr std::size_t kBucketsMax = 64;

struct GradientBucket {
  std::shared_ptr<const ParameterGroup> part;  // of the same group
  // The bucket's gradient is final behind so many parts of the last micro-batch's weight gradients.
  std::size_t final_after = 0;
};

// In the order in which they become final; together all tensors of `part`, each once. A bucket has
// at least `values_min` values (more if there were too many), but for the last one. Empty
// `final_after`: a single bucket, which is never final before Reduce.
std::vector<GradientBucket> CutBuckets(const std::shared_ptr<const ParameterGroup>& part,
                                       const FinalParts& final_after, std::uint64_t values_min);

// Says which of a part's buckets are exchanged at a time. Buckets start in their order, which is
// the same on all members, and no more at once than keep a line busy. Each exchange has a window of
// its own, so exchanges of all buckets at once would let some links fall behind others
// (ExchangeConfig).
class BucketQueue {
 public:
  // About how many bytes the running exchanges send in all. Two may always run, so that one fills
  // the line while another waits for its last answers.
  static constexpr double kBytesAtOnce = 8 << 20;
  static constexpr std::size_t kAlwaysAtOnce = 2;

  // `start`: begins the exchange of a bucket, which ends later.
  explicit BucketQueue(std::function<void(std::size_t bucket)> start) : start_(std::move(start)) {}

  // Adds the next bucket, of so many values; returns its number.
  std::size_t Add(std::uint64_t values);
  // Begins with the first bucket again: none is ready, and the owner has ended the exchanges that
  // ran.
  void Restart();
  // This member's contribution to the bucket is there.
  void Ready(std::size_t bucket);
  // The bucket's exchange, which sent so many bytes, is over. Others may start.
  void Ended(std::size_t bucket, std::uint64_t sent_bytes);

 private:
  struct Bucket {
    std::uint64_t values = 0;
    bool ready = false;
    double bytes = 0;  // that it was taken to send, while it runs
  };
  void StartSome();

  const std::function<void(std::size_t bucket)> start_;
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0, running_ = 0;
  double running_bytes_ = 0;
  double bytes_per_value_ = 2 * sizeof(float);  // of the last one that ended; at most so many
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_GRADIENT_BUCKETS_H_
