#include "pipeline/schedule.h"

#include <algorithm>
#include <cmath>

namespace shoal::pipeline {
namespace {

// Measured times come from other peers: what is no sensible number counts as zero.
double Sane(double milliseconds) {
  return std::isfinite(milliseconds) && milliseconds > 0 ? milliseconds : 0;
}

}  // namespace

std::optional<Op> NextOp1f1b(const StageProgress& progress) {
  if (progress.weight_backwards < progress.backwards) {
    return Op{OpKind::kBackwardWeights, progress.weight_backwards};
  }
  if (progress.backwards < std::min(progress.forwards, progress.gradients_ready)) {
    return Op{OpKind::kBackwardInput, progress.backwards};
  }
  if (progress.forwards < std::min(progress.micro_batches, progress.inputs_ready) &&
      progress.forwards - progress.backwards < std::max(progress.in_flight, 1u)) {
    return Op{OpKind::kForward, progress.forwards};
  }
  return std::nullopt;
}

std::uint32_t ChooseInFlight(const std::vector<StageTimes>& stages, std::uint32_t stage,
                             std::uint32_t micro_batches, std::uint64_t memory_bytes) {
  if (stage >= stages.size()) return 1;
  const std::size_t count = stages.size();
  double round_trip = 0;
  double period = 0;  // of the slowest stage or link, which sets the pace of all
  for (std::size_t s = 0; s < count; ++s) {
    const double compute = Sane(stages[s].forward_ms) + Sane(stages[s].backward_ms);
    const double forward = s + 1 < count ? Sane(stages[s].send_forward_ms) : 0;
    const double backward = s > 0 ? Sane(stages[s].send_backward_ms) : 0;
    period = std::max({period, compute, forward, backward});
    if (s >= stage) round_trip += compute + forward + (s > stage ? backward : 0);
  }
  double chosen = static_cast<double>(count - stage);
  // The epsilon keeps a quotient that is whole up to rounding from becoming one more.
  if (period > 0) chosen = std::max(chosen, std::ceil(round_trip / period - 1e-9));
  chosen = std::min(chosen, static_cast<double>(micro_batches));
  const std::uint64_t each = stages[stage].micro_batch_bytes;
  if (memory_bytes > 0 && each > 0) {
    chosen = std::min(chosen, static_cast<double>(memory_bytes / each));
  }
  return static_cast<std::uint32_t>(std::max(chosen, 1.0));
}

}  // namespace shoal::pipeline
