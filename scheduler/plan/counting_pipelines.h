// CountingPipelines: which pipelines of a plan have micro-batches, by step. Pure; thread: control.

#ifndef SHOAL_SCHEDULER_PLAN_COUNTING_PIPELINES_H_
#define SHOAL_SCHEDULER_PLAN_COUNTING_PIPELINES_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "scheduler/plan/dealing.h"

namespace shoal::scheduler {

class CountingPipelines {
 public:
  // A generation begins at `step`, whose pipelines have these homes; of no count: none.
  void Begin(std::uint64_t step, Homes homes, Pipelines pipelines) {
    homes_ = std::move(homes);
    from_ = {{step, {std::move(pipelines)}}};
  }
  // From this step on, which is not before the last that was said.
  void From(std::uint64_t step, Pipelines pipelines) { from_[step] = {std::move(pipelines)}; }
  // These are left of those that count, in order. The steps from `first` to before `end` are dealt
  // out already, to those of them that count there; from `end` on all do. False: a step has none.
  bool Left(std::uint64_t first, std::uint64_t end, const Pipelines& pipelines);
  // Of a step that is not before the first.
  Dealing DealingAt(std::uint64_t step) const { return {homes_, TurnsAt(step)}; }
  const Pipelines& At(std::uint64_t step) const { return TurnsAt(step).back(); }
  // How often the step was dealt out again.
  std::uint32_t AmendmentsOf(std::uint64_t step) const {
    return static_cast<std::uint32_t>(TurnsAt(step).size() - 1);
  }
  const Pipelines& newest() const { return from_.rbegin()->second.back(); }

 private:
  using Turns = std::vector<Pipelines>;
  const Turns& TurnsAt(std::uint64_t step) const {
    return std::prev(from_.upper_bound(step))->second;
  }

  Homes homes_;
  std::map<std::uint64_t, Turns> from_ = {{0, {{}}}};
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PLAN_COUNTING_PIPELINES_H_
