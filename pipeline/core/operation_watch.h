// OperationWatch: the watchdog of one generation. It knows which operations run, or are waited for,
// since when, and how long such operations took so far: what takes much longer hangs.
//
// Time in which the whole process stood still (SIGSTOP, a laptop that slept, a machine that starves
// it) is nobody's: Look() must come about every kLookEvery, and what it comes later does not count.
// The first operations of a generation, which load kernels and fill caches, are only measured.

#ifndef SHOAL_PIPELINE_CORE_OPERATION_WATCH_H_
#define SHOAL_PIPELINE_CORE_OPERATION_WATCH_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "pipeline/core/usual_time.h"

namespace shoal::pipeline {

// In parts, where the model divides an operation: each part is one of these.
enum class Watched : std::uint8_t {
  kForward,
  kBackwardInput,
  kBackwardWeights,
  kEncode,
  kDecode,
  kWaitInput,     // for a frame of the previous stage
  kWaitGradient,  // for a frame of the next stage
};
inline constexpr std::size_t kWatchedKinds = 7;

// Thread: any.
class OperationWatch {
 public:
  static constexpr Duration kLookEvery = std::chrono::seconds(1);

  struct Limits {
    Duration operation{};  // a deadline is never less
    Duration wait{};       // the same of a frame
  };
  struct Overdue {
    Watched kind = Watched::kForward;
    MicroBatchId id;
    std::string text;  // "the forward of micro-batch 3 of step 12 has taken 41.0s; usually ..."
  };

  // `clock` outlives it.
  OperationWatch(const Clock* clock, const Limits& limits) : clock_(clock), limits_(limits) {}

  // Begins; returns what ends it.
  std::uint64_t Begin(Watched kind, MicroBatchId id);
  // Over: its time counts, unless it was overdue.
  void End(std::uint64_t token);
  // Never was. What is unknown, or over, is nothing.
  void Forget(std::uint64_t token);
  // It goes on, as something else shows: its time begins anew.
  void Excuse(std::uint64_t token);

  // The operation that has been overdue longest, if one is.
  std::optional<Overdue> Look();
  // The longest of any kind so far.
  Duration longest() const;

 private:
  struct Running {
    Watched kind;
    MicroBatchId id;
    TimePoint since;
    Duration excused{};
  };
  Duration Age(const Running& running, TimePoint now) const SHOAL_REQUIRES(mutex_);
  std::optional<Duration> DeadlineOf(Watched kind) const SHOAL_REQUIRES(mutex_);
  const UsualTime& times(Watched kind) const SHOAL_REQUIRES(mutex_) {
    return times_[static_cast<std::size_t>(kind)];
  }
  std::string Describe(const Running& running, Duration age) const SHOAL_REQUIRES(mutex_);

  const Clock* const clock_;
  const Limits limits_;
  mutable Mutex mutex_;
  std::uint64_t last_token_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Running> running_ SHOAL_GUARDED_BY(mutex_);
  std::array<UsualTime, kWatchedKinds> times_ SHOAL_GUARDED_BY(mutex_);
  std::optional<TimePoint> looked_ SHOAL_GUARDED_BY(mutex_);
};

// From its construction to its end. Thread: one at a time.
class WatchedSpan {
 public:
  WatchedSpan(std::shared_ptr<OperationWatch> watch, Watched kind, MicroBatchId id)
      : watch_(std::move(watch)), token_(watch_->Begin(kind, id)) {}
  ~WatchedSpan() { watch_->End(token_); }
  WatchedSpan(const WatchedSpan&) = delete;
  WatchedSpan& operator=(const WatchedSpan&) = delete;

 private:
  const std::shared_ptr<OperationWatch> watch_;
  const std::uint64_t token_;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_OPERATION_WATCH_H_
