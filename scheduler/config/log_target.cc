#include "scheduler/config/log_target.h"

#include <iterator>

namespace shoal::scheduler {
namespace {

constexpr std::string_view kPrefixes[] = {"tensorboard:", "jsonl:"};  // by kind

}  // namespace

std::string LogTarget::ToString() const {
  return std::string(kPrefixes[static_cast<std::size_t>(kind)]) + path;
}

Result<LogTarget> ParseLogTarget(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kPrefixes); ++i) {
    if (!text.starts_with(kPrefixes[i])) continue;
    LogTarget target{static_cast<LogTarget::Kind>(i),
                     std::string(text.substr(kPrefixes[i].size()))};
    if (target.path.empty() || target.path.find('\0') != std::string::npos) break;
    return target;
  }
  return InvalidArgument("\"" + std::string(text) +
                         "\" is no log; write tensorboard:FOLDER or jsonl:FILE");
}

}  // namespace shoal::scheduler
