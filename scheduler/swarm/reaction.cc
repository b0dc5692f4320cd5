#include "scheduler/swarm/reaction.h"

namespace shoal::scheduler {

void Reaction::Begin(TimePoint now) {
  now_ = now;
  actions_.clear();
}

void Reaction::Send(const Member& member, control::v1::SchedulerMessage message) {
  Add(SendTo{member.connection, std::move(message)});
}

void Reaction::SendEach(const std::vector<const Member*>& members,
                        const control::v1::SchedulerMessage& message) {
  for (const Member* const member : members) {
    if (member->connected) Send(*member, message);
  }
}

}  // namespace shoal::scheduler
