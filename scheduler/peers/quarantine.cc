#include "scheduler/peers/quarantine.h"

#include <algorithm>

namespace shoal::scheduler {

std::optional<Duration> Quarantine::Add(const PeerId& peer, const std::string& reason,
                                        TimePoint now) {
  if (faults_ == 0) return std::nullopt;
  std::erase_if(entries_, [now](const auto& entry) {
    const bool faultless =
        entry.second.faults.empty() || now - entry.second.faults.back() > kFaultAge;
    return faultless &&
           (entry.second.times == 0 || now - entry.second.until > kQuarantineForgotten);
  });
  Entry& entry = entries_[peer];
  while (!entry.faults.empty() && now - entry.faults.front() > kFaultAge) entry.faults.pop_front();
  entry.faults.push_back(now);
  if (entry.faults.size() < faults_) return std::nullopt;
  const int doubled = static_cast<int>(std::min(entry.times++, 10U));
  const Duration lasts = std::min<Duration>(kQuarantineMax, kQuarantineFirst * (1 << doubled));
  entry.until = now + lasts;
  entry.reason = reason;
  entry.faults.clear();
  return lasts;
}

std::string Quarantine::ReasonOf(const PeerId& peer, TimePoint now) const {
  const auto entry = entries_.find(peer);
  return entry != entries_.end() && now < entry->second.until ? entry->second.reason : "";
}

bool Quarantine::Release(const PeerId& peer, TimePoint now) {
  const bool held = !ReasonOf(peer, now).empty();
  if (held) entries_.erase(peer);
  return held;
}

}  // namespace shoal::scheduler
