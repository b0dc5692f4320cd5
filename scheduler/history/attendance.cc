#include "scheduler/history/attendance.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace shoal::scheduler {

std::uint32_t EventBudget::Left(TimePoint now) const {
  const std::uint64_t more =
      left_ < most_ ? static_cast<std::uint64_t>((now - counted_) / every_) : 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(most_, left_ + more));
}

void EventBudget::Take(TimePoint now) {
  const std::uint32_t left = Left(now);
  SHOAL_CHECK(left > 0);
  counted_ = left == most_ ? now : counted_ + (now - counted_) / every_ * every_;
  left_ = left - 1;
}

void Attendance::Restored(const StoredEvent& event) {
  restored_ = true;
  said_ = std::holds_alternative<SchedulerStarted>(event);
}

// One that is started again and again without doing anything says so once.
std::optional<SchedulerStarted> Attendance::Begin() {
  if (!std::exchange(restored_, false) || said_) return std::nullopt;
  return SchedulerStarted{};
}

bool Attendance::MayStore(const PeerId& peer, TimePoint now) {
  std::erase_if(of_member_, [&](const auto& entry) { return entry.second.Full(now); });
  const auto own = of_member_.find(peer);
  if (!all_.Any(now) || (own != of_member_.end() && !own->second.Any(now))) {
    ++unstored_;
    return false;
  }
  all_.Take(now);
  of_member_.try_emplace(peer, kAttendanceOfMemberMax, kAttendanceOfMemberEvery)
      .first->second.Take(now);
  return true;
}

std::optional<MemberCame> Attendance::Came(const PeerId& peer, const std::string& name,
                                           TimePoint now) {
  if (!MayStore(peer, now)) return std::nullopt;
  return MemberCame{peer, name, std::exchange(unstored_, 0)};
}

std::optional<MemberGone> Attendance::Gone(const PeerId& peer, const std::string& name,
                                           const std::string& reason, TimePoint now) {
  if (!MayStore(peer, now)) return std::nullopt;
  return MemberGone{peer, name, reason, std::exchange(unstored_, 0)};
}

}  // namespace shoal::scheduler
