#include "tests/support/sim_executor.h"

#include <algorithm>
#include <vector>

namespace shoal::test_support {
namespace {

class SimExecutor final : public Executor {
 public:
  SimExecutor(SimWorld* world, std::string name, std::size_t threads, SimWorld::Cost cost,
              SimWorld::Before before)
      : world_(world),
        name_(std::move(name)),
        cost_(std::move(cost)),
        before_(std::move(before)),
        free_(threads) {}
  ~SimExecutor() override {
    for (std::uint64_t event : waiting_) world_->Cancel(event);
  }

  void Post(const char* name, std::function<void()> task) override {
    const Duration cost = cost_ ? cost_(name) : Duration::zero();
    TimePoint& free = *std::ranges::min_element(free_);
    free = std::max(free, world_->Now()) + cost;
    Schedule(free, std::move(task));
  }
  TimerId PostAfter(const char*, Duration delay, std::function<void()> task) override {
    return Schedule(world_->Now() + std::max(delay, Duration::zero()), std::move(task));
  }
  void CancelTimer(TimerId timer) override {
    SHOAL_ASSERT_ON(*this);
    if (waiting_.erase(timer) > 0) world_->Cancel(timer);
  }
  // Between two tasks the test itself runs, which stands for any thread.
  bool InThread() const override { return current_ == this || current_ == nullptr; }
  const Clock& clock() const override { return *world_; }

 private:
  std::uint64_t Schedule(TimePoint when, std::function<void()> task) {
    auto id = std::make_shared<std::uint64_t>(0);
    *id = world_->At(when, [this, id, task = std::move(task)] {
      waiting_.erase(*id);
      const Executor* const before = std::exchange(current_, this);
      if (before_) before_();
      task();
      current_ = before;
    });
    waiting_.insert(*id);
    return *id;
  }

  static inline const Executor* current_ = nullptr;
  SimWorld* const world_;
  const std::string name_;
  const SimWorld::Cost cost_;
  const SimWorld::Before before_;
  std::vector<TimePoint> free_;  // by thread: when it is done with what was posted
  std::set<std::uint64_t> waiting_;
};

}  // namespace

std::uint64_t SimWorld::At(TimePoint when, std::function<void()> event) {
  const std::uint64_t id = ++last_event_;
  when = std::max(when, now_);
  events_.emplace(std::pair(when, id), std::move(event));
  when_.emplace(id, when);
  return id;
}

void SimWorld::Cancel(std::uint64_t event) {
  const auto found = when_.find(event);
  if (found == when_.end()) return;
  events_.erase({found->second, event});
  when_.erase(found);
}

bool SimWorld::Step() {
  if (events_.empty()) return false;
  auto next = events_.begin();
  now_ = next->first.first;
  when_.erase(next->first.second);
  const std::function<void()> event = std::move(next->second);
  events_.erase(next);
  event();
  return true;
}

bool SimWorld::RunUntil(const std::function<bool()>& done, Duration limit) {
  const TimePoint end = now_ + limit;
  while (!done()) {
    if (events_.empty() || events_.begin()->first.first > end) return done();
    Step();
  }
  return true;
}

std::unique_ptr<Executor> SimWorld::NewExecutor(std::string name, Cost cost, Before before) {
  return NewPool(std::move(name), 1, std::move(cost), std::move(before));
}

std::unique_ptr<Executor> SimWorld::NewPool(std::string name, std::size_t threads, Cost cost,
                                            Before before) {
  return std::make_unique<SimExecutor>(this, std::move(name), threads, std::move(cost),
                                       std::move(before));
}

}  // namespace shoal::test_support
