// StepClock: how long a pipeline's part of a step takes, by the step simulation; what it was asked
// before it remembers. Thread: one.

#ifndef SHOAL_DAEMON_CHURN_STEP_CLOCK_H_
#define SHOAL_DAEMON_CHURN_STEP_CLOCK_H_

#include <cstdint>
#include <map>
#include <vector>

#include "daemon/churn/trained_model.h"

namespace shoal::daemon {

// A pipeline's part of a step.
struct PipelineWork {
  std::uint32_t micro_batches = 0;
  std::vector<std::uint32_t> first_visits;  // by boundary, of its micro-batches
  std::vector<std::uint32_t> percent;       // by stage: of its upload; empty: all of it
  auto operator<=>(const PipelineWork&) const = default;

  // Samples that are no first visits, over all boundaries.
  std::uint64_t Deltas(std::uint32_t micro_batch_rows) const {
    std::uint64_t deltas = 0;
    for (const std::uint32_t first : first_visits) {
      deltas += std::uint64_t{micro_batches} * micro_batch_rows - first;
    }
    return deltas;
  }
};

struct PipelineTimes {
  double seconds = 0;
  std::vector<double> done_seconds;  // by stage, since the start
};

class StepClock {
 public:
  StepClock(const TrainedModel& model, const ChurnSettings& settings)
      : model_(model), settings_(settings) {}

  const PipelineTimes& TimesOf(const PipelineWork& work);
  // Of a stage group of so many members, after the backward; shadows get the sums, too.
  double ExchangeSeconds(std::uint32_t stage, std::uint32_t members, std::uint32_t shadows) const;
  // From one Apply to the next, of pipelines the slowest of which takes so long.
  double PeriodSeconds(double slowest, std::uint32_t members) const;
  // The same without churn: all of the run's pipelines, with so many first visits among them.
  double UsualSeconds(std::uint32_t first_visits, std::vector<std::uint32_t> percent);
  // What a stage sends in a step.
  double SentBits(const PipelineWork& work, std::uint32_t stage, std::uint32_t members) const;

 private:
  double ForwardBytes(const PipelineWork& work, std::uint32_t boundary) const;

  const TrainedModel& model_;
  const ChurnSettings& settings_;
  std::map<PipelineWork, PipelineTimes> known_;
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_STEP_CLOCK_H_
