// CountingPipelines: which pipelines of a plan have micro-batches, by step. The k-th of n takes
// those whose global index is k modulo n. Pure; thread: control.

#ifndef SHOAL_SCHEDULER_STEPS_COUNTING_PIPELINES_H_
#define SHOAL_SCHEDULER_STEPS_COUNTING_PIPELINES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace shoal::scheduler {

// Rising.
using Pipelines = std::vector<std::uint32_t>;

class CountingPipelines {
 public:
  // A generation begins at `step`.
  void Begin(std::uint64_t step, Pipelines pipelines) { from_ = {{step, std::move(pipelines)}}; }
  // From this step on, which is not before the last that was said.
  void From(std::uint64_t step, Pipelines pipelines) { from_[step] = std::move(pipelines); }
  // Of a step that is not before the first.
  const Pipelines& At(std::uint64_t step) const {
    return std::prev(from_.upper_bound(step))->second;
  }
  const Pipelines& newest() const { return from_.rbegin()->second; }

 private:
  std::map<std::uint64_t, Pipelines> from_ = {{0, {}}};
};

// The pipeline that has the micro-batch; `counting` is not empty.
inline std::uint32_t PipelineOf(const Pipelines& counting, std::uint32_t global_index) {
  return counting[global_index % counting.size()];
}

// How many of a step's micro-batches a pipeline has.
std::uint32_t MicroBatchesOf(const Pipelines& counting, std::uint32_t micro_batches,
                             std::uint32_t pipeline);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STEPS_COUNTING_PIPELINES_H_
