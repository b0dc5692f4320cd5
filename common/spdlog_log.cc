#include <array>
#include <atomic>
#include <cstdio>

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "common/log.h"
#include "common/mutex.h"

namespace shoal {
namespace {

constexpr std::size_t kLogFileBytesMax = 10 * 1024 * 1024;
constexpr std::size_t kLogFilesMax = 3;

std::atomic<LogLevel> g_level = LogLevel::kInfo;

spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* made =
        new spdlog::logger("shoal", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_level(spdlog::level::trace);
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace: return spdlog::level::trace;
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: return spdlog::level::off;
  }
  return spdlog::level::off;
}

void AppendValue(std::string_view value, std::string* line) {
  const bool quote = value.empty() || value.find_first_of(" \"=\n\r\t") != std::string_view::npos;
  if (!quote) {
    line->append(value);
    return;
  }
  line->push_back('"');
  for (char c : value) {
    if (c == '"' || c == '\\') line->push_back('\\');
    // A peer's text must not be able to forge a log line.
    line->push_back(static_cast<unsigned char>(c) < 0x20 ? ' ' : c);
  }
  line->push_back('"');
}

}  // namespace

LogField::LogField(std::string_view k, double v) : key(k) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.6g", v);
  value = text.data();
}

Result<LogLevel> ParseLogLevel(std::string_view text) {
  if (text == "trace") return LogLevel::kTrace;
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warning") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  if (text == "off") return LogLevel::kOff;
  return InvalidArgument("'" + std::string(text) +
                         "' is not a log level; write trace, debug, info, warning, error or off");
}

void SetLogLevel(LogLevel level) { g_level = level; }

bool LogEnabled(LogLevel level) { return level >= g_level && g_level != LogLevel::kOff; }

void WriteLog(LogLevel level, std::string_view category, std::string_view event,
              std::initializer_list<LogField> fields) {
  std::string line(category);
  line.push_back(' ');
  line.append(event);
  for (const LogField& field : fields) {
    line.push_back(' ');
    line.append(field.key);
    line.push_back('=');
    AppendValue(field.value, &line);
  }
  Logger().log(ToSpdlog(level), "{}", line);
}

Status AddLogFile(const std::string& path) {
  try {
    Logger().sinks().push_back(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
        path, kLogFileBytesMax, kLogFilesMax));
    Logger().set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  } catch (const spdlog::spdlog_ex& error) {
    return Unavailable("log file " + path + ": " + error.what());
  }
  return Status::Ok();
}

}  // namespace shoal
