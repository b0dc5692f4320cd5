#include "replica/methods/warm_up.h"

#include <algorithm>

namespace shoal::replica {
namespace {

constexpr std::uint32_t kStartMax = 4000000000;

}  // namespace

std::uint64_t WarmUp::StartOf(std::uint64_t run_steps, std::uint64_t rate_warm_up) const {
  constexpr std::uint64_t kLeast = 10, kMost = 1000;
  if (start > 0) return start;
  return std::max(std::clamp(run_steps / 8, kLeast, kMost), rate_warm_up);
}

WarmUp WarmUp::OfRun(std::uint64_t run_steps, std::uint64_t rate_warm_up) const {
  if (start > 0) return *this;
  const std::uint64_t first = StartOf(run_steps, std::min(rate_warm_up, run_steps));
  return {std::min<std::uint64_t>(first, kStartMax)};
}

std::string WarmUp::Option() const {
  return "start=" + (start == 0 ? "auto" : std::to_string(start));
}

Result<WarmUp> ParseWarmUp(const compression::CodecSpec& spec) {
  const auto text = spec.Option("start");
  if (text.empty() || text == "auto") return WarmUp{};
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t start,
                         compression::NumberOption(spec, "start", 1, kStartMax, 0));
  return WarmUp{start};
}

}  // namespace shoal::replica
