// Sampler: which samples each micro-batch has at a step. Pure and counter-based,
// so that any step can be computed without the ones before it.
//
// The training rows fall into `micro_batches` classes (row mod micro_batches); class j feeds
// micro-batch j of every step, in an order drawn per epoch from (seed, epoch, j). Of D
// pipelines, the one at home h takes the micro-batches j with j mod D = h
// (scheduler/plan/dealing.h). So a sample stays on its pipeline (m lives where the sample was), and
// the samples of a step do not depend on D.

#ifndef SHOAL_DATASET_SAMPLER_H_
#define SHOAL_DATASET_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "common/status.h"

namespace shoal::dataset {

struct SamplerOptions {
  std::uint64_t seed = 0;
  std::uint64_t train_rows = 0;
  std::uint32_t micro_batches = 0;     // per step, over all pipelines
  std::uint32_t micro_batch_rows = 0;  // samples per micro-batch
};

struct MicroBatchSamples {
  std::uint32_t global_index = 0;  // position in the step's order of summation
  std::vector<SampleId> samples;
};

// How many of the rows pipeline `pipeline` of `pipelines` has. 0 without micro-batches or
// pipelines.
std::uint64_t SamplesOfPipeline(std::uint64_t train_rows, std::uint32_t micro_batches,
                                std::uint32_t pipeline, std::uint32_t pipelines);

class Sampler {
 public:
  // Needs train_rows >= micro_batches * micro_batch_rows; the tail of an epoch that does not fill
  // a step is dropped (other rows each epoch).
  static Result<Sampler> Make(const SamplerOptions& options);

  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  // All micro-batches of a step in global order.
  std::vector<MicroBatchSamples> Step(std::uint64_t step) const;
  // The samples of one micro-batch in all steps of an epoch, step after step: in one pass, where
  // Step takes one for each step.
  std::vector<SampleId> OfEpoch(std::uint64_t epoch, std::uint32_t global_index) const;
  const SamplerOptions& options() const { return options_; }

 private:
  explicit Sampler(const SamplerOptions& options);
  SamplerOptions options_;
  std::uint64_t steps_per_epoch_ = 0;
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_SAMPLER_H_
