#include "replica/collective/shares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

namespace shoal::collective {
namespace {

constexpr double kRateMin = 1e-3, kRateMax = 1e15;
constexpr int kHalvings = 200;  // far beyond what fp64 can tell apart

double Rate(const MemberRates& rates) { return std::min(rates.up, rates.down); }

// The largest share with which a member is done at `time`.
double ShareBy(double time, const MemberRates& rates, std::size_t members) {
  return std::max(0.0, (time * Rate(rates) - 1) / static_cast<double>(members - 2));
}

}  // namespace

Result<std::vector<double>> BalanceShares(std::span<const MemberRates> rates) {
  for (const MemberRates& member : rates) {
    for (const double rate : {member.up, member.down}) {
      // Written so that NaN fails too.
      if (!(rate >= kRateMin && rate <= kRateMax)) {
        return InvalidArgument("a rate of " + std::to_string(rate) +
                               " bytes a second cannot be balanced; measure the link again");
      }
    }
  }
  const std::size_t members = rates.size();
  if (members <= 2) {
    return std::vector<double>(members, 1.0 / std::max<double>(1, static_cast<double>(members)));
  }
  const auto together = [&](double time) {
    double sum = 0;
    for (const MemberRates& member : rates) sum += ShareBy(time, member, members);
    return sum;
  };
  double early = 0, late = 0;  // at `late` the fastest alone could own everything
  for (const MemberRates& member : rates) late = std::max(late, Rate(member));
  late = static_cast<double>(members) / late;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = early + (late - early) / 2;
    (together(middle) < 1 ? early : late) = middle;
  }
  std::vector<double> shares;
  const double all = together(late);
  for (const MemberRates& member : rates) shares.push_back(ShareBy(late, member, members) / all);
  return shares;
}

}  // namespace shoal::collective
