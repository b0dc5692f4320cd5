// Dealing: which pipeline of a plan computes which of a step's micro-batches. Pure.

#ifndef SHOAL_SCHEDULER_PLAN_DEALING_H_
#define SHOAL_SCHEDULER_PLAN_DEALING_H_

#include <cstdint>
#include <vector>

namespace shoal::scheduler {

// Rising.
using Pipelines = std::vector<std::uint32_t>;

// First the pipelines that count when the step is planned: the k-th of n takes the micro-batches
// whose global index is k modulo n. Then, each time that some break before the step is applied,
// those that are left: what the others have goes to them in order, the k-th of it to the (k modulo
// n)-th. No list is empty.
using Dealing = std::vector<Pipelines>;

struct Dealt {
  std::uint32_t pipeline = 0;
  std::uint32_t turn = 0;  // index of the list by which it has the micro-batch
};
// By global index.
std::vector<Dealt> Deal(const Dealing& dealing, std::uint32_t micro_batches);

// How many of a step's micro-batches a pipeline has.
std::uint32_t MicroBatchesOf(const Dealing& dealing, std::uint32_t micro_batches,
                             std::uint32_t pipeline);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PLAN_DEALING_H_
