// ContributionCheck: whether what another member says of a sum of gradients may be one.
//
// Members hold the same weights, so their gradients are of like size. One that is not finite, or
// far above the own ones, spoils what all have computed; its sender is named before anybody gets
// the sum. An answer that no owner who checks could have given is its owner's. Internal to
// collective/. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_CONTRIBUTION_CHECK_H_
#define SHOAL_REPLICA_COLLECTIVE_CONTRIBUTION_CHECK_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <span>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "compression/api/value_home.h"

namespace shoal::collective {

// Times the largest known norm of the member's own vectors. Pipelines are honest whose labels
// differ a thousandfold, and one whose rows are known by heart where another's are not.
inline constexpr double kContributionMost = 1e5;
// The same of a sum that an owner answers. It took what it adds up by its own norm, which may be a
// thousand times this member's.
inline constexpr double kAnswerMost = 1e3 * kContributionMost;
// The same of what a member has not sent so far and adds to its own vector at a new place: more
// came from others, by sums of which it coded little.
inline constexpr double kErrorMost = 1e3;

// What is wrong with a contribution of this norm, where one of `usual` is usual: invalid argument.
// 0 compares with nothing.
Status CheckContribution(double norm, double usual);

// Of values on the host; finite if and only if all are.
double HostNorm(std::span<const float> values);

// Of a member's own vectors, as far as anybody's was so large that they were looked at.
class LargestNorm {
 public:
  // Returns the largest; one that is not finite does not count.
  double Add(double norm);
  double largest() const { return largest_.load(); }

 private:
  std::atomic<double> largest_{0};
};

class ContributionCheck {
 public:
  // `own`: the member's own vector, all of it, which lies in `home` as all values do.
  ContributionCheck(std::shared_ptr<const Buffer> own, const compression::ValueHome* home,
                    std::shared_ptr<LargestNorm> norms)
      : own_(std::move(own)), home_(home), norms_(std::move(norms)) {}

  // Finite if and only if all values are.
  Result<double> Norm(std::span<const float> values) const;
  // The largest norm of own vectors where it matters: if `norm` is not within `most` times those
  // that are known, the own vector's counts, too. 0: all were zeros.
  Result<double> LargestFor(double norm, double most) const;
  // The sum of a chunk, as its owner answers it. Invalid argument says what is wrong with it.
  Status Answer(std::span<const float> sum) const;
  // Whether a chunk of what was not sent so far may be added to the own vector, which is not zeros.
  Result<bool> MayAdd(std::span<const float> errors) const;

 private:
  const std::shared_ptr<const Buffer> own_;
  const compression::ValueHome* const home_;
  const std::shared_ptr<LargestNorm> norms_;
  mutable std::once_flag once_;
  mutable Result<double> own_norm_ = 0.0;  // once it is asked for: a pass over all values
};

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_CONTRIBUTION_CHECK_H_
