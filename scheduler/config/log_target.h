// LogTarget: where the scheduler writes a run's figures for trackers, as `log_to` in run.toml and
// --log-to name it. Pure; thread: any.

#ifndef SHOAL_SCHEDULER_CONFIG_LOG_TARGET_H_
#define SHOAL_SCHEDULER_CONFIG_LOG_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::scheduler {

inline constexpr std::size_t kLogTargetsMax = 8;

struct LogTarget {
  // kTensorboard: `path` is a folder, which gets an event file per start; kJsonLines: a file, to
  // which lines are appended.
  enum class Kind : std::uint8_t { kTensorboard, kJsonLines } kind = Kind::kJsonLines;
  std::string path;

  std::string ToString() const;  // as ParseLogTarget reads it
  bool operator==(const LogTarget&) const = default;
};

// "tensorboard:DIR" or "jsonl:FILE"; else an invalid argument, which says what is allowed.
Result<LogTarget> ParseLogTarget(std::string_view text);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_CONFIG_LOG_TARGET_H_
