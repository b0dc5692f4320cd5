// ContributionCheck: whether what another member adds to a sum of gradients may be one.
//
// Members hold the same weights, so their gradients are of like size. One that is not finite, or
// far above the own ones, spoils what all have computed; its sender is named before anybody gets
// the sum. Values lie on the host. Internal to collective/. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_CONTRIBUTION_CHECK_H_
#define SHOAL_REPLICA_COLLECTIVE_CONTRIBUTION_CHECK_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "common/memory/buffer.h"
#include "common/status.h"

namespace shoal::collective {

// Times the largest norm of the member's own vectors so far. Pipelines are honest whose labels
// differ a thousandfold, and one whose rows are known by heart where another's are not.
inline constexpr double kContributionMost = 1e5;

// Of a member's own vectors.
class LargestNorm {
 public:
  // Returns the largest; one that is not finite does not count.
  double Add(double norm);

 private:
  std::atomic<double> largest_{0};
};

class ContributionCheck {
 public:
  // `own`: the member's own vector, all of it.
  ContributionCheck(std::shared_ptr<const Buffer> own, std::shared_ptr<LargestNorm> norms)
      : own_(std::move(own)), norms_(std::move(norms)) {}

  // A contribution to a chunk took its sum's norm from `before` to `after`, `factor` times its own
  // norm at most. Invalid argument says what is wrong with it. Vectors of zeros compare with
  // nothing.
  Status Check(double before, double after, double factor) const;

 private:
  const std::shared_ptr<const Buffer> own_;
  const std::shared_ptr<LargestNorm> norms_;
  mutable std::once_flag once_;
  mutable double largest_ = 0;  // once it is asked for: a pass over all values
};

// Finite if and only if all values are.
double Norm(std::span<const float> values);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_CONTRIBUTION_CHECK_H_
