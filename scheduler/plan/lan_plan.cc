#include "scheduler/plan/lan_plan.h"

#include <algorithm>
#include <limits>

#include "replica/methods/replica_method.h"

namespace shoal::scheduler {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

// Numbers for LANs of two members or more; `ids` name any.
std::vector<std::uint32_t> Numbered(std::span<const std::size_t> ids) {
  std::map<std::size_t, std::uint32_t> members, numbers;
  for (const std::size_t id : ids) ++members[id];
  std::vector<std::uint32_t> lans;
  for (const std::size_t id : ids) {
    const auto next = static_cast<std::uint32_t>(numbers.size() + 1);
    lans.push_back(members[id] > 1 ? numbers.try_emplace(id, next).first->second : 0);
  }
  return lans;
}

std::vector<std::uint32_t> MeasuredLans(const std::vector<PeerId>& peers,
                                        const RoundTripBook& book) {
  std::vector<double> ms;
  for (const PeerId& from : peers) {
    for (const PeerId& to : peers) ms.push_back(book.Of(from, to));
  }
  return LansByRoundTrip(ms, peers.size());
}

}  // namespace

std::vector<std::uint32_t> LansByRoundTrip(std::span<const double> ms, std::size_t members) {
  SHOAL_CHECK(ms.size() == members * members);
  struct Pair {
    double ms;
    std::size_t a, b;
    auto operator<=>(const Pair&) const = default;
  };
  std::vector<Pair> near;
  std::vector<double> width(ms.size());  // of what two LANs would be together
  for (std::size_t a = 0; a < members; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const double there = ms[a * members + b], back = ms[b * members + a];
      const double both = there >= 0 && back >= 0 ? std::max(there, back) : kFar;
      width[a * members + b] = width[b * members + a] = both;
      if (both < kLanNearMs) near.push_back({both, b, a});
    }
  }
  std::sort(near.begin(), near.end());
  std::vector<std::size_t> lan(members);
  for (std::size_t i = 0; i < members; ++i) lan[i] = i;
  for (const Pair& pair : near) {
    const std::size_t a = lan[pair.a], b = lan[pair.b];
    if (a == b || !(width[a * members + b] < kLanWidthMs)) continue;
    std::replace(lan.begin(), lan.end(), b, a);
    for (std::size_t other = 0; other < members; ++other) {
      const double both = std::max(width[a * members + other], width[b * members + other]);
      width[a * members + other] = width[other * members + a] = both;
    }
  }
  return Numbered(lan);
}

void RoundTripBook::Add(const PeerId& from, const PeerId& to, double ms) {
  const auto [known, fresh] = ms_.try_emplace({from, to}, ms);
  if (!fresh) known->second = std::min(known->second, ms);
}

void RoundTripBook::Forget(const PeerId& peer) {
  std::erase_if(ms_, [&](const auto& entry) {
    return entry.first.first == peer || entry.first.second == peer;
  });
}

double RoundTripBook::Of(const PeerId& from, const PeerId& to) const {
  const auto known = ms_.find({from, to});
  return known == ms_.end() ? -1 : known->second;
}

PlanLans LansOfPlan(const RunConfig& config, const PlacementPlan& plan, const RoundTripBook& book) {
  const auto method = replica::ParseReplicaMethod(config.replica_method);
  if (!method.ok() || !method->traits.uses_lans || config.pipelines < 2) return {};
  PlanLans lans;
  const auto lan_of = method->LanOf(config.pipelines);
  if (!lan_of.ok()) return {};
  const bool measured = method->traits.measures_lans;
  for (std::uint32_t stage = 0; stage < config.stages; ++stage) {
    std::vector<PeerId> peers;
    for (const auto& pipeline : plan) peers.push_back(pipeline[stage]);
    lans.stages.push_back(measured ? MeasuredLans(peers, book) : Numbered(*lan_of));
  }
  std::vector<PeerId> peers;
  for (const std::uint32_t stage : config.sharing) {
    for (const auto& pipeline : plan) peers.push_back(pipeline[stage]);
    // All stages of a pipeline are where it is, but apart if it shares none.
    const std::vector<std::uint32_t>& named = lans.stages[stage];
    if (!measured) lans.shared.insert(lans.shared.end(), named.begin(), named.end());
  }
  if (measured && !peers.empty()) lans.shared = MeasuredLans(peers, book);
  return lans;
}

}  // namespace shoal::scheduler
