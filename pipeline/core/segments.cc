#include "pipeline/core/segments.h"

#include <algorithm>

#include "common/status.h"
#include "compression/api/segment_count.h"

namespace shoal::pipeline {

std::vector<SegmentId> Segments::IdsOf(const std::vector<SampleId>& samples,
                                       std::uint32_t segment) const {
  std::vector<SegmentId> ids;
  ids.reserve(samples.size());
  for (const SampleId sample : samples) ids.push_back(IdOf(sample, segment));
  return ids;
}

Segments Divide(const compression::MessageCodec& codec, compression::SampleShape whole,
                std::uint32_t rows, std::uint64_t bytes_min) {
  const std::uint32_t count = compression::SegmentCount(codec, whole, rows, bytes_min);
  return {count, {whole.tokens / count, whole.hidden}};
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
