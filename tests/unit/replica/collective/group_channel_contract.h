// What every GroupChannel does: one suite, run on all kinds of groups.

#ifndef SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_GROUP_CHANNEL_CONTRACT_H_
#define SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_GROUP_CHANNEL_CONTRACT_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "replica/collective/group_channel.h"
#include "tests/support/sim_executor.h"

namespace shoal::collective {

// All members of a group in one process, in virtual time.
class GroupRig {
 public:
  virtual ~GroupRig() = default;
  virtual std::size_t size() = 0;  // 3 or more
  virtual GroupChannel* member(std::size_t rank) = 0;

  // Runs `task` on the executor of all members and waits for it.
  void On(const std::function<void()>& task) {
    bool done = false;
    executor_->Post("test", [&] {
      task();
      done = true;
    });
    ASSERT_TRUE(world_.RunUntil([&done] { return done; }, std::chrono::minutes(1)));
  }
  bool Wait(const std::function<bool()>& holds) {
    return world_.RunUntil(holds, std::chrono::minutes(1));
  }
  // Until nothing is under way.
  void Settle() {
    while (world_.Step()) {
    }
  }
  Executor* executor() { return executor_.get(); }

 protected:
  test_support::SimWorld world_;
  const std::unique_ptr<Executor> executor_ = world_.NewExecutor("control");
};

using NewGroupRig = std::unique_ptr<GroupRig> (*)();

class GroupChannelContract : public testing::TestWithParam<NewGroupRig> {
 protected:
  struct Message {
    std::size_t from = 0;
    std::uint64_t tag = 0;
    std::string text;
    bool operator==(const Message&) const = default;
  };

  ~GroupChannelContract() override {
    On([this] {
      for (std::size_t r = 0; r < rig_->size(); ++r) rig_->member(r)->SetReceiver(nullptr);
    });
  }
  static Buffer Bytes(const std::string& text) {
    return Buffer::CopyOf(std::as_bytes(std::span(text)));
  }
  static std::string TextOf(const Buffer& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  GroupChannel::Receiver Into(std::vector<Message>* messages) {
    return [this, messages](std::size_t from, std::uint64_t tag, Buffer payload) {
      EXPECT_TRUE(rig_->executor()->InThread());
      EXPECT_FALSE(sending_);
      messages->push_back({from, tag, TextOf(payload)});
    };
  }
  void On(const std::function<void()>& task) { rig_->On(task); }
  Status Send(std::size_t from, std::size_t to, std::uint64_t tag, const std::string& text) {
    sending_ = true;
    Status status = rig_->member(from)->Send(to, tag, Bytes(text));
    sending_ = false;
    return status;
  }

  const std::unique_ptr<GroupRig> rig_ = GetParam()();
  bool sending_ = false;
};

TEST_P(GroupChannelContract, AllMembersAgreeOnTheOrder) {
  ASSERT_GE(rig_->size(), 3u);
  for (std::size_t r = 0; r < rig_->size(); ++r) {
    EXPECT_EQ(rig_->member(r)->size(), rig_->size());
    EXPECT_EQ(rig_->member(r)->rank(), r);
  }
}

TEST_P(GroupChannelContract, EveryPairKeepsItsOrder) {
  const std::size_t n = rig_->size();
  std::vector<std::vector<Message>> got(n);
  On([&] {
    for (std::size_t r = 0; r < n; ++r) rig_->member(r)->SetReceiver(Into(&got[r]));
    for (std::uint64_t i = 0; i < 20; ++i) {
      for (std::size_t from = 0; from < n; ++from) {
        for (std::size_t to = 0; to < n; ++to) {
          if (from == to) continue;
          const std::string text(i * 100, static_cast<char>('a' + from));
          ASSERT_TRUE(Send(from, to, 100 * to + i, text).ok());
        }
      }
    }
  });
  rig_->Settle();
  for (std::size_t to = 0; to < n; ++to) {
    ASSERT_EQ(got[to].size(), 20 * (n - 1));
    std::vector<std::uint64_t> next(n);
    for (const Message& message : got[to]) {
      const std::uint64_t i = next[message.from]++;
      EXPECT_EQ(message.tag, 100 * to + i);
      EXPECT_EQ(message.text, std::string(i * 100, static_cast<char>('a' + message.from)));
    }
    EXPECT_EQ(next[to], 0u);
  }
}

TEST_P(GroupChannelContract, AMessageToOneselfIsRefused) {
  On([this] { EXPECT_EQ(Send(1, 1, 0, "me").code(), StatusCode::kInvalidArgument); });
}

TEST_P(GroupChannelContract, WhatComesBeforeTheFirstReceiverIsDeliveredToIt) {
  On([this] {
    for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(Send(0, 1, i, std::to_string(i)).ok());
  });
  rig_->Settle();
  std::vector<Message> got;
  On([&] { rig_->member(1)->SetReceiver(Into(&got)); });
  On([this] { ASSERT_TRUE(Send(0, 1, 5, "5").ok()); });
  rig_->Settle();
  ASSERT_EQ(got.size(), 6u);
  for (std::uint64_t i = 0; i < 6; ++i) EXPECT_EQ(got[i], (Message{0, i, std::to_string(i)}));
}

TEST_P(GroupChannelContract, AReceiverTakesTheOthersPlace) {
  std::vector<Message> first, second;
  On([&] {
    rig_->member(2)->SetReceiver(Into(&first));
    ASSERT_TRUE(Send(0, 2, 1, "one").ok());
  });
  rig_->Settle();
  On([&] {
    rig_->member(2)->SetReceiver(Into(&second));
    ASSERT_TRUE(Send(1, 2, 2, "two").ok());
  });
  rig_->Settle();
  EXPECT_EQ(first, (std::vector<Message>{{0, 1, "one"}}));
  EXPECT_EQ(second, (std::vector<Message>{{1, 2, "two"}}));
}

TEST_P(GroupChannelContract, AReceiverMaySend) {
  std::vector<Message> got;
  On([&] {
    rig_->member(0)->SetReceiver(Into(&got));
    rig_->member(1)->SetReceiver(
        [this](std::size_t from, std::uint64_t tag, const Buffer& payload) {
          EXPECT_TRUE(Send(1, from, tag + 1, "re: " + TextOf(payload)).ok());
        });
    ASSERT_TRUE(Send(0, 1, 7, "question").ok());
  });
  rig_->Settle();
  EXPECT_EQ(got, (std::vector<Message>{{1, 8, "re: question"}}));
}

TEST_P(GroupChannelContract, NothingIsDeliveredWithoutAReceiver) {
  std::vector<Message> got;
  On([&] {
    rig_->member(1)->SetReceiver(Into(&got));
    rig_->member(1)->SetReceiver(nullptr);
    ASSERT_TRUE(Send(0, 1, 1, "late").ok());
  });
  rig_->Settle();
  EXPECT_TRUE(got.empty());
}

}  // namespace shoal::collective

#endif  // SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_GROUP_CHANNEL_CONTRACT_H_
