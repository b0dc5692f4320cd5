#include "pipeline/boundary/link_memory.h"

namespace shoal::pipeline {

Result<std::vector<float>> LinkMemory::Sample(const compression::ValueHome& home,
                                              std::span<const float> values,
                                              std::size_t sample_values) {
  Buffer copied;
  if (!home.on_host()) {
    copied = Buffer(values.size_bytes());
    SHOAL_RETURN_IF_ERROR(home.CopyToHost(values, copied.bytes()));
    values = copied.floats();
  }
  std::vector<std::span<const float>> samples;
  for (std::size_t at = 0; at < values.size(); at += sample_values) {
    samples.push_back(values.subspan(at, sample_values));
  }
  return compression::SampleActivations(samples);
}

std::vector<float> LinkMemory::TakeActivations(std::uint32_t micro_batch) {
  auto found = activations_.extract(micro_batch);
  return found ? std::move(found.mapped()) : std::vector<float>();
}

}  // namespace shoal::pipeline
