// EventQueue: a fake clock and what is to happen. Equal times keep their order. Thread: one.

#ifndef SHOAL_DAEMON_CHURN_EVENTS_H_
#define SHOAL_DAEMON_CHURN_EVENTS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "common/clock.h"

namespace shoal::daemon {

class EventQueue {
 public:
  TimePoint now() const { return now_; }
  void At(TimePoint when, std::function<void()> run) {
    heap_.push_back({std::max(when, now_), ++order_, std::move(run)});
    std::push_heap(heap_.begin(), heap_.end());
  }
  void After(Duration delay, std::function<void()> run) { At(now_ + delay, std::move(run)); }
  // Runs the next one, unless it is after `end`.
  bool RunNext(TimePoint end) {
    if (heap_.empty() || heap_.front().when > end) return false;
    std::pop_heap(heap_.begin(), heap_.end());
    Entry next = std::move(heap_.back());
    heap_.pop_back();
    now_ = next.when;
    next.run();
    return true;
  }
  // Nothing is left to happen before.
  void AdvanceTo(TimePoint when) { now_ = std::max(now_, when); }

 private:
  struct Entry {
    TimePoint when;
    std::uint64_t order;
    std::function<void()> run;
    // The earliest on top.
    bool operator<(const Entry& other) const {
      return std::tie(when, order) > std::tie(other.when, other.order);
    }
  };
  std::vector<Entry> heap_;
  TimePoint now_{std::chrono::hours(1)};
  std::uint64_t order_ = 0;
};

inline Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}
inline double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_EVENTS_H_
