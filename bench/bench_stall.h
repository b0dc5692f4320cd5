// What a swarm that stands still waits for, from two looks at the status of each peer. Pure.

#ifndef SHOAL_BENCH_BENCH_STALL_H_
#define SHOAL_BENCH_BENCH_STALL_H_

#include <optional>
#include <string>
#include <vector>

namespace shoal::bench {

// The status of a peer as JSON text, some time apart; nullopt: it did not answer.
struct PeerLooks {
  std::optional<std::string> first, second;
};

// One line: the peers that do not answer, then each peer by stage. A peer has its activity between
// the two looks, its links that are down and its bytes that wait to be sent. `peers` in the order
// of their names, peer-0 first. `scheduler`: its status, as text.
std::string DescribeStall(const std::optional<std::string>& scheduler,
                          const std::vector<PeerLooks>& peers);

}  // namespace shoal::bench

#endif  // SHOAL_BENCH_BENCH_STALL_H_
