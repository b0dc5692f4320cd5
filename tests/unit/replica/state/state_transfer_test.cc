// One shadow and one or two holders: what is asked for, what comes too late, and what may not come.

#include "replica/state/state_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "replica/state/state_message.h"
#include "replica/state/state_share.h"
#include "tests/support/memory_group.h"
#include "tests/support/tiny_stage.h"

namespace shoal::replica {
namespace {

using test_support::MemoryGroup;
using test_support::SimWorld;
using test_support::TinyStage;
using ::testing::HasSubstr;

constexpr std::size_t kVectors = kStateVectors;

class StateTransferTest : public testing::Test {
 protected:
  struct Peer {
    std::unique_ptr<TinyStage> model;
    std::unique_ptr<Member> member;
    std::unique_ptr<StateTransfer> transfer;
    std::uint64_t steps = 5;
    bool at_work = false;
    bool complete = false;
    std::string failure;
  };

  // The first `holders` of the group hold the stage, the others are shadows.
  void Make(std::size_t holders, std::size_t count, std::size_t chunk_values = 16) {
    const auto delay = [](const char*) { return Duration(1000); };
    control_ = world_.NewExecutor("control", delay);
    compute_ = world_.NewExecutor("compute", delay);
    group_ = std::make_unique<MemoryGroup>(&world_, control_.get(), count,
                                           [] { return Duration(100'000); });
    group_->tap = [this](MemoryGroup::Message* message) { return !tap_ || tap_(message); };
    for (std::size_t r = 0; r < count; ++r) {
      peers_.push_back(std::make_unique<Peer>());
      Peer* const peer = peers_.back().get();
      peer->model = std::make_unique<TinyStage>(
          test_support::TinyShape{.layers = 2, .hidden = 8, .vocabulary = 20, .adamw = true},
          model::StageRange{0, 2}, r < holders ? 5 : 6);
      peer->member = std::make_unique<Member>(Member{.config = {},
                                                     .control = control_.get(),
                                                     .compute = compute_.get(),
                                                     .codec = compute_.get(),
                                                     .model = peer->model.get()});
      peer->member->fail = [peer](const Status& status, const PeerId*) {
        if (peer->failure.empty()) peer->failure = status.message();
      };
      StateTransfer::Options options;
      for (std::size_t h = 0; h < holders; ++h) options.holders.push_back(h);
      options.state_size = peer->model->state_size();
      options.shadow = r >= holders;
      options.shadows = count - holders;
      if (options.shadow) options.missing = MissingValues(options.state_size);
      options.chunk_values_max = chunk_values;
      options.steps_held = [peer] {
        return peer->at_work ? std::nullopt : std::optional(peer->steps);
      };
      options.on_complete = [peer] { peer->complete = true; };
      peer->transfer = std::make_unique<StateTransfer>(peer->member.get(), group_->member(r),
                                                       std::move(options));
    }
  }
  void TearDown() override { peers_.clear(); }

  void On(const std::function<void()>& task) {
    bool done = false;
    control_->Post("test", [&] {
      task();
      done = true;
    });
    world_.RunUntil([&] { return done; }, std::chrono::seconds(10));
  }
  bool Run(const std::function<bool()>& done) {
    return world_.RunUntil(done, std::chrono::minutes(10));
  }
  static std::vector<float> StateOf(TinyStage* model) {
    std::vector<float> state(kVectors * model->state_size());
    std::size_t v = 0;
    for (const auto which : {model::StateVector::kWeights, model::StateVector::kFirstMoment,
                             model::StateVector::kSecondMoment}) {
      const std::span<float> part(state.data() + v++ * model->state_size(), model->state_size());
      EXPECT_TRUE(model->Read(which, 0, part).ok());
    }
    return state;
  }
  void Send(std::size_t from, std::size_t to, Buffer message) {
    On([&] { EXPECT_TRUE(group_->member(from)->Send(to, 0, std::move(message)).ok()); });
    world_.RunUntil([] { return false; }, std::chrono::seconds(1));
  }

  SimWorld world_;
  std::unique_ptr<Executor> control_, compute_;
  std::unique_ptr<MemoryGroup> group_;
  std::function<bool(MemoryGroup::Message*)> tap_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

TEST_F(StateTransferTest, AShadowGetsAllFromAllHolders) {
  Make(2, 3);
  std::vector<std::size_t> chunks(2);
  tap_ = [&](MemoryGroup::Message* message) {
    if (message->to == 2) ++chunks[message->from];
    return true;
  };
  On([&] { peers_[2]->transfer->Start(); });
  ASSERT_TRUE(Run([&] { return peers_[2]->complete; }));
  EXPECT_EQ(StateOf(peers_[2]->model.get()), StateOf(peers_[0]->model.get()));
  EXPECT_GT(chunks[0], 1u);
  EXPECT_GT(chunks[1], 1u);
  On([&] {
    EXPECT_TRUE(peers_[2]->transfer->missing().empty());
    EXPECT_EQ(peers_[2]->transfer->bytes_here(), peers_[2]->transfer->bytes_wanted());
  });
}

// A slow line of one holder slows the steps of all: with more holders each rests for longer.
TEST_F(StateTransferTest, AHolderRestsAsTheShareOfItsLineAsks) {
  EXPECT_DOUBLE_EQ(StateShareOf(1, 1), 0.5);
  EXPECT_DOUBLE_EQ(StateShareOf(1, 3), 0.75);
  EXPECT_DOUBLE_EQ(StateShareOf(15, 1), kStateShareMin);
  std::vector<double> busy;  // part of the time in which a chunk is on its way, by holders
  for (const std::size_t holders : {1u, 4u}) {
    peers_.clear();
    Make(holders, holders + 1, 1);
    TimePoint sent{}, first{}, last{};
    Duration under_way{};
    tap_ = [&](MemoryGroup::Message* message) {
      const TimePoint now = control_->clock().Now();
      if (message->from == 0 && first == TimePoint{}) first = now;
      if (message->from == 0) sent = last = now;
      if (message->to == 0 && sent != TimePoint{}) under_way += now - sent;
      return true;
    };
    On([&] { peers_[holders]->transfer->Start(); });
    ASSERT_TRUE(Run([&] { return peers_[holders]->complete; }));
    busy.push_back(std::chrono::duration<double>(under_way) /
                   std::chrono::duration<double>(last - first));
  }
  // The holder counts the way of the request, too, which takes as long here.
  EXPECT_NEAR(2 * busy[0], 0.5, 0.05);
  EXPECT_NEAR(2 * busy[1], kStateShareMin, 0.05);
}

// What a holder was asked for and has not sent when it leaves comes from the other.
TEST_F(StateTransferTest, OthersSendWhatAHolderThatLeftWasAskedFor) {
  Make(2, 3);
  bool gone = false;
  tap_ = [&](MemoryGroup::Message* message) { return !gone || message->from != 0; };
  On([&] { peers_[2]->transfer->Start(); });
  ASSERT_TRUE(Run([&] { return peers_[2]->transfer->bytes_here() > 0; }));
  gone = true;
  world_.RunUntil([] { return false; }, std::chrono::seconds(5));
  EXPECT_FALSE(peers_[2]->complete);
  On([&] {
    const std::uint32_t gone_member = 0;
    peers_[2]->transfer->Leave({&gone_member, 1});
  });
  ASSERT_TRUE(Run([&] { return peers_[2]->complete; }));
  EXPECT_EQ(StateOf(peers_[2]->model.get()), StateOf(peers_[1]->model.get()));
  EXPECT_EQ(peers_[2]->failure, "");
}

// A chunk of a step that the shadow has left behind is asked for again; one of the next step waits
// for it.
TEST_F(StateTransferTest, WhatComesLateIsAskedForAgainAndWhatComesEarlyWaits) {
  Make(1, 2, 1000);
  peers_[1]->steps = 6;
  On([&] { peers_[1]->transfer->Start(); });
  world_.RunUntil([] { return false; }, std::chrono::seconds(2));
  EXPECT_FALSE(peers_[1]->complete);
  EXPECT_EQ(peers_[1]->failure, "");
  peers_[0]->steps = 7;
  world_.RunUntil([] { return false; }, std::chrono::minutes(2));
  EXPECT_FALSE(peers_[1]->complete);
  On([&] {
    peers_[1]->steps = 7;
    peers_[1]->transfer->OnApplied();
  });
  EXPECT_TRUE(Run([&] { return peers_[1]->complete; }));
  EXPECT_EQ(StateOf(peers_[1]->model.get()), StateOf(peers_[0]->model.get()));
}

// While the optimizer is at work nothing is read, and nothing is written.
TEST_F(StateTransferTest, TheOptimizerIsNotDisturbed) {
  Make(1, 2, 1000);
  peers_[0]->at_work = true;
  On([&] { peers_[1]->transfer->Start(); });
  world_.RunUntil([] { return false; }, std::chrono::seconds(5));
  On([&] { EXPECT_EQ(peers_[1]->transfer->bytes_here(), 0u); });
  peers_[1]->at_work = true;
  On([&] {
    peers_[0]->at_work = false;
    peers_[0]->transfer->OnApplied();
  });
  world_.RunUntil([] { return false; }, std::chrono::seconds(5));
  On([&] { EXPECT_EQ(peers_[1]->transfer->bytes_here(), 0u); });
  On([&] {
    peers_[1]->at_work = false;
    peers_[1]->transfer->OnApplied();
  });
  EXPECT_TRUE(Run([&] { return peers_[1]->complete; }));
}

TEST_F(StateTransferTest, WhatMayNotComeEndsThePlan) {
  const auto request = [](std::uint64_t first) {
    return NewStateMessage({StateMessage::Kind::kRequest, first, 4, 0});
  };
  const auto chunk = [](std::uint64_t steps) {
    Buffer message = NewStateMessage({StateMessage::Kind::kChunk, 0, 4, steps});
    SealStateMessage(&message);
    return message;
  };
  Make(1, 3);
  peers_[0]->at_work = true;  // requests wait
  Send(1, 2, request(0));
  EXPECT_THAT(peers_[2]->failure, HasSubstr("asks a peer for state that lacks it, too"));
  Send(0, 1, chunk(5));
  EXPECT_THAT(peers_[1]->failure, HasSubstr("was not asked for"));
  Send(1, 0, request(0));
  EXPECT_EQ(peers_[0]->failure, "");
  Send(1, 0, request(8));
  EXPECT_THAT(peers_[0]->failure, HasSubstr("more state than it may"));
}

TEST_F(StateTransferTest, AHolderOfStepsThatNobodyMadeIsNotBelieved) {
  Make(1, 2, 1000);
  peers_[0]->steps = 9;
  On([&] { peers_[1]->transfer->Start(); });
  world_.RunUntil([] { return false; }, std::chrono::seconds(5));
  EXPECT_THAT(peers_[1]->failure, HasSubstr("steps that nobody has made yet"));
}

}  // namespace
}  // namespace shoal::replica
