#include "scheduler/peers/quarantine.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace shoal::scheduler {

// One more fault; what is too old to count is forgotten.
Quarantine::Entry& Quarantine::Note(const MemberFault& fault, TimePoint now) {
  std::erase_if(entries_, [now](const auto& entry) {
    const bool faultless =
        entry.second.faults.empty() || now - entry.second.faults.back() > kFaultAge;
    return faultless &&
           (entry.second.times == 0 || now - entry.second.until > kQuarantineForgotten);
  });
  Entry& entry = entries_[fault.peer];
  while (!entry.faults.empty() && now - entry.faults.front() > kFaultAge) entry.faults.pop_front();
  entry.faults.push_back(now);
  entry.kind = fault.kind;
  entry.cause = fault.cause;
  return entry;
}

void Quarantine::Begin(Entry* entry, Duration lasts, TimePoint now) {
  ++entry->times;
  entry->until = now + lasts;
  entry->counted = static_cast<std::uint32_t>(entry->faults.size());
  entry->faults.clear();
}

std::optional<Duration> Quarantine::Add(const PeerId& peer, FaultKind kind,
                                        const std::string& cause, TimePoint now) {
  if (faults_ == 0) return std::nullopt;
  Entry& entry = Note({peer, kind, cause}, now);
  if (entry.faults.size() < faults_) return std::nullopt;
  const int doubled = static_cast<int>(std::min(entry.times, 10U));
  const Duration lasts = std::min<Duration>(kQuarantineMax, kQuarantineFirst * (1 << doubled));
  Begin(&entry, lasts, now);
  return lasts;
}

// How long it lasts was decided when it was stored, by the settings of then.
void Quarantine::Restore(const StoredEvent& event, TimePoint at) {
  if (faults_ == 0) return;
  if (const auto* const pardoned = std::get_if<MemberPardoned>(&event)) {
    entries_.erase(pardoned->peer);
  } else if (const auto* const fault = std::get_if<MemberFault>(&event)) {
    Entry& entry = Note(*fault, at);
    constexpr std::uint64_t kMost = kQuarantineMax / std::chrono::milliseconds(1);
    const std::chrono::milliseconds lasts(std::min(fault->quarantine_ms, kMost));
    if (lasts.count() > 0) Begin(&entry, lasts, at);
  }
}

std::optional<Quarantine::Term> Quarantine::TermOf(const PeerId& peer, TimePoint now) const {
  const auto found = entries_.find(peer);
  if (found == entries_.end() || found->second.times == 0) return std::nullopt;
  const Entry& entry = found->second;
  if (now >= entry.until) return std::nullopt;
  return Term{entry.until - now, entry.kind, entry.cause, entry.counted};
}

std::map<PeerId, Quarantine::Term> Quarantine::Terms(TimePoint now) const {
  std::map<PeerId, Term> terms;
  for (const auto& [peer, entry] : entries_) {
    if (auto term = TermOf(peer, now)) terms.emplace(peer, *std::move(term));
  }
  return terms;
}

bool Quarantine::Release(const PeerId& peer, TimePoint now) {
  const bool held = TermOf(peer, now).has_value();
  if (held) entries_.erase(peer);
  return held;
}

}  // namespace shoal::scheduler
