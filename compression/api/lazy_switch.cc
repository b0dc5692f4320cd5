#include "compression/api/lazy_switch.h"

#include <algorithm>
#include <cmath>

namespace shoal::compression {
namespace {

constexpr std::size_t kBlocks = 256;
constexpr std::size_t kBlock = 64;

// Copies values [first, first + count) of the samples taken as one row.
void Copy(std::span<const std::span<const float>> samples, std::size_t first, std::size_t count,
          std::vector<float>* to) {
  for (const std::span<const float> sample : samples) {
    if (first >= sample.size()) {
      first -= sample.size();
      continue;
    }
    const auto part = sample.subspan(first, std::min(count, sample.size() - first));
    to->insert(to->end(), part.begin(), part.end());
    count -= part.size();
    first = 0;
    if (count == 0) return;
  }
}

}  // namespace

std::vector<float> SampleActivations(std::span<const std::span<const float>> samples) {
  std::size_t values = 0;
  for (const auto& sample : samples) values += sample.size();
  std::vector<float> taken;
  taken.reserve(std::min(values, kBlocks * kBlock));
  if (values <= kBlocks * kBlock) {
    Copy(samples, 0, values, &taken);
    return taken;
  }
  const std::size_t stride = values / kBlocks;
  for (std::size_t b = 0; b < kBlocks; ++b) {
    // Not at equal distances, or every block could meet the same hidden positions.
    const std::size_t shift = (b * 2654435761U >> 7) % (stride - kBlock + 1);
    Copy(samples, b * stride + shift, kBlock, &taken);
  }
  return taken;
}

LazySwitch Observed(const LazySwitch& before, std::span<const float> sample) {
  LazySwitch next = before;
  double both = 0, last = 0, now = 0;
  const bool paired = sample.size() == before.previous.size();
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const double x = sample[i];
    now += x * x;
    if (!paired) continue;
    both += x * before.previous[i];
    last += double{before.previous[i]} * before.previous[i];
  }
  if (sample.empty() || !std::isfinite(now)) return next;
  next.previous.assign(sample.begin(), sample.end());
  if (!paired || now == 0 || last == 0) return next;
  ++next.seen;
  const double share = std::max(kCorrelationShare, 1.0 / static_cast<double>(next.seen));
  next.correlation += share * (both / std::sqrt(now * last) - next.correlation);
  next.on = next.correlation > (before.on ? kLazyOffBelow : kLazyOnAbove);
  return next;
}

}  // namespace shoal::compression
