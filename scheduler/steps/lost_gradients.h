// LostGradients: whose gradients were not finite, at the step in progress and at those before.
// Pure; thread: control.

#ifndef SHOAL_SCHEDULER_STEPS_LOST_GRADIENTS_H_
#define SHOAL_SCHEDULER_STEPS_LOST_GRADIENTS_H_

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/ids.h"

namespace shoal::scheduler {

class LostGradients {
 public:
  // A step begins, or the one in progress once more.
  void Begin() {
    lost_.clear();
    first_.clear();
  }
  // The gradient of a member is lost. `label` is for people.
  void Add(const PeerId& peer, const std::string& label) {
    if (lost_.empty()) first_ = label;
    lost_.insert(peer);
  }
  bool any() const { return !lost_.empty(); }
  // Who said so first.
  const std::string& first() const { return first_; }

  // The step in progress counts, applied or skipped.
  void End() {
    const std::optional<PeerId> now = one();
    in_a_row_ = !now ? 0 : now == alone_ ? in_a_row_ + 1 : 1;
    alone_ = now;
  }
  // The member whose gradient alone is lost, and was so at as many steps before. Who diverges by
  // too high a learning rate is seldom alone.
  std::optional<PeerId> Alone(std::size_t before) const {
    const std::optional<PeerId> now = one();
    return now && now == alone_ && in_a_row_ >= before ? now : std::nullopt;
  }

 private:
  std::optional<PeerId> one() const {
    return lost_.size() == 1 ? std::optional(*lost_.begin()) : std::nullopt;
  }

  std::set<PeerId> lost_;  // at the step in progress
  std::string first_;
  std::optional<PeerId> alone_;  // at the last steps that counted, so many in a row
  std::size_t in_a_row_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STEPS_LOST_GRADIENTS_H_
