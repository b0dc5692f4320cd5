// The exchange of exchange.h in two levels, for groups of which some members share a LAN and its
// line to the others. Each LAN adds up first. Its leader exchanges with the leaders of the other
// LANs and gives its LAN the result.
//
// A round is as one of the direct exchange, with these differences. Codec, result codec, feedback,
// shares and error memories are those of the leaders' exchange (LanLeaders). Its contributions are
// the sums of the LANs. A round whose leaders differ from those of the last committed one starts
// with memories of zero. Inside a LAN contributions travel as `lan_codec` and results as fp32, both
// without feedback. Owners of shards are the leaders (HierarchicalShards). A transform runs there;
// in a reduce-scatter the other members get an empty vector. A LAN whose members all only listen
// needs its first one. Awaited names the member whose message is missing here. That member may
// itself wait for one of another LAN.

#ifndef SHOAL_REPLICA_COLLECTIVE_DIRECT_HIERARCHICAL_EXCHANGE_H_
#define SHOAL_REPLICA_COLLECTIVE_DIRECT_HIERARCHICAL_EXCHANGE_H_

#include <memory>
#include <string>

#include "compression/api/codec.h"
#include "replica/collective/direct/lan_groups.h"
#include "replica/collective/exchange.h"

namespace shoal::collective {

struct HierarchicalConfig {
  ExchangeConfig exchange;  // between LANs
  LanGroups groups;         // by member; equal on all members
  std::string lan_codec = compression::kLosslessCodec;
};

// Channel and executors outlive it, `control` also what was posted to `compute`. Rounds are below
// 2^55. An error if groups do not match the channel's members or as of NewDirectExchange.
Result<std::unique_ptr<Exchange>> NewHierarchicalExchange(const HierarchicalConfig& config,
                                                          GroupChannel* channel, Executor* control,
                                                          Executor* compute);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_DIRECT_HIERARCHICAL_EXCHANGE_H_
