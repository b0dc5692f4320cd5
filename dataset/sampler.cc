// The order of a class is a Fisher-Yates shuffle. Its draws are Philox4x32-10 (Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011), each at a counter of its own.

#include "dataset/sampler.h"

#include <Random123/philox.h>

#include <numeric>
#include <utility>

namespace shoal::dataset {
namespace {

// Rows of a class are drawn with 32-bit counters of pairs of draws.
constexpr std::uint64_t kMaxRows = 0xffffffff;

// Keeps these draws apart from others of the same seed.
constexpr std::uint32_t kSamplerDomain = 0x53414d50;

// Draw `index` of (seed, epoch, class): two 64-bit draws per block.
std::uint64_t Draw(std::uint64_t seed, std::uint64_t epoch, std::uint32_t sample_class,
                   std::uint64_t index) {
  const r123::Philox4x32::ctr_type counter{{static_cast<std::uint32_t>(index / 2), sample_class,
                                            static_cast<std::uint32_t>(epoch),
                                            static_cast<std::uint32_t>(epoch >> 32)}};
  const r123::Philox4x32::key_type key{
      {static_cast<std::uint32_t>(seed) ^ kSamplerDomain, static_cast<std::uint32_t>(seed >> 32)}};
  const auto block = r123::Philox4x32()(counter, key);
  const std::size_t half = 2 * (index % 2);
  return block[half] | std::uint64_t{block[half + 1]} << 32;
}

// A whole number below `bound` (less than 2^32), each equally likely up to 2^-32.
std::uint64_t Below(std::uint64_t draw, std::uint64_t bound) {
  // The high word of the 128-bit product; bound is short, so two halves do.
  const std::uint64_t low = (draw & 0xffffffff) * bound;
  return ((draw >> 32) * bound + (low >> 32)) >> 32;
}

// Settles the first `places` of a class's order, which then are those of the whole shuffle.
void Shuffle(std::uint64_t seed, std::uint64_t epoch, std::uint32_t sample_class,
             std::uint64_t places, std::vector<std::uint64_t>* order) {
  const std::uint64_t members = order->size();
  std::iota(order->begin(), order->end(), std::uint64_t{0});
  for (std::uint64_t i = 0; i < places; ++i) {
    std::swap((*order)[i], (*order)[i + Below(Draw(seed, epoch, sample_class, i), members - i)]);
  }
}

// Rows of class j, which are j, j + classes, ...
std::uint64_t RowsOfClass(std::uint64_t train_rows, std::uint32_t classes, std::uint32_t j) {
  return train_rows > j ? (train_rows - j - 1) / classes + 1 : 0;
}

}  // namespace

std::uint64_t SamplesOfPipeline(std::uint64_t train_rows, std::uint32_t micro_batches,
                                std::uint32_t pipeline, std::uint32_t pipelines) {
  std::uint64_t samples = 0;
  if (pipelines == 0) return 0;
  for (std::uint64_t j = pipeline; j < micro_batches; j += pipelines) {
    samples += RowsOfClass(train_rows, micro_batches, static_cast<std::uint32_t>(j));
  }
  return samples;
}

Sampler::Sampler(const SamplerOptions& options)
    : options_(options),
      steps_per_epoch_(options.train_rows / options.micro_batches / options.micro_batch_rows) {}

Result<Sampler> Sampler::Make(const SamplerOptions& options) {
  if (options.micro_batches == 0 || options.micro_batch_rows == 0) {
    return InvalidArgument(
        "a step needs at least one micro-batch of one sample: set micro-batches and samples per "
        "micro-batch to 1 or more");
  }
  if (options.train_rows > kMaxRows) {
    return InvalidArgument("the data has " + std::to_string(options.train_rows) +
                           " training rows, the limit is 2^32 - 1: use longer rows or less text");
  }
  const std::uint64_t per_step = std::uint64_t{options.micro_batches} * options.micro_batch_rows;
  if (options.train_rows < per_step) {
    return InvalidArgument("the data has " + std::to_string(options.train_rows) +
                           " training rows but a step takes " + std::to_string(per_step) +
                           ": use fewer or smaller micro-batches, or more text");
  }
  return Sampler(options);
}

std::vector<MicroBatchSamples> Sampler::Step(std::uint64_t step) const {
  const std::uint64_t epoch = step / steps_per_epoch_;
  const std::uint64_t first = step % steps_per_epoch_ * options_.micro_batch_rows;
  const std::uint64_t last = first + options_.micro_batch_rows;
  std::vector<MicroBatchSamples> micro_batches(options_.micro_batches);
  std::vector<std::uint64_t> order;
  for (std::uint32_t j = 0; j < options_.micro_batches; ++j) {
    order.resize(RowsOfClass(options_.train_rows, options_.micro_batches, j));
    Shuffle(options_.seed, epoch, j, last, &order);
    micro_batches[j].global_index = j;
    for (std::uint64_t i = first; i < last; ++i) {
      micro_batches[j].samples.push_back(SampleId{order[i] * options_.micro_batches + j});
    }
  }
  return micro_batches;
}

std::vector<SampleId> Sampler::OfEpoch(std::uint64_t epoch, std::uint32_t global_index) const {
  SHOAL_CHECK(global_index < options_.micro_batches);
  const std::uint64_t places = steps_per_epoch_ * options_.micro_batch_rows;
  std::vector<std::uint64_t> order(
      RowsOfClass(options_.train_rows, options_.micro_batches, global_index));
  Shuffle(options_.seed, epoch, global_index, places, &order);
  std::vector<SampleId> samples;
  samples.reserve(places);
  for (std::uint64_t i = 0; i < places; ++i) {
    samples.push_back(SampleId{order[i] * options_.micro_batches + global_index});
  }
  return samples;
}

}  // namespace shoal::dataset
