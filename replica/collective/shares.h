// Shares of a reduction for members with uneven links: members with faster lines own more.
//
// Model of a direct exchange: a member sends its values to the owners of the other shards, and the
// result of its own shard to all others. Meanwhile it receives the others' values of its own shard,
// and the results of the other shards. With d members and share x, per value of the vector and
// direction:
//   up:   (1 - x) + (d - 1) x = 1 + (d - 2) x       the same down.
// So a member needs (1 + (d - 2) x) times the vector's bytes over the slower of its two rates. The
// exchange takes as long as its slowest member. Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_SHARES_H_
#define SHOAL_REPLICA_COLLECTIVE_SHARES_H_

#include <span>
#include <vector>

#include "common/status.h"

namespace shoal::collective {

struct MemberRates {
  double up = 0, down = 0;  // bytes a second that the member's line carries, each way
};

// Shares (>= 0, sum 1) for which the exchange ends soonest, by bisection on its end t. By t a
// member can have moved what a share x(t) needs. x(t) grows with t, and all shares together must be
// the whole. Members too slow for a share have 0. Where only the slowest member's own values count,
// the others share as if it were not there; two members, whose shares do not matter, have halves.
// Equal rates give equal shares. Rates must be positive and finite (1e-3 to 1e15). All members must
// call it with the same rates. Borders come to multiples of a row by ShardLayout.
Result<std::vector<double>> BalanceShares(std::span<const MemberRates> rates);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_SHARES_H_
