#include "scheduler/steps/consistency.h"

#include <algorithm>
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

void ConsistencyChecks::Lose(std::uint32_t pipeline, std::uint32_t stage) {
  for (auto& [of, group] : weights_) {
    if (of.second == stage) group.erase(pipeline);
  }
}

bool ConsistencyChecks::AddChecksum(std::uint64_t step, std::uint32_t pipeline,
                                    const control::v1::BoundaryChecksum& end) {
  ForgetBefore(step);
  const Half half{end.receiver(), end.checksum(), end.records()};
  const auto [found, first] = halves_.emplace(std::tuple(step, pipeline, end.boundary()), half);
  if (first || found->second.receiver == half.receiver) return true;
  const bool equal =
      found->second.checksum == half.checksum && found->second.records == half.records;
  halves_.erase(found);
  ++m_checks_;
  if (!equal) ++m_mismatches_;
  return equal;
}

std::optional<WeightVerdict> ConsistencyChecks::AddWeights(std::uint64_t step, std::uint32_t stage,
                                                           std::uint32_t pipeline,
                                                           std::uint64_t checksum,
                                                           std::size_t members) {
  ForgetBefore(step);
  Group& group = weights_[{step, stage}];
  if (!group.emplace(pipeline, checksum).second || group.size() < members) return std::nullopt;
  return Judge(group);
}

WeightVerdict ConsistencyChecks::Judge(const Group& group) {
  std::map<std::uint64_t, std::size_t> votes;
  for (const auto& [pipeline, checksum] : group) ++votes[checksum];
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  WeightVerdict verdict;
  verdict.equal = votes.size() == 1;
  verdict.majority = 2 * most->second > group.size();
  for (const auto& [pipeline, checksum] : group) {
    if (!verdict.majority || checksum != most->first) verdict.differing.push_back(pipeline);
  }
  weight_checks_ += group.size() - 1;
  weight_mismatches_ += group.size() - most->second;
  return verdict;
}

}  // namespace shoal::scheduler
