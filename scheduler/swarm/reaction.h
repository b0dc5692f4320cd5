// Reaction: what the scheduler does about one event: when the event came, and the actions so far.
// Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_REACTION_H_
#define SHOAL_SCHEDULER_SWARM_REACTION_H_

#include <utility>
#include <vector>

#include "common/clock.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/swarm_state.h"

namespace shoal::scheduler {

class Reaction {
 public:
  // An event has come; actions that nobody took are dropped.
  void Begin(TimePoint now) {
    now_ = now;
    actions_.clear();
  }
  TimePoint now() const { return now_; }

  void Add(Action action) { actions_.push_back(std::move(action)); }
  // To the newest connection of the member.
  void Send(const Member& member, control::v1::SchedulerMessage message) {
    Add(SendTo{member.connection, std::move(message)});
  }
  // To those that are connected, in order.
  void SendEach(const std::vector<const Member*>& members,
                const control::v1::SchedulerMessage& message) {
    for (const Member* const member : members) {
      if (member->connected) Send(*member, message);
    }
  }
  std::vector<Action> Take() { return std::exchange(actions_, {}); }

 private:
  TimePoint now_{};
  std::vector<Action> actions_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_REACTION_H_
