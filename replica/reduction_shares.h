// Shares of a group's reduction by its members' lines. Pure. Thread: any.

#ifndef SHOAL_REPLICA_REDUCTION_SHARES_H_
#define SHOAL_REPLICA_REDUCTION_SHARES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace shoal::replica {

// What a peer's line carries, bits a second; 0: not known.
struct LineRate {
  std::uint64_t upload_bps = 0, download_bps = 0;
};

// By member, for ExchangeRequest::shares; empty: equal ones. A line whose upload is not known
// counts as the fastest known one, since nothing has slowed it down yet. A download that is not
// known counts as no limit. The same for the same rates on every machine.
std::vector<double> SharesByRates(std::span<const LineRate> rates);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_REDUCTION_SHARES_H_
