// Log lines: one line, `time level category event key=value ...`, on standard error.
//
//   SHOAL_LOG(kInfo, "pipeline", "mb.done", {"step", step}, {"mb", index});
//
// Arguments are not evaluated below the level. Lines that a remote peer can trigger are debug or
// rate-limited. Thread: any.

#ifndef SHOAL_COMMON_LOG_H_
#define SHOAL_COMMON_LOG_H_

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal {

enum class LogLevel { kTrace, kDebug, kInfo, kWarning, kError, kOff };

Result<LogLevel> ParseLogLevel(std::string_view text);

struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, bool v) : key(k), value(v ? "true" : "false") {}
  LogField(std::string_view k, std::integral auto v) : key(k), value(std::to_string(v)) {}
  LogField(std::string_view k, double v);

  std::string_view key;
  std::string value;
};

void SetLogLevel(LogLevel level);
bool LogEnabled(LogLevel level);
// Values with spaces or quotes are quoted.
void WriteLog(LogLevel level, std::string_view category, std::string_view event,
              std::initializer_list<LogField> fields);
// Also appends every line to `path` (rotated at 10 MiB, three files kept).
Status AddLogFile(const std::string& path);

#define SHOAL_LOG(level, category, event, ...)                                     \
  do {                                                                             \
    if (::shoal::LogEnabled(::shoal::LogLevel::level))                             \
      ::shoal::WriteLog(::shoal::LogLevel::level, category, event, {__VA_ARGS__}); \
  } while (false)

}  // namespace shoal

#endif  // SHOAL_COMMON_LOG_H_
