// The exchange of exchange.h by PowerSGD (replica/collective/power_sgd_vector.h): factors of the
// vector's matrices in two rounds of an exact exchange, everything else beside the first factor.
// Steps before options.start go through the exact exchange as they are.
//
// Memory (a residual per member, Q equal on all) is of the epoch: it starts from zero with the
// object. Commit adopts that of the finished round, Rollback drops it. Only an all-reduce by kSum
// without a transform is possible; a request for anything else is refused.

#ifndef SHOAL_REPLICA_COLLECTIVE_POWER_SGD_EXCHANGE_H_
#define SHOAL_REPLICA_COLLECTIVE_POWER_SGD_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/executor.h"
#include "replica/collective/exchange.h"
#include "replica/collective/power_sgd.h"

namespace shoal::collective {

struct PowerSgdExchangeConfig {
  replica::PowerSgdOptions options;
  std::uint64_t seed = 0;                         // of the run
  std::uint32_t generation = 0;                   // of the group
  std::size_t rank = 0;                           // own place in it
  std::vector<std::vector<std::size_t>> tensors;  // dimensions of the vector's tensors, in order
  std::uint64_t rounds_per_step = 1;
  // Keeps the memory that a Commit replaces, and what Recycle gives, for the next round, instead of
  // having new pages cleared: 8 bytes a value between rounds.
  bool reuse_memory = false;
};

// The work on tensors is spread over the threads of `compute`, if it is a pool.
// A request's round minus 1, by `rounds_per_step`, is the step of the options. `exact`: sums fp32
// without memory, and is used by this object only. The executors outlive what is returned, and what
// was posted to them.
std::unique_ptr<Exchange> NewPowerSgdExchange(const PowerSgdExchangeConfig& config,
                                              std::unique_ptr<Exchange> exact, Executor* control,
                                              Executor* compute);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_POWER_SGD_EXCHANGE_H_
