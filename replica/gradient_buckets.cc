#include "replica/gradient_buckets.h"

#include <algorithm>
#include <limits>
#include <map>

namespace shoal::replica {

std::vector<GradientBucket> CutBuckets(const std::shared_ptr<const ParameterGroup>& part,
                                       const FinalParts& final_after, std::uint64_t values_min) {
  if (final_after.empty()) return {{part, std::numeric_limits<std::size_t>::max()}};
  const auto final_at = [&](const model::TensorLayout& tensor) {
    return final_after.at(tensor.offset);
  };
  std::map<std::size_t, std::uint64_t> values;  // by when they are final
  Select(*part, [&](const model::TensorLayout& tensor) {
    values[final_at(tensor)] += tensor.size;
    return false;
  });
  const std::uint64_t enough = std::max<std::uint64_t>(values_min, part->values / kBucketsMax + 1);
  std::vector<GradientBucket> buckets;
  std::size_t from = 0;  // what is final later is in no bucket yet
  std::uint64_t waiting = 0;
  for (const auto& [at, count] : values) {
    waiting += count;
    if (waiting < enough && at != values.rbegin()->first) continue;
    buckets.push_back({Select(*part,
                              [&, until = at](const model::TensorLayout& tensor) {
                                return final_at(tensor) > from && final_at(tensor) <= until;
                              }),
                       at});
    from = at;
    waiting = 0;
  }
  return buckets;
}

std::size_t BucketQueue::Add(std::uint64_t values) {
  buckets_.push_back({values});
  return buckets_.size() - 1;
}

void BucketQueue::Restart() {
  for (Bucket& bucket : buckets_) bucket.ready = false;
  next_ = running_ = 0;
  running_bytes_ = 0;
}

void BucketQueue::Ready(std::size_t bucket) {
  buckets_[bucket].ready = true;
  StartSome();
}

void BucketQueue::Ended(std::size_t bucket, std::uint64_t sent_bytes) {
  SHOAL_CHECK(running_ > 0);
  const Bucket& ended = buckets_[bucket];
  running_bytes_ = --running_ == 0 ? 0 : running_bytes_ - ended.bytes;
  bytes_per_value_ = static_cast<double>(sent_bytes) /
                     static_cast<double>(std::max<std::uint64_t>(1, ended.values));
  StartSome();
}

void BucketQueue::StartSome() {
  while (next_ < buckets_.size() && buckets_[next_].ready) {
    Bucket& bucket = buckets_[next_];
    bucket.bytes = bytes_per_value_ * static_cast<double>(bucket.values);
    if (running_ >= kAlwaysAtOnce && running_bytes_ + bucket.bytes > kBytesAtOnce) return;
    running_bytes_ += bucket.bytes;
    ++running_;
    start_(next_++);
  }
}

}  // namespace shoal::replica
