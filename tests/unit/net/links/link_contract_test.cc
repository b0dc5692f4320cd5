// What every Link does, on all kinds: over gRPC, and those that tests and simulations use in place
// of it.

#include "tests/unit/net/links/link_contract.h"

#include "tests/support/loop_links.h"
#include "tests/support/sim_links.h"
#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

TEST_P(LinkContract, OpensOnceBothEndsAreThere) {
  On([this] { OpenEnd(0, Tell(&ends_[0])); });
  On([this] { EXPECT_EQ(ends_[0].opened, 0); });
  On([this] {
    EXPECT_FALSE(ends_[0].link->stats().connected);
    OpenEnd(1, Tell(&ends_[1]));
    EXPECT_EQ(ends_[1].opened, 0) << "the handler came before the link";
  });
  ASSERT_TRUE(Wait([this] { return ends_[0].opened == 1 && ends_[1].opened == 1; }));
  On([this] {
    for (std::size_t end : {0, 1}) {
      const LinkStats stats = ends_[end].link->stats();
      EXPECT_TRUE(stats.connected);
      EXPECT_EQ(stats.channel, "boundary/0");
      EXPECT_EQ(stats.peer, rig_->peer(1 - end));
    }
  });
}

TEST_P(LinkContract, FramesOfAKindArriveInOrderAndAsSent) {
  Connect();
  constexpr std::uint32_t kFrames = 50;
  On([this] {
    for (std::uint32_t i = 0; i < kFrames; ++i) {
      ASSERT_TRUE(Send(0, MakeFrame(i, 1 + 997 * i)).ok());
      ASSERT_TRUE(Send(1, MakeFrame(i, i % 3 == 0 ? 300'000 : 0)).ok());
    }
  });
  ASSERT_TRUE(Wait(
      [this] { return ends_[0].frames.size() == kFrames && ends_[1].frames.size() == kFrames; }));
  On([this] {
    for (std::uint32_t i = 0; i < kFrames; ++i) {
      ExpectSame(ends_[1].frames[i], MakeFrame(i, 1 + 997 * i));
      ExpectSame(ends_[0].frames[i], MakeFrame(i, i % 3 == 0 ? 300'000 : 0));
    }
  });
  ASSERT_TRUE(Wait([this] { return ends_[0].sent.size() == kFrames; }));
  On([&] {
    for (std::uint32_t i = 0; i < kFrames; ++i) EXPECT_EQ(ends_[0].sent[i], i);
    EXPECT_EQ(ends_[0].link->stats().sent_frames, kFrames);
    EXPECT_EQ(ends_[0].link->stats().received_frames, kFrames);
  });
}

TEST_P(LinkContract, WhatIsSentBeforeTheLinkIsOpenArrives) {
  On([this] {
    OpenEnd(0, Tell(&ends_[0]));
    for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(Send(0, MakeFrame(i)).ok());
  });
  On([this] { OpenEnd(1, Tell(&ends_[1])); });
  ASSERT_TRUE(Wait([this] { return ends_[1].frames.size() == 3; }));
  On([this] {
    for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(ends_[1].frames[i].micro_batch.index, i);
  });
}

TEST_P(LinkContract, LinksOfOtherChannelsAreApart) {
  ToldEnd other[2];
  Connect();
  On([&] {
    for (std::size_t end : {0, 1}) other[end].link = rig_->Open(end, "group/0", Tell(&other[end]));
    ASSERT_TRUE(other[0].link->Send(MakeFrame(7)).ok());
    ASSERT_TRUE(Send(0, MakeFrame(8)).ok());
  });
  ASSERT_TRUE(Wait([&] { return other[1].frames.size() == 1 && ends_[1].frames.size() == 1; }));
  On([&] {
    EXPECT_EQ(other[1].frames[0].micro_batch.index, 7u);
    EXPECT_EQ(ends_[1].frames[0].micro_batch.index, 8u);
    other[0].link.reset();
  });
  ASSERT_TRUE(Wait([&] { return !other[1].closed.empty(); }));
  On([&] {
    EXPECT_TRUE(ends_[1].closed.empty());
    other[1].link.reset();
  });
}

TEST_P(LinkContract, DestructionClosesTheOtherEndOnce) {
  Connect();
  On([this] { ends_[0].link.reset(); });
  ASSERT_TRUE(Wait([this] { return !ends_[1].closed.empty(); }));
  On([this] {
    ASSERT_EQ(ends_[1].closed.size(), 1u);
    EXPECT_EQ(ends_[1].closed[0].code(), StatusCode::kUnavailable);
    EXPECT_TRUE(ends_[0].closed.empty());
    EXPECT_FALSE(ends_[1].link->stats().connected);
    EXPECT_EQ(Send(1, MakeFrame(0)).code(), StatusCode::kUnavailable);
  });
}

TEST_P(LinkContract, DestructionInTheMiddleOfTrafficLosesOnlyTheEnd) {
  Connect();
  constexpr std::uint32_t kFrames = 200;
  On([this] {
    for (std::uint32_t i = 0; i < kFrames; ++i) {
      ASSERT_TRUE(Send(0, MakeFrame(i, 10'000)).ok());
      ASSERT_TRUE(Send(1, MakeFrame(i, 10'000)).ok());
    }
  });
  ASSERT_TRUE(Wait([this] { return !ends_[1].frames.empty(); }));
  On([this] { ends_[0].link.reset(); });  // from here on ExpectTask fails for end 0
  ASSERT_TRUE(Wait([this] { return !ends_[1].closed.empty(); }));
  On([&] {
    for (std::uint32_t i = 0; i < ends_[1].frames.size(); ++i) {
      ExpectSame(ends_[1].frames[i], MakeFrame(i, 10'000));
    }
    EXPECT_LE(ends_[1].frames.size(), kFrames);
    EXPECT_EQ(ends_[1].closed.size(), 1u);
  });
}

TEST_P(LinkContract, AHandlerMaySend) {
  On([this] {
    LinkHandlers answering = Tell(&ends_[1]);
    answering.on_open = [this, told = answering.on_open] {
      told();
      EXPECT_TRUE(Send(1, MakeFrame(100)).ok());
    };
    answering.on_frame = [this](const Frame& frame) {
      const std::uint32_t index = frame.micro_batch.index;
      if (index < 5) {
        EXPECT_TRUE(Send(1, MakeFrame(index)).ok());
      }
    };
    LinkHandlers asking = Tell(&ends_[0]);
    asking.on_frame = [this, told = asking.on_frame](Frame frame) {
      const std::uint32_t index = frame.micro_batch.index;
      told(std::move(frame));
      EXPECT_TRUE(Send(0, MakeFrame(index == 100 ? 0 : index + 1)).ok());
    };
    OpenEnd(0, std::move(asking));
    OpenEnd(1, std::move(answering));
  });
  ASSERT_TRUE(Wait([this] { return ends_[0].frames.size() == 6; }));
  On([this] {
    for (std::uint32_t i = 1; i < 6; ++i) EXPECT_EQ(ends_[0].frames[i].micro_batch.index, i - 1);
  });
}

// What a handler holds must live until it returns, also when it destroys its link.
TEST_P(LinkContract, AnyHandlerMayDestroyItsLink) {
  enum Handler { kOpen, kFrame, kSent, kClosed };
  for (const Handler which : {kOpen, kFrame, kSent, kClosed}) {
    SCOPED_TRACE(which);
    for (ToldEnd& end : ends_) end = {};
    int calls = 0;
    On([&] {
      const auto destroy = [this, &calls, held = std::make_shared<std::string>("alive")] {
        ends_[1].link.reset();
        ++calls;
        EXPECT_EQ(*held, "alive");
      };
      LinkHandlers handlers = Tell(&ends_[1]);
      if (which == kOpen) handlers.on_open = destroy;
      if (which == kFrame) handlers.on_frame = [destroy](Frame) { destroy(); };
      if (which == kSent)
        handlers.on_sent = [destroy](FrameKind, MicroBatchId, double) { destroy(); };
      if (which == kClosed) handlers.on_closed = [destroy](Status) { destroy(); };
      const std::string channel = "boundary/" + std::to_string(which);
      OpenEnd(0, Tell(&ends_[0]), channel);
      OpenEnd(1, std::move(handlers), channel);
      ASSERT_TRUE(Send(0, MakeFrame(0)).ok());
      ASSERT_TRUE(Send(0, MakeFrame(1)).ok());
      ASSERT_TRUE(Send(1, MakeFrame(0)).ok());
    });
    if (which == kClosed) {
      ASSERT_TRUE(Wait([this] { return ends_[0].opened == 1; }));
      On([this] { ends_[0].link.reset(); });
    }
    ASSERT_TRUE(Wait([&] { return calls > 0; }));
    if (which != kClosed) {
      ASSERT_TRUE(Wait([this] { return !ends_[0].closed.empty(); }));
    }
    On([&] {
      EXPECT_EQ(calls, 1);
      for (ToldEnd& end : ends_) end.link.reset();
    });
  }
}

TEST_P(LinkContract, HandlersMayBeMissing) {
  On([this] {
    OpenEnd(0, {});
    OpenEnd(1, {});
    ASSERT_TRUE(Send(0, MakeFrame(0)).ok());
  });
  ASSERT_TRUE(Wait([this] { return ends_[1].link->stats().received_frames == 1; }));
  On([this] { ends_[0].link.reset(); });
  ASSERT_TRUE(Wait([this] { return !ends_[1].link->stats().connected; }));
}

TEST_P(LinkContract, ALinkThatNobodyMeetsMayGo) {
  On([this] {
    OpenEnd(0, Tell(&ends_[0]));
    ASSERT_TRUE(Send(0, MakeFrame(0)).ok());
  });
  On([this] { ends_[0].link.reset(); });
  On([this] {
    EXPECT_EQ(ends_[0].opened, 0);
    EXPECT_TRUE(ends_[0].closed.empty());
  });
}

// ---- the kinds ----

// On real threads.
class ThreadRig : public LinkRig {
 public:
  Executor* executor() override { return executor_.get(); }
  void On(const std::function<void()>& task) override {
    RunOn(executor_.get(), [&task] {
      task();
      return 0;
    });
  }
  bool Wait(const std::function<bool()>& holds) override {
    return WaitUntil(executor_.get(), holds);
  }

 protected:
  const std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
};

LinkTarget TargetOf(const PeerId& peer, const std::string& channel) {
  LinkTarget target;
  target.peer = peer;
  target.addresses = {"127.0.0.1:1"};
  target.run = RunId{0x77};
  target.generation = 1;
  target.channel = channel;
  return target;
}

class GrpcRig final : public ThreadRig {
 public:
  GrpcRig() : hubs_{HubPeer(executor_.get(), Limits()), HubPeer(executor_.get(), Limits())} {}
  ~GrpcRig() override {
    On([this] {
      for (HubPeer& hub : hubs_) hub.hub.reset();
    });
  }
  std::unique_ptr<Link> Open(std::size_t end, const std::string& channel,
                             LinkHandlers handlers) override {
    LinkTarget target = TargetOf(peer(1 - end), channel);
    target.addresses = {hubs_[1 - end].address()};
    LinkHub& hub = *hubs_[end].hub;
    return end == 0 ? hub.Dial(target, std::move(handlers))
                    : hub.Accept(target, std::move(handlers));
  }
  PeerId peer(std::size_t end) override { return hubs_[end].identity->id; }

 private:
  static LinkLimits Limits() {
    LinkLimits limits;
    limits.chunk_bytes = 16 * 1024;  // frames in several chunks, on several connections
    limits.connections_first = 2;
    return limits;
  }
  HubPeer hubs_[2];
};

PeerId NumberedPeer(std::size_t number) {
  PeerId peer;
  peer.key[0] = static_cast<std::uint8_t>(number + 1);
  return peer;
}

class LoopRig final : public ThreadRig {
 public:
  std::unique_ptr<Link> Open(std::size_t end, const std::string& channel,
                             LinkHandlers handlers) override {
    return hub_.Dial(TargetOf(peer(1 - end), channel), std::move(handlers));
  }
  PeerId peer(std::size_t end) override { return NumberedPeer(end); }

 private:
  test_support::LoopNet net_{executor_.get()};
  test_support::LoopHub hub_{&net_};
};

class SimRig final : public LinkRig {
 public:
  SimRig() {
    for (std::size_t end : {0, 1}) hubs_[end] = net_.NewHub(peer(end), executor_.get());
  }
  Executor* executor() override { return executor_.get(); }
  std::unique_ptr<Link> Open(std::size_t end, const std::string& channel,
                             LinkHandlers handlers) override {
    return hubs_[end]->Dial(TargetOf(peer(1 - end), channel), std::move(handlers));
  }
  PeerId peer(std::size_t end) override { return NumberedPeer(end); }
  void On(const std::function<void()>& task) override {
    bool done = false;
    executor_->Post("test", [&] {
      task();
      done = true;
    });
    ASSERT_TRUE(world_.RunUntil([&done] { return done; }, std::chrono::minutes(1)));
  }
  bool Wait(const std::function<bool()>& holds) override {
    return world_.RunUntil(holds, std::chrono::minutes(1));
  }

 private:
  test_support::SimWorld world_;
  const std::unique_ptr<Executor> executor_ = world_.NewExecutor("control");
  test_support::SimNetwork net_{
      &world_, {[] { return std::chrono::milliseconds(10); }, /*bytes_per_second=*/1e6}};
  std::unique_ptr<LinkHub> hubs_[2];
};

template <typename Rig>
std::unique_ptr<LinkRig> New() {
  return std::make_unique<Rig>();
}

INSTANTIATE_TEST_SUITE_P(Grpc, LinkContract, testing::Values(&New<GrpcRig>));
INSTANTIATE_TEST_SUITE_P(Loop, LinkContract, testing::Values(&New<LoopRig>));
INSTANTIATE_TEST_SUITE_P(Sim, LinkContract, testing::Values(&New<SimRig>));

}  // namespace
}  // namespace shoal::net
