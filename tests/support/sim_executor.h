// SimWorld: virtual time. All executors of one world run their tasks on the calling thread, one at
// a time, in order of virtual time. So a whole swarm is one deterministic sequence of events.
//
// A task runs at the end of the time it costs, and its executor starts the next one only then.

#ifndef SHOAL_TESTS_SUPPORT_SIM_EXECUTOR_H_
#define SHOAL_TESTS_SUPPORT_SIM_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "common/executor.h"

namespace shoal::test_support {

class SimWorld final : public Clock {
 public:
  using Cost = std::function<Duration(const char* task)>;
  using Before = std::function<void()>;

  TimePoint Now() const override { return now_; }
  // Runs `event` at `when` (not before now). Events of one instant run in order of scheduling.
  std::uint64_t At(TimePoint when, std::function<void()> event);
  void Cancel(std::uint64_t event);

  // Runs the next event; false if there is none.
  bool Step();
  // Runs events until `done` holds, none is left, or `limit` of virtual time has passed; returns
  // done().
  bool RunUntil(const std::function<bool()>& done, Duration limit);
  std::size_t pending() const { return events_.size(); }

  // `cost`: virtual time a task takes; null: none. `before` each task; null: nothing. The
  // destructor drops what was posted, as the end of a process does. Between two tasks the test
  // itself runs, which stands for any thread.
  std::unique_ptr<Executor> NewExecutor(std::string name, Cost cost = nullptr,
                                        Before before = nullptr);
  // Of several threads: a task starts on the first that is free.
  std::unique_ptr<Executor> NewPool(std::string name, std::size_t threads, Cost cost = nullptr,
                                    Before before = nullptr);

 private:
  TimePoint now_{std::chrono::seconds(1000)};
  std::uint64_t last_event_ = 0;
  std::map<std::pair<TimePoint, std::uint64_t>, std::function<void()>> events_;
  std::map<std::uint64_t, TimePoint> when_;
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_SIM_EXECUTOR_H_
