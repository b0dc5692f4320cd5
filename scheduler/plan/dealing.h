// Dealing: which pipeline of a plan computes which of a step's micro-batches. Pure.

#ifndef SHOAL_SCHEDULER_PLAN_DEALING_H_
#define SHOAL_SCHEDULER_PLAN_DEALING_H_

#include <cstdint>
#include <map>
#include <vector>

#include "common/ids.h"

namespace shoal::scheduler {

// Rising.
using Pipelines = std::vector<std::uint32_t>;

// A run has as many homes as it wants pipelines, and micro-batch j is of home j modulo so many.
// Peers find their home again, whatever others come and go, and so the m of its samples.
struct Homes {
  std::uint32_t count = 0;             // 0: a log of an older version, which has none
  std::vector<std::uint32_t> of = {};  // by pipeline of the plan, each below `count`, each once
  bool operator==(const Homes&) const = default;
};
// Of a new plan's pipelines, whose `hosts` are by pipeline, then stage. `last`: where peers were
// last. Pipelines that have most peers of a home choose first, each what is free of its peers'
// homes; the others get the first that are left. At most `count` pipelines.
Homes HomesOf(const std::map<PeerId, std::uint32_t>& last, const std::vector<PeerId>& hosts,
              std::uint32_t stages, std::uint32_t count);

// First the pipelines that count when the step is planned, then, each time that some break before
// it is applied, those that are left. No list is empty. When the step is planned, micro-batches of
// homes that do not count go to others by rendezvous hashing, so that few move when a further
// pipeline goes or comes; none gets more than an equal share, rounded up. What others had of a step
// that is being trained goes to those that got least of that, and have least.
// Without homes: the k-th of n pipelines takes the micro-batches whose global index is k modulo n,
// and what others have goes to those that are left in order.
struct Dealing {
  Homes homes = {};
  std::vector<Pipelines> turns;

  const Pipelines& last() const { return turns.back(); }
  bool operator==(const Dealing&) const = default;
};

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
