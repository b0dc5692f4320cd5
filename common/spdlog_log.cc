#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <utility>

#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "common/log.h"

namespace shoal {
namespace {

constexpr std::size_t kLogFileBytesMax = 10 * 1024 * 1024;
constexpr std::size_t kLogFilesMax = 3;

std::atomic<LogLevel> g_level = LogLevel::kInfo;

// With the offset from UTC: peers of one swarm sit in different time zones.
constexpr char kPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v";

struct LogState {
  LogState() : logger("shoal", sinks) {
    auto standard_error = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    standard_error->set_pattern(kPattern);
    sinks->add_sink(std::move(standard_error));
    logger.set_level(spdlog::level::trace);
    logger.flush_on(spdlog::level::trace);
  }

  // Where lines go; adding to it is safe while others log.
  std::shared_ptr<spdlog::sinks::dist_sink_mt> sinks =
      std::make_shared<spdlog::sinks::dist_sink_mt>();
  spdlog::logger logger;
};

// Never destroyed: threads may log until the process ends.
LogState& TheLog() {
  static auto* const log = new LogState;
  return *log;
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

bool NeedsQuotes(std::string_view value) {
  return value.empty() || std::any_of(value.begin(), value.end(), [](char c) {
           return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '=' || c == 0x7f;
         });
}

// A peer's text must not be able to forge a log line or steer a terminal.
void AppendValue(std::string_view value, std::string* line) {
  if (!NeedsQuotes(value)) {
    line->append(value);
    return;
  }
  line->push_back('"');
  for (char c : value) {
    if (c == '"' || c == '\\') line->push_back('\\');
    if (static_cast<unsigned char>(c) >= ' ' && c != 0x7f) {
      line->push_back(c);
      continue;
    }
    std::array<char, 5> escaped;
    std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned char>(c));
    line->append(escaped.data());
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
  TheLog().logger.log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

Status AddLogFile(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode)) {
    return InvalidArgument("log file " + path + " is a pipe; delete it, a file takes its place");
  }
  try {
    auto file = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, kLogFileBytesMax,
                                                                       kLogFilesMax);
    file->set_pattern(kPattern);
    TheLog().sinks->add_sink(std::move(file));
  } catch (const spdlog::spdlog_ex& error) {
    return Unavailable("log file " + path + ": " + error.what());
  }
  return Status::Ok();
}

}  // namespace shoal
