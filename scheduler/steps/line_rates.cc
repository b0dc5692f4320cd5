#include "scheduler/steps/line_rates.h"

#include <algorithm>
#include <cstddef>

#include "common/status.h"

namespace shoal::scheduler {
namespace {

bool Alike(std::uint64_t a, std::uint64_t b) {
  if (a == 0 || b == 0) return a == b;
  return static_cast<double>(std::max(a, b)) < kLineRateRatio * static_cast<double>(std::min(a, b));
}

bool Alike(const LineRate& a, const LineRate& b) {
  return Alike(a.upload_bps, b.upload_bps) && Alike(a.download_bps, b.download_bps);
}

}  // namespace

bool LineRates::Uneven(const std::vector<LineRate>& rates) const {
  for (std::uint32_t stage = 0; stage < stages_; ++stage) {
    for (std::uint32_t pipeline = 1; pipeline < pipelines_; ++pipeline) {
      if (!Alike(rates[std::size_t{pipeline} * stages_ + stage], rates[stage])) return true;
    }
  }
  return false;
}

std::vector<LineRate> LineRates::Tell(std::uint64_t step, const std::vector<LineRate>& known) {
  SHOAL_CHECK(known.size() == std::size_t{pipelines_} * stages_);
  if (told_.empty()) {
    if (!Uneven(known)) return {};
  } else {
    const bool same = std::equal(known.begin(), known.end(), told_.begin(),
                                 [](const LineRate& a, const LineRate& b) { return Alike(a, b); });
    if (same || step < told_step_ + kLineRateSteps) return {};
  }
  told_ = known;
  told_step_ = step;
  return told_;
}

}  // namespace shoal::scheduler
