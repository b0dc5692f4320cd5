#include "pipeline/segments.h"

#include <algorithm>

#include "common/status.h"

namespace shoal::pipeline {

std::vector<SampleId> Segments::IdsOf(const std::vector<SampleId>& samples,
                                      std::uint32_t segment) const {
  std::vector<SampleId> ids;
  ids.reserve(samples.size());
  for (const SampleId sample : samples) ids.push_back(IdOf(sample, segment));
  return ids;
}

Segments Divide(const compression::MessageCodec& codec, compression::SampleShape whole,
                std::uint32_t rows, std::uint64_t bytes_min) {
  if (!codec.divisible()) return {1, whole};
  const std::uint64_t bytes = rows * (std::uint64_t{whole.values()} * sizeof(float));
  for (std::uint32_t count = kSegmentsMax; count > 1; count /= 2) {
    if (whole.tokens % count != 0 || bytes / count < bytes_min) continue;
    return {count, {whole.tokens / count, whole.hidden}};
  }
  return {1, whole};
}

bool SegmentedVisits::Add(const std::vector<std::uint32_t>& without_m) {
  SHOAL_CHECK(left_ > 0);
  for (const std::uint32_t position : without_m) without_m_[position] = true;
  return --left_ == 0;
}

std::uint64_t SegmentedVisits::deltas() const {
  return static_cast<std::uint64_t>(std::count(without_m_.begin(), without_m_.end(), false));
}

}  // namespace shoal::pipeline
