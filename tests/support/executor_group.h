// ExecutorGroup: a stage group in one process whose messages are tasks of their receivers'
// executors, threads as well as virtual ones.

#ifndef SHOAL_TESTS_SUPPORT_EXECUTOR_GROUP_H_
#define SHOAL_TESTS_SUPPORT_EXECUTOR_GROUP_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/executor.h"
#include "replica/collective/group_channel.h"

namespace shoal::test_support {

class ExecutorGroup {
 public:
  // The next member. All are added before any sends, and the group outlives what is posted.
  collective::GroupChannel* Add(Executor* executor) {
    members_.push_back(std::make_unique<Member>(this, members_.size(), executor));
    return members_.back().get();
  }
  collective::GroupChannel* member(std::size_t rank) { return members_[rank].get(); }
  // Called before each message is delivered, on its receiver's executor.
  std::function<void()> before_delivery;

 private:
  class Member final : public collective::GroupChannel {
   public:
    Member(ExecutorGroup* group, std::size_t rank, Executor* executor)
        : group_(group), rank_(rank), executor_(executor) {}
    std::size_t size() const override { return group_->members_.size(); }
    std::size_t rank() const override { return rank_; }
    Status Send(std::size_t to, std::uint64_t tag, Buffer payload) override {
      SHOAL_ASSERT_ON(*executor_);
      if (to >= size() || to == rank_) return InvalidArgument("no such member");
      Member* const member = group_->members_[to].get();
      auto held = std::make_shared<Buffer>(std::move(payload));
      member->executor_->Post("deliver", [member, from = rank_, tag, held] {
        member->Deliver({from, tag, std::move(*held)});
      });
      return Status::Ok();
    }
    void SetReceiver(Receiver receiver) override {
      SHOAL_ASSERT_ON(*executor_);
      receiver_ = std::move(receiver);
      if (!receiver_) return;
      for (Message& m : std::exchange(held_, {})) receiver_(m.from, m.tag, std::move(m.payload));
    }

   private:
    struct Message {
      std::size_t from;
      std::uint64_t tag;
      Buffer payload;
    };
    void Deliver(Message message) {
      if (group_->before_delivery) group_->before_delivery();
      if (!receiver_) return held_.push_back(std::move(message));
      receiver_(message.from, message.tag, std::move(message.payload));
    }

    ExecutorGroup* const group_;
    const std::size_t rank_;
    Executor* const executor_;
    Receiver receiver_;
    std::vector<Message> held_;
  };

  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_EXECUTOR_GROUP_H_
