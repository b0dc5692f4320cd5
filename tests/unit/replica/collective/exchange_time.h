// The model of replica/collective/shares.h: how long a direct exchange with given shares takes.

#ifndef SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_EXCHANGE_TIME_H_
#define SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_EXCHANGE_TIME_H_

#include <algorithm>
#include <cstddef>
#include <span>

#include "replica/collective/shares.h"

namespace shoal::collective {

// Seconds per byte of the vector that an exchange with these shares (sum 1) takes.
inline double ExchangeTime(std::span<const MemberRates> rates, std::span<const double> shares) {
  double end = 0;
  for (std::size_t r = 0; r < rates.size(); ++r) {
    const double bytes = 1 + (static_cast<double>(rates.size()) - 2) * shares[r];
    end = std::max(end, bytes / std::min(rates[r].up, rates[r].down));
  }
  return rates.size() == 1 ? 0 : end;
}

}  // namespace shoal::collective

#endif  // SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_EXCHANGE_TIME_H_
