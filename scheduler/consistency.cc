#include "scheduler/consistency.h"

#include <utility>

namespace shoal::scheduler {
namespace {

// Peers report a step at most a few steps apart; older halves will never find their other one.
constexpr std::uint64_t kStepsKept = 8;

}  // namespace

void ConsistencyChecks::Reset() {
  halves_.clear();
  weights_.clear();
}

void ConsistencyChecks::ForgetBefore(std::uint64_t step) {
  if (step < kStepsKept) return;
  const std::uint64_t oldest = step - kStepsKept;
  halves_.erase(halves_.begin(), halves_.lower_bound({oldest, 0, 0}));
  weights_.erase(weights_.begin(), weights_.lower_bound({oldest, 0}));
}

bool ConsistencyChecks::AddPlace(std::uint64_t step, std::uint32_t pipeline,
                                 const control::v1::PlaceChecksum& place) {
  ForgetBefore(step);
  const Half half{place.receiver(), place.checksum(), place.records()};
  const auto [found, first] = halves_.emplace(std::tuple(step, pipeline, place.boundary()), half);
  if (first || found->second.receiver == half.receiver) return true;
  const bool equal =
      found->second.checksum == half.checksum && found->second.records == half.records;
  halves_.erase(found);
  ++m_checks_;
  if (!equal) ++m_mismatches_;
  return equal;
}

bool ConsistencyChecks::AddWeights(std::uint64_t step, std::uint32_t stage,
                                   std::uint64_t checksum) {
  ForgetBefore(step);
  const auto [found, first] = weights_.emplace(std::pair(step, stage), checksum);
  if (first) return true;
  ++weight_checks_;
  if (found->second == checksum) return true;
  ++weight_mismatches_;
  return false;
}

}  // namespace shoal::scheduler
