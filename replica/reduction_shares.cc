#include "replica/reduction_shares.h"

#include <algorithm>

#include "replica/collective/shares.h"

namespace shoal::replica {
namespace {

constexpr double kUnlimited = 1e14;  // bytes a second

}  // namespace

std::vector<double> SharesByRates(std::span<const LineRate> rates) {
  std::uint64_t fastest = 0;
  for (const LineRate& rate : rates) fastest = std::max(fastest, rate.upload_bps);
  if (fastest == 0) return {};
  std::vector<collective::MemberRates> members;
  for (const LineRate& rate : rates) {
    const auto bytes = [](std::uint64_t bps) { return static_cast<double>(bps) / 8; };
    members.push_back({bytes(rate.upload_bps > 0 ? rate.upload_bps : fastest),
                       rate.download_bps > 0 ? bytes(rate.download_bps) : kUnlimited});
  }
  // Rates out of range stand for nothing that is known.
  Result<std::vector<double>> shares = collective::BalanceShares(members);
  return shares.ok() ? *std::move(shares) : std::vector<double>();
}

}  // namespace shoal::replica
