#include "scheduler/swarm/attendance.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/text.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/peers/peer_message_check.h"

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

Attendance::Attendance(RunJournal* journal, const Reaction& reaction)
    : journal_(*journal), reaction_(reaction), all_(kAttendanceMax, kAttendanceEvery) {}

void Attendance::Restored(const StoredEvent& event) {
  restored_ = true;
  said_ = std::holds_alternative<SchedulerStarted>(event);
}

// One that is started again and again without doing anything says so once.
void Attendance::Begin() {
  if (std::exchange(restored_, false) && !said_) journal_.Store(SchedulerStarted{});
}

bool Attendance::MayStore(const PeerId& peer) {
  const TimePoint now = reaction_.now();
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

void Attendance::Came(const Member& member) {
  if (!MayStore(member.peer)) return;
  journal_.Store(MemberCame{member.peer, member.name, std::exchange(unstored_, 0)});
}

void Attendance::Gone(const Member& member, const std::string& reason) {
  if (!MayStore(member.peer)) return;
  journal_.Store(MemberGone{member.peer, member.name, CleanText(reason, kReasonCharactersMax),
                            std::exchange(unstored_, 0)});
}

}  // namespace shoal::scheduler
