// MemoryGroup: a stage group in one process: GroupChannels that deliver through a SimWorld, each
// pair in order, after a delay that the test chooses per message.

#ifndef SHOAL_TESTS_SUPPORT_MEMORY_GROUP_H_
#define SHOAL_TESTS_SUPPORT_MEMORY_GROUP_H_

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/executor.h"
#include "replica/collective/group_channel.h"
#include "tests/support/sim_executor.h"

namespace shoal::test_support {

class MemoryGroup {
 public:
  struct Message {
    std::size_t from, to;
    std::uint64_t tag;
    Buffer payload;
  };

  // A tap: nobody understands what arrives.
  static bool Garble(Message* message) {
    std::ranges::fill(message->payload.bytes(), std::byte{0xff});
    return true;
  }

  MemoryGroup(SimWorld* world, Executor* control, std::size_t size,
              std::function<Duration()> latency)
      : world_(world), control_(control), latency_(std::move(latency)) {
    for (std::size_t r = 0; r < size; ++r) members_.push_back(std::make_unique<Member>(this, r));
  }

  collective::GroupChannel* member(std::size_t rank) { return members_[rank].get(); }
  struct Blame {
    std::size_t by, of;
    Status status;
  };
  std::vector<Blame> blamed;
  // Sees every message before it travels; returns false to lose it.
  std::function<bool(Message*)> tap;

 private:
  class Member final : public collective::GroupChannel {
   public:
    Member(MemoryGroup* group, std::size_t rank) : group_(group), rank_(rank) {}
    std::size_t size() const override { return group_->members_.size(); }
    std::size_t rank() const override { return rank_; }
    Status Send(std::size_t to, std::uint64_t tag, Buffer payload) override {
      return group_->Send({rank_, to, tag, std::move(payload)});
    }
    void SetReceiver(Receiver receiver) override {
      receiver_ = std::move(receiver);
      if (!receiver_) return;
      for (Message& m : std::exchange(held_, {})) receiver_(m.from, m.tag, std::move(m.payload));
    }
    void Blame(std::size_t from, const Status& status) override {
      if (from != rank_) group_->blamed.push_back({rank_, from, status});
    }
    void Deliver(Message message) {
      if (!receiver_) return held_.push_back(std::move(message));
      receiver_(message.from, message.tag, std::move(message.payload));
    }

   private:
    MemoryGroup* const group_;
    const std::size_t rank_;
    Receiver receiver_;
    std::vector<Message> held_;
  };

  Status Send(Message message) {
    if (message.to >= members_.size() || message.to == message.from) {
      return InvalidArgument("no such member");
    }
    if (tap && !tap(&message)) return Status::Ok();
    TimePoint& last = last_[{message.from, message.to}];
    last = std::max(last, world_->Now() + latency_());
    auto held = std::make_shared<Message>(std::move(message));
    world_->At(last, [this, held] {
      control_->Post("deliver", [this, held] { members_[held->to]->Deliver(std::move(*held)); });
    });
    return Status::Ok();
  }

  SimWorld* const world_;
  Executor* const control_;
  const std::function<Duration()> latency_;
  std::vector<std::unique_ptr<Member>> members_;
  std::map<std::pair<std::size_t, std::size_t>, TimePoint> last_;
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_MEMORY_GROUP_H_
