// Links between two hubs over real sockets on loopback.

#include <gmock/gmock.h>

#include <map>
#include <optional>

#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

Frame MakeFrame(FrameKind kind, std::size_t bytes, std::uint32_t index = 0) {
  Frame frame;
  frame.kind = kind;
  frame.run = kLinkRun;
  frame.generation = 1;
  frame.micro_batch = {5, index};
  frame.payload = Buffer(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    frame.payload.data()[i] = static_cast<std::byte>((i * 31 + index) >> 3);
  }
  return frame;
}

bool SameBytes(const Buffer& a, const Buffer& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

class LinkTest : public testing::Test {
 protected:
  ~LinkTest() override {
    RunOn(executor_.get(), [this] {
      a_.link.reset();
      b_.link.reset();
      hub_a_.reset();
      hub_b_.reset();
      return 0;
    });
  }

  void MakeHubs(LinkLimits limits = {}) {
    hub_a_.emplace(executor_.get(), limits);
    hub_b_.emplace(executor_.get(), limits);
  }

  LinkTarget TargetOf(const HubPeer& peer, std::uint64_t generation = 1) {
    LinkTarget target;
    target.peer = peer.identity->id;
    target.addresses = {peer.address()};
    target.run = kLinkRun;
    target.generation = generation;
    target.channel = "boundary/0/1";
    return target;
  }

  template <typename Task>
  void On(Task task) {
    RunOn(executor_.get(), [&task] {
      task();
      return 0;
    });
  }
  bool Wait(const std::function<bool()>& holds) { return WaitUntil(executor_.get(), holds); }

  void Connect() {
    On([this] {
      a_.link = hub_a_->hub->Dial(TargetOf(*hub_b_), a_.Handlers());
      b_.link = hub_b_->hub->Accept(TargetOf(*hub_a_), b_.Handlers());
    });
    ASSERT_TRUE(Wait([this] { return a_.open && b_.open; }));
  }

  std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
  std::optional<HubPeer> hub_a_, hub_b_;
  LinkEnd a_, b_;
};

TEST_F(LinkTest, SeveralConnectionsCarryOneLink) {
  LinkLimits limits;
  limits.connections_first = 3;
  limits.chunk_bytes = 4096;
  MakeHubs(limits);
  Connect();
  ASSERT_TRUE(Wait(
      [this] { return a_.link->stats().connections == 3 && b_.link->stats().connections == 3; }));
  constexpr std::uint32_t kFrames = 40;
  On([this] {
    for (std::uint32_t i = 0; i < kFrames; ++i) {
      ASSERT_TRUE(a_.link->Send(MakeFrame(FrameKind::kActivation, 100'000 + i, i)).ok());
      ASSERT_TRUE(b_.link->Send(MakeFrame(FrameKind::kGradient, 50'000 + i, i)).ok());
    }
  });
  ASSERT_TRUE(Wait([this] { return b_.frames.size() == kFrames && a_.frames.size() == kFrames; }));
  On([this] {
    for (std::uint32_t i = 0; i < kFrames; ++i) {
      EXPECT_EQ(b_.frames[i].micro_batch.index, i);  // in order
      EXPECT_TRUE(SameBytes(b_.frames[i].payload,
                            MakeFrame(FrameKind::kActivation, 100'000 + i, i).payload));
      EXPECT_TRUE(
          SameBytes(a_.frames[i].payload, MakeFrame(FrameKind::kGradient, 50'000 + i, i).payload));
    }
    b_.link.reset();
  });
  ASSERT_TRUE(Wait([this] { return a_.closed.has_value(); }));
  EXPECT_EQ(a_.closed_calls, 1);
}

TEST_F(LinkTest, NewAddressesAreDialledAndEndNoOpenLink) {
  MakeHubs();
  On([this] {
    LinkTarget target = TargetOf(*hub_b_);
    target.addresses = {"127.0.0.1:1"};
    a_.link = hub_a_->hub->Dial(target, a_.Handlers());
    target = TargetOf(*hub_a_);
    target.addresses.clear();
    b_.link = hub_b_->hub->Accept(target, b_.Handlers());
    hub_a_->hub->UseAddresses(hub_a_->identity->id, {hub_b_->address()});  // of another peer
    hub_a_->hub->UseAddresses(hub_b_->identity->id, {});                   // tells nothing
    hub_a_->hub->UseAddresses(hub_b_->identity->id, {hub_b_->address()});
  });
  ASSERT_TRUE(Wait([this] { return a_.open && b_.open; }));
  On([this] {
    hub_a_->hub->UseAddresses(hub_b_->identity->id, {"127.0.0.1:1"});
    ASSERT_TRUE(a_.link->Send(MakeFrame(FrameKind::kActivation, 1000)).ok());
  });
  ASSERT_TRUE(Wait([this] { return b_.frames.size() == 1; }));
  On([this] { EXPECT_FALSE(a_.closed || b_.closed); });
}

TEST_F(LinkTest, FramesOfAllKindsArriveAsSent) {
  MakeHubs();
  Connect();
  On([this] {
    for (std::uint32_t kind = 1; kind <= 10; ++kind) {
      Frame frame = MakeFrame(static_cast<FrameKind>(kind), kind == 3 ? 0 : 1000 * kind, kind);
      frame.tag = 77 + kind;
      frame.codec = "aqsgd:bits=4";
      frame.tokens = 128;
      frame.hidden = 768;
      frame.samples = {{SampleId{9}, 3, 0xfeed}, {SampleId{10}, 0, 0}};
      ASSERT_TRUE(a_.link->Send(std::move(frame)).ok());
    }
    ASSERT_TRUE(b_.link->Send(MakeFrame(FrameKind::kGradient, 12345)).ok());
  });
  ASSERT_TRUE(Wait([this] { return b_.frames.size() == 10 && a_.frames.size() == 1; }));
  On([this] {
    std::map<FrameKind, const Frame*> by_kind;
    for (const Frame& frame : b_.frames) by_kind[frame.kind] = &frame;
    ASSERT_EQ(by_kind.size(), 10u);
    for (const auto& [kind, frame] : by_kind) {
      const auto number = static_cast<std::uint32_t>(kind);
      EXPECT_EQ(frame->run, kLinkRun);
      EXPECT_EQ(frame->generation, 1u);
      EXPECT_EQ(frame->micro_batch, (MicroBatchId{5, number}));
      EXPECT_EQ(frame->tag, 77u + number);
      EXPECT_EQ(frame->codec, "aqsgd:bits=4");
      EXPECT_EQ(frame->tokens, 128u);
      EXPECT_EQ(frame->hidden, 768u);
      ASSERT_EQ(frame->samples.size(), 2u);
      EXPECT_EQ(frame->samples[0].sample, SampleId{9});
      EXPECT_EQ(frame->samples[0].base_version, 3u);
      EXPECT_EQ(frame->samples[0].base_checksum, 0xfeedu);
      EXPECT_TRUE(SameBytes(
          frame->payload,
          MakeFrame(kind, kind == FrameKind::kResend ? 0 : 1000 * number, number).payload));
    }
    EXPECT_TRUE(SameBytes(a_.frames[0].payload, MakeFrame(FrameKind::kGradient, 12345).payload));
  });
  ASSERT_TRUE(Wait([this] { return a_.sent.size() == 10; }));
  const LinkStats stats = a_.link->stats();
  EXPECT_EQ(stats.sent_frames, 10u);
  EXPECT_EQ(stats.received_frames, 1u);
  EXPECT_GT(stats.sent_wire_bytes, 25000u);
  EXPECT_EQ(stats.queued_bytes, 0u);
  EXPECT_EQ(stats.peer, hub_b_->identity->id);
  EXPECT_TRUE(stats.connected);
}

TEST_F(LinkTest, LargeFrameArrivesWhole) {
  MakeHubs();
  Connect();
  constexpr std::size_t kBytes = 64 << 20;
  On([this] { ASSERT_TRUE(a_.link->Send(MakeFrame(FrameKind::kActivation, kBytes)).ok()); });
  ASSERT_TRUE(Wait([this] { return b_.frames.size() == 1; }));
  EXPECT_TRUE(SameBytes(b_.frames[0].payload, MakeFrame(FrameKind::kActivation, kBytes).payload));
}

TEST_F(LinkTest, GradientOvertakesActivation) {
  MakeHubs();
  On([this] { hub_a_->hub->SetCaps({80'000'000}, {}); });
  Connect();
  On([this] {
    ASSERT_TRUE(a_.link->Send(MakeFrame(FrameKind::kActivation, 2 << 20, 1)).ok());
    // The next chunk is chosen as soon as one is written, possibly between two of these calls.
    ASSERT_TRUE(a_.link->Send(MakeFrame(FrameKind::kGradient, 200'000, 2)).ok());
    ASSERT_TRUE(a_.link->Send(MakeFrame(FrameKind::kGroup, 1000, 3)).ok());
  });
  ASSERT_TRUE(Wait([this] { return b_.frames.size() == 3; }));
  EXPECT_EQ(b_.frames[0].kind, FrameKind::kGradient);
  EXPECT_EQ(b_.frames[1].kind, FrameKind::kGroup);
  EXPECT_EQ(b_.frames[2].kind, FrameKind::kActivation);
  EXPECT_GT(a_.link->stats().stall_rate_limit_ms, 0);
}

TEST_F(LinkTest, FullQueueIsRefused) {
  LinkLimits limits;
  limits.queue_bytes_max = 100'000;
  limits.frame_bytes_max = 1 << 20;
  MakeHubs(limits);
  On([this] {
    b_.link = hub_b_->hub->Accept(TargetOf(*hub_a_), b_.Handlers());
    ASSERT_TRUE(b_.link->Send(MakeFrame(FrameKind::kGradient, 90'000)).ok());
    EXPECT_EQ(b_.link->Send(MakeFrame(FrameKind::kGradient, 20'000)).code(),
              StatusCode::kResourceExhausted);
    EXPECT_GE(b_.link->stats().queued_bytes, 90'000u);
    // What waits is sent once the link is open.
    a_.link = hub_a_->hub->Dial(TargetOf(*hub_b_), a_.Handlers());
  });
  ASSERT_TRUE(Wait([this] { return a_.frames.size() == 1; }));
  On([this] {
    EXPECT_EQ(b_.link->Send(MakeFrame(FrameKind::kGradient, (1 << 20) + 1)).code(),
              StatusCode::kResourceExhausted);
  });
}

TEST_F(LinkTest, FrameOverTheLimitIsRefusedAtTheSender) {
  LinkLimits limits;
  limits.frame_bytes_max = 1000;
  MakeHubs(limits);
  Connect();
  On([this] {
    EXPECT_EQ(a_.link->Send(MakeFrame(FrameKind::kGradient, 1001)).code(),
              StatusCode::kInvalidArgument);
    EXPECT_TRUE(a_.link->Send(MakeFrame(FrameKind::kGradient, 1000)).ok());
  });
  ASSERT_TRUE(Wait([this] { return b_.frames.size() == 1; }));
}

TEST_F(LinkTest, EarlyCallerWaitsForTheLink) {
  MakeHubs();
  On([this] { a_.link = hub_a_->hub->Dial(TargetOf(*hub_b_), a_.Handlers()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  On([this] {
    EXPECT_FALSE(a_.open);
    EXPECT_FALSE(a_.closed);
    b_.link = hub_b_->hub->Accept(TargetOf(*hub_a_), b_.Handlers());
  });
  EXPECT_TRUE(Wait([this] { return a_.open && b_.open; }));
}

TEST_F(LinkTest, DialTriesTheNextAddress) {
  MakeHubs();
  On([this] {
    LinkTarget target = TargetOf(*hub_b_);
    target.addresses = {"127.0.0.1:1", target.addresses[0]};
    a_.link = hub_a_->hub->Dial(target, a_.Handlers());
    b_.link = hub_b_->hub->Accept(TargetOf(*hub_a_), b_.Handlers());
  });
  EXPECT_TRUE(Wait([this] { return a_.open && b_.open; }));
}

TEST_F(LinkTest, UnreachablePeerIsReported) {
  LinkLimits limits;
  limits.timeouts.link_open = std::chrono::milliseconds(700);
  MakeHubs(limits);
  On([this] {
    LinkTarget target = TargetOf(*hub_b_);
    target.addresses = {"127.0.0.1:1"};
    a_.link = hub_a_->hub->Dial(target, a_.Handlers());
    b_.link = hub_b_->hub->Accept(TargetOf(*hub_a_), b_.Handlers());
  });
  ASSERT_TRUE(Wait([this] { return a_.closed && b_.closed; }));
  EXPECT_EQ(a_.closed->code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(a_.closed->message(), HasSubstr("not reached in time"));
  EXPECT_THAT(b_.closed->message(), HasSubstr("did not connect in time"));
  EXPECT_EQ(a_.closed_calls, 1);
}

TEST_F(LinkTest, TimeoutsOfTheRunHoldForLinksThatAreMadeLater) {
  MakeHubs();
  On([this] {
    Timeouts timeouts = TimeoutsOf(kPeerTimeoutDefault);
    timeouts.link_open = std::chrono::milliseconds(300);
    hub_b_->hub->SetTimeouts(timeouts);
    b_.link = hub_b_->hub->Accept(TargetOf(*hub_a_), b_.Handlers());
  });
  ASSERT_TRUE(Wait([this] { return b_.closed.has_value(); }));
  EXPECT_THAT(b_.closed->message(), HasSubstr("did not connect in time"));
}

TEST_F(LinkTest, UnexpectedPeerIsRefused) {
  LinkLimits limits;
  limits.timeouts.link_open = std::chrono::milliseconds(500);
  hub_b_.emplace(executor_.get(), limits);
  hub_a_.emplace(executor_.get());
  HubPeer stranger(executor_.get());
  On([&] {
    // b's plan has a in it, but b expects somebody else.
    hub_b_->hub->Admit({hub_a_->identity->id});
    b_.link = hub_b_->hub->Accept(TargetOf(stranger), b_.Handlers());
    a_.link = hub_a_->hub->Dial(TargetOf(*hub_b_), a_.Handlers());
  });
  ASSERT_TRUE(Wait([this] { return a_.closed.has_value(); }));
  EXPECT_EQ(a_.closed->code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(a_.closed->message(), HasSubstr("refused by the other end: no link 'boundary/0/1'"));
  EXPECT_FALSE(b_.open);
  On([&] { stranger.hub.reset(); });
}

TEST_F(LinkTest, APeerWithoutUsInItsPlanIsNamedSo) {
  LinkLimits limits;
  limits.timeouts.link_open = std::chrono::milliseconds(500);
  hub_a_.emplace(executor_.get(), limits);
  hub_b_.emplace(executor_.get());
  On([&] { a_.link = hub_a_->hub->Dial(TargetOf(*hub_b_), a_.Handlers()); });
  ASSERT_TRUE(Wait([this] { return a_.closed.has_value(); }));
  EXPECT_THAT(a_.closed->message(), HasSubstr("this peer is not in its plan"));
}

TEST_F(LinkTest, WrongKeyAtTheDialledAddressNeverOpens) {
  LinkLimits limits;
  limits.timeouts.link_open = std::chrono::milliseconds(700);
  MakeHubs(limits);
  On([this] {
    LinkTarget target = TargetOf(*hub_b_);
    target.peer = hub_a_->identity->id;  // not who listens there
    a_.link = hub_a_->hub->Dial(target, a_.Handlers());
    b_.link = hub_b_->hub->Accept(TargetOf(*hub_a_), b_.Handlers());
  });
  ASSERT_TRUE(Wait([this] { return a_.closed && b_.closed; }));
  EXPECT_FALSE(a_.open);
  EXPECT_FALSE(b_.open);
  EXPECT_THAT(a_.closed->message(), HasSubstr("instead of"));
}

TEST_F(LinkTest, OtherRunAndOlderPlanAreRefusedAtOnce) {
  MakeHubs();
  LinkEnd c;
  On([&] {
    b_.link = hub_b_->hub->Accept(TargetOf(*hub_a_, 4), b_.Handlers());
    a_.link = hub_a_->hub->Dial(TargetOf(*hub_b_, 3), a_.Handlers());
    LinkTarget other = TargetOf(*hub_b_, 4);
    other.run = RunId{0x99};
    c.link = hub_a_->hub->Dial(other, c.Handlers());
  });
  ASSERT_TRUE(Wait([&] { return a_.closed && c.closed; }));
  EXPECT_THAT(a_.closed->message(), HasSubstr("your plan is generation 3, here it is 4"));
  EXPECT_THAT(c.closed->message(), HasSubstr("your run is 0000000000000099"));
  On([&] { c.link.reset(); });
}

TEST_F(LinkTest, NewerPlanWaitsForOurs) {
  MakeHubs();
  LinkEnd old;
  On([&] {
    old.link = hub_b_->hub->Accept(TargetOf(*hub_a_, 1), old.Handlers());
    a_.link = hub_a_->hub->Dial(TargetOf(*hub_b_, 2), a_.Handlers());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  On([&] { b_.link = hub_b_->hub->Accept(TargetOf(*hub_a_, 2), b_.Handlers()); });
  EXPECT_TRUE(Wait([&] { return a_.open && b_.open; }));
  On([&] {
    EXPECT_FALSE(old.open);
    old.link.reset();
  });
}

TEST_F(LinkTest, DestroyedLinkClosesTheOtherEndOnce) {
  MakeHubs();
  Connect();
  On([this] { a_.link.reset(); });
  ASSERT_TRUE(Wait([this] { return b_.closed.has_value(); }));
  EXPECT_EQ(b_.closed->code(), StatusCode::kUnavailable);
  On([this] {
    EXPECT_EQ(b_.closed_calls, 1);
    EXPECT_FALSE(a_.closed) << "no handler may run after the link is gone";
    EXPECT_FALSE(b_.link->Send(MakeFrame(FrameKind::kGradient, 10)).ok());
  });
}

TEST_F(LinkTest, DestroyedHubClosesBothEnds) {
  MakeHubs();
  Connect();
  On([this] { hub_b_->hub.reset(); });
  ASSERT_TRUE(Wait([this] { return a_.closed && b_.closed; }));
  EXPECT_EQ(a_.closed->code(), StatusCode::kUnavailable);
  EXPECT_EQ(a_.closed_calls, 1);
  EXPECT_EQ(b_.closed_calls, 1);
}

TEST_F(LinkTest, HubMayGoInTheMiddleOfTraffic) {
  MakeHubs();
  Connect();
  On([this] {
    for (std::uint32_t i = 0; i < 50; ++i) {
      ASSERT_TRUE(a_.link->Send(MakeFrame(FrameKind::kActivation, 1 << 20, i)).ok());
      ASSERT_TRUE(b_.link->Send(MakeFrame(FrameKind::kGradient, 1 << 20, i)).ok());
    }
  });
  ASSERT_TRUE(Wait([this] { return b_.frames.size() > 3; }));
  On([this] {
    a_.link.reset();
    hub_a_->hub.reset();
    hub_b_->hub.reset();
  });
  EXPECT_TRUE(Wait([this] { return b_.closed_calls == 1; }));
}

TEST_F(LinkTest, HandlerMayDestroyItsOwnLink) {
  MakeHubs();
  On([this] {
    LinkHandlers handlers = b_.Handlers();
    handlers.on_frame = [this](Frame) { b_.link.reset(); };
    b_.link = hub_b_->hub->Accept(TargetOf(*hub_a_), handlers);
    a_.link = hub_a_->hub->Dial(TargetOf(*hub_b_), a_.Handlers());
    ASSERT_TRUE(a_.link->Send(MakeFrame(FrameKind::kGradient, 10)).ok());
  });
  EXPECT_TRUE(Wait([this] { return a_.closed && !b_.link; }));
}

TEST_F(LinkTest, CapsSlowBothDirectionsAndCanBeLifted) {
  MakeHubs();
  Connect();
  On([this] {
    a_.link->Send(MakeFrame(FrameKind::kActivation, 40'000'000)).ToString();
    // Would take hours.
    hub_a_->hub->SetCaps({100'000}, {});
    hub_b_->hub->SetCaps({}, {100'000});
  });
  ASSERT_TRUE(Wait([this] { return a_.link->stats().stall_rate_limit_ms > 200; }));
  EXPECT_GT(a_.link->stats().queued_bytes, 0u);
  EXPECT_TRUE(b_.frames.empty());
  EXPECT_EQ(hub_a_->hub->upload_cap().value, 100'000u);
  EXPECT_EQ(hub_b_->hub->download_cap().value, 100'000u);
  On([this] {
    hub_a_->hub->SetCaps({}, {});
    hub_b_->hub->SetCaps({}, {});
  });
  EXPECT_TRUE(Wait([this] { return b_.frames.size() == 1; }));
}

// Links take turns at the upload, chunk by chunk, and chunks are smaller with more connections.
TEST_F(LinkTest, ALinkWithMoreConnectionsSendsNoLessThanOthers) {
  LinkLimits limits;
  limits.connections_first = 3;
  MakeHubs(limits);
  Connect();
  HubPeer hub_c(executor_.get(), LinkLimits{});
  LinkEnd at_a, c;
  On([&] {
    c.link = hub_c.hub->Dial(TargetOf(*hub_a_), c.Handlers());
    at_a.link = hub_a_->hub->Accept(TargetOf(hub_c), at_a.Handlers());
  });
  ASSERT_TRUE(Wait([&] { return at_a.open && a_.link->stats().connections == 3; }));
  EXPECT_EQ(at_a.link->stats().connections, 1u);
  constexpr std::uint64_t kBytes = 2'000'000;
  On([&] {
    hub_a_->hub->SetCaps({40'000'000}, {});
    for (std::uint32_t i = 0; i < 8; ++i) {
      ASSERT_TRUE(a_.link->Send(MakeFrame(FrameKind::kActivation, 1'000'000, i)).ok());
      ASSERT_TRUE(at_a.link->Send(MakeFrame(FrameKind::kActivation, 1'000'000, i)).ok());
    }
  });
  ASSERT_TRUE(Wait([&] {
    return a_.link->stats().sent_wire_bytes + at_a.link->stats().sent_wire_bytes > 2 * kBytes;
  }));
  // This thread may look late: the shares count. Where processors are short the link with more
  // connections gets more, since a chunk of the other one waits for its only one.
  const auto sent = static_cast<double>(a_.link->stats().sent_wire_bytes);
  const auto other = static_cast<double>(at_a.link->stats().sent_wire_bytes);
  EXPECT_GT(sent, 0.375 * (sent + other));
  On([&] {
    at_a.link.reset();
    c.link.reset();
  });
}

TEST_F(LinkTest, PingMeasuresTheRoundTrip) {
  MakeHubs();
  Connect();
  EXPECT_TRUE(Wait([this] { return a_.link->stats().rtt_ms > 0 && b_.link->stats().rtt_ms > 0; }));
}

// An idle link, which nothing but pings uses, says at once how far the other end is.
TEST_F(LinkTest, TheFirstPingsComeInARow) {
  MakeHubs();
  Connect();
  for (LinkEnd* side : {&a_, &b_}) {
    ASSERT_TRUE(Wait([&] { return side->link->stats().pings >= kFirstPings; }));
    const LinkStats stats = side->link->stats();
    EXPECT_GT(stats.rtt_min_ms, 0);
    EXPECT_LE(stats.rtt_min_ms, stats.rtt_ms);
  }
}

TEST_F(LinkTest, PortInUseIsAClearError) {
  MakeHubs();
  LinkHubOptions options;
  options.listen = hub_a_->address();
  options.identity = hub_a_->identity;
  options.upload = hub_a_->upload;
  options.download = hub_a_->download;
  const auto second = NewGrpcLinkHub(options, executor_.get());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), HasSubstr("the port is in use"));
}

}  // namespace
}  // namespace shoal::net
