#include "replica/methods/replica_method.h"

#include <algorithm>
#include <set>

#include "replica/methods/method_options.h"

namespace shoal::replica {
namespace {

constexpr std::uint32_t kMarsitSigns = 100;  // of all pipelines from one exact round to the next

}  // namespace

std::uint64_t ReplicaMethod::StartOf(std::uint64_t run_steps, std::uint64_t rate_warm_up) const {
  constexpr std::uint64_t kLeast = 10, kMost = 1000;
  if (start > 0) return start;
  return std::max(std::clamp(run_steps / 8, kLeast, kMost), rate_warm_up);
}

std::uint64_t ReplicaMethod::EveryOf(std::uint32_t pipelines) const {
  return every > 0 ? every : std::max(kMarsitSigns / std::max(pipelines, 1U), 1U);
}

std::string ReplicaMethod::SpecOfRun(std::uint64_t run_steps, std::uint64_t rate_warm_up) const {
  constexpr std::string_view kAuto = "start=auto";
  const std::size_t at = spec.find(kAuto);
  if (at == std::string::npos) return spec;
  // A start behind the end of the run is the same as none at all, however far behind it is.
  const std::uint64_t first = StartOf(run_steps, std::min(rate_warm_up, run_steps));
  std::string text = spec;
  return text.replace(at, kAuto.size(),
                      "start=" + std::to_string(std::min<std::uint64_t>(first, kStartMax)));
}

std::uint64_t ReplicaMethod::StateBytes(std::uint64_t values, std::uint32_t pipelines, bool bf16,
                                        std::uint64_t largest_unit) const {
  constexpr std::uint64_t kValue = sizeof(float), kSum = 8;
  const std::uint64_t weight = kValue + (bf16 ? 2 : 0);
  const std::uint64_t held = values * (weight + kValue);
  if (!shards_moments() || pipelines < 2) return held + values * 2 * kValue;
  std::uint64_t owners = pipelines;
  if (const auto lans = qsdp.LanOf(pipelines); lans.ok()) {
    owners = std::set<std::size_t>(lans->begin(), lans->end()).size();
  }
  if (qsdp.lan_auto()) owners = 1;  // all may turn out to share one LAN
  const std::uint64_t shard = (values + owners - 1) / owners;
  // The weights of two parts, the gradients of one; sums of gradients with the owners.
  if (shards_parameters()) {
    return shard * (3 * kValue + kSum) + largest_unit * (2 * weight + kValue);
  }
  return held + shard * (qsdp.delta ? 4 : 3) * kValue;
}

}  // namespace shoal::replica
