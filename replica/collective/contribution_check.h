// ContributionCheck: whether what another member adds to a sum of gradients may be one.
//
// Members hold the same weights, so their gradients are of like size. One that is not finite, or
// far above the own one, spoils what all have computed; its sender is named before anybody gets the
// sum. Values lie on the host. Internal to collective/. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_CONTRIBUTION_CHECK_H_
#define SHOAL_REPLICA_COLLECTIVE_CONTRIBUTION_CHECK_H_

#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "common/memory/buffer.h"
#include "common/status.h"

namespace shoal::collective {

// Times the norm of the member's own vector. Pipelines whose labels differ a thousandfold are
// honest.
inline constexpr double kContributionMost = 1e5;

class ContributionCheck {
 public:
  // `own`: the member's own vector, all of it.
  explicit ContributionCheck(std::shared_ptr<const Buffer> own) : own_(std::move(own)) {}

  // A contribution to a chunk took its sum's norm from `before` to `after`, `factor` times its own
  // norm at most. Invalid argument says what is wrong with it. A vector of zeros compares with
  // nothing.
  Status Check(double before, double after, double factor) const;

 private:
  const std::shared_ptr<const Buffer> own_;
  mutable std::once_flag once_;
  mutable double own_norm_ = 0;  // once it is asked for: a pass over all values
};

// Finite if and only if all values are.
double Norm(std::span<const float> values);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_CONTRIBUTION_CHECK_H_
