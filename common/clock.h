// Clock: where components get the time from; tests pass a fake one.

#ifndef SHOAL_COMMON_CLOCK_H_
#define SHOAL_COMMON_CLOCK_H_

#include <chrono>

namespace shoal {

// Steady time: for durations and deadlines, no relation to the calendar.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;
using Duration = std::chrono::nanoseconds;

inline double Milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
};

// The machine's steady clock; lives for ever. Thread: any.
const Clock& SystemClock();

}  // namespace shoal

#endif  // SHOAL_COMMON_CLOCK_H_
