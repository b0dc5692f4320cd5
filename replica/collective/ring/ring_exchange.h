// The exchange of exchange.h by hops around a ring or torus: the fp32 sum, exact but for rounding.
//
// For groups whose members cannot all reach each other. A member of weight 0 passes on what the
// others send. The order of a sum is that of the hops (ring_plan.h). There are no error memories.

#ifndef SHOAL_REPLICA_COLLECTIVE_RING_RING_EXCHANGE_H_
#define SHOAL_REPLICA_COLLECTIVE_RING_RING_EXCHANGE_H_

#include <memory>

#include "common/executor.h"
#include "replica/collective/exchange.h"
#include "replica/collective/group_channel.h"
#include "replica/collective/ring/ring_reduce.h"

namespace shoal::collective {

// Channel and executors outlive it, `control` also what was posted to `compute`.
std::unique_ptr<Exchange> NewRingExchange(const RingOptions& options, GroupChannel* channel,
                                          Executor* control, Executor* compute);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_RING_RING_EXCHANGE_H_
