// A peer with a valid key that breaks the rules of the bulk stream: the link must close with a
// reason, and nothing may crash, hang or be delivered.

#include <gmock/gmock.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "common/checksum.h"
#include "common/file.h"
#include "net/control/control.h"
#include "net/links/bulk_stream.h"
#include "net/links/chunk.h"
#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

constexpr RunId kRun{0x77};

// Records what comes back.
class RawSink final : public StreamSink {
 public:
  void OnOpen(BulkStream*) override {
    Set([this] { open_ = true; });
  }
  void OnRead(BulkStream* stream, const ByteSlices& message) override {
    const auto header = ParseChunk(message).value().header;
    Set([&] {
      if (header.has_accept()) answer_ = header.accept();
      if (header.has_ping()) pings_.push_back(header.ping());
    });
    stream->Read();
  }
  void OnWritten(BulkStream*) override {
    Set([this] { ++written_; });
  }
  void OnGone(BulkStream*, const Status&) override {
    Set([this] { gone_ = true; });
  }

  bool open() { return Get(open_); }
  bool gone() { return Get(gone_); }
  int written() { return Get(written_); }
  std::optional<bulk::v1::LinkAccept> answer() { return Get(answer_); }
  std::vector<bulk::v1::Ping> pings() { return Get(pings_); }

 private:
  void Set(const std::function<void()>& change) {
    MutexLock lock(mutex_);
    change();
  }
  template <typename T>
  T Get(const T& value) {
    MutexLock lock(mutex_);
    return value;
  }
  Mutex mutex_;
  bool open_ = false;
  bool gone_ = false;
  int written_ = 0;
  std::optional<bulk::v1::LinkAccept> answer_;
  std::vector<bulk::v1::Ping> pings_;
};

class RawStreamTest : public testing::Test {
 protected:
  RawStreamTest() {
    RunOn(executor_.get(), [this] {
      LinkLimits limits;
      limits.frame_bytes_max = 1 << 20;
      limits.timeouts.frame_stall = std::chrono::seconds(1);
      peer_.emplace(executor_.get(), limits);
      LinkTarget target;
      target.peer = attacker_->id;
      target.run = kRun;
      target.generation = 1;
      target.channel = "boundary/0/1";
      LinkHandlers handlers;
      handlers.on_open = [this] { open_ = true; };
      handlers.on_frame = [this](Frame) { ++frames_; };
      handlers.on_closed = [this](Status status) { closed_ = std::move(status); };
      link_ = peer_->hub->Accept(target, handlers);
      return 0;
    });
    stream_ = DialStream(peer_->address(), *attacker_, peer_->identity->id, streams_, sink_);
    EXPECT_TRUE(Wait([this] { return sink_->open(); }));
  }
  ~RawStreamTest() override {
    stream_->Close(Cancelled("test ends"));
    streams_->WaitForNone();
    RunOn(executor_.get(), [this] {
      link_.reset();
      peer_.reset();
      return 0;
    });
  }

  bool Wait(const std::function<bool()>& holds) { return WaitUntil(executor_.get(), holds); }

  void Write(const std::string& message) {
    const int before = sink_->written();
    stream_->Write(message, nullptr, 0, 0);
    ASSERT_TRUE(Wait([&] { return sink_->written() > before || sink_->gone(); }));
  }
  void Write(const bulk::v1::ChunkHeader& header, const std::string& payload = "") {
    Write(ChunkHead(header) + payload);
  }
  bulk::v1::ChunkHeader Hello() {
    bulk::v1::ChunkHeader header;
    header.mutable_hello()->set_protocol(kProtocolVersion);
    header.mutable_hello()->set_run(kRun.value);
    header.mutable_hello()->set_generation(1);
    header.mutable_hello()->set_channel("boundary/0/1");
    return header;
  }
  void Greet() {
    stream_->Read();
    Write(Hello());
    ASSERT_TRUE(Wait([this] { return open_ && sink_->answer(); }));
    EXPECT_EQ(sink_->answer()->code(), 0);
  }
  bulk::v1::ChunkHeader FrameOf(const std::string& payload) {
    bulk::v1::ChunkHeader header;
    header.set_frame(1);
    header.mutable_header()->set_kind(1);
    header.mutable_header()->set_run(kRun.value);
    header.mutable_header()->set_generation(1);
    header.mutable_header()->set_payload_bytes(payload.size());
    header.mutable_header()->set_payload_checksum(
        Checksum64(std::as_bytes(std::span<const char>(payload))));
    return header;
  }
  void ExpectClosed(const std::string& reason) {
    ASSERT_TRUE(Wait([this] { return closed_ && sink_->gone(); }));
    EXPECT_THAT(closed_->message(), HasSubstr(reason));
    EXPECT_EQ(frames_, 0);
  }
  void ExpectRefused(const std::string& reason) {
    stream_->Read();
    ASSERT_TRUE(Wait([this] { return sink_->answer().has_value(); }));
    EXPECT_NE(sink_->answer()->code(), 0);
    EXPECT_THAT(sink_->answer()->error(), HasSubstr(reason));
    EXPECT_FALSE(open_);
  }

  std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
  const std::shared_ptr<const Identity> attacker_ = MakeIdentity();
  const std::shared_ptr<StreamCount> streams_ = std::make_shared<StreamCount>();
  const std::shared_ptr<RawSink> sink_ = std::make_shared<RawSink>();
  std::optional<HubPeer> peer_;
  std::unique_ptr<Link> link_;
  std::shared_ptr<BulkStream> stream_;
  bool open_ = false;
  int frames_ = 0;
  std::optional<Status> closed_;
};

TEST_F(RawStreamTest, AGoodFrameArrives) {
  Greet();
  Write(FrameOf("0123456789"), "0123456789");
  EXPECT_TRUE(Wait([this] { return frames_ == 1; }));
}

TEST_F(RawStreamTest, APingIsAnsweredWithTheTimeItCame) {
  Greet();
  bulk::v1::ChunkHeader ping;
  for (const std::uint64_t id : {std::uint64_t{70}, ~std::uint64_t{0}}) {
    ping.mutable_ping()->set_id(id);
    Write(ping);
  }
  const auto replies = [this] {
    auto pings = sink_->pings();
    std::erase_if(pings, [](const bulk::v1::Ping& one) { return !one.reply(); });
    return pings;
  };
  ASSERT_TRUE(Wait([&] { return replies().size() == 2; }));
  EXPECT_EQ(replies()[0].id(), 70u);
  EXPECT_EQ(replies()[1].id(), ~std::uint64_t{0});
  EXPECT_GT(replies()[0].at(), 0u);
  EXPECT_GE(replies()[1].at(), replies()[0].at());
}

TEST_F(RawStreamTest, StrangeAnswersToPingsHarmNobody) {
  Greet();
  // The first ping comes when the link opens.
  ASSERT_TRUE(Wait([this] { return !sink_->pings().empty(); }));
  bulk::v1::ChunkHeader answer;
  answer.mutable_ping()->set_reply(true);
  answer.mutable_ping()->set_id(0);  // never sent
  Write(answer);
  answer.mutable_ping()->set_id(sink_->pings().front().id());
  answer.mutable_ping()->set_at(~std::uint64_t{0});
  Write(answer);
  Write(answer);  // answered already
  answer.mutable_ping()->set_id(~std::uint64_t{0});
  Write(answer);
  Write(FrameOf("0123456789"), "0123456789");
  EXPECT_TRUE(Wait([this] { return frames_ == 1; }));
  EXPECT_GT(link_->stats().rtt_ms, 0);
}

// One more connection of the attacker's.
class RawLanes : public RawStreamTest {
 protected:
  ~RawLanes() override {
    for (const auto& stripe : stripes_) stripe.stream->Close(Cancelled("test ends"));
  }
  struct Stripe {
    std::shared_ptr<RawSink> sink = std::make_shared<RawSink>();
    std::shared_ptr<BulkStream> stream;
  };
  // The code of the answer.
  int Join(std::uint32_t number) {
    Stripe stripe;
    stripe.stream =
        DialStream(peer_->address(), *attacker_, peer_->identity->id, streams_, stripe.sink);
    stripes_.push_back(stripe);
    EXPECT_TRUE(Wait([&] { return stripe.sink->open(); }));
    bulk::v1::ChunkHeader hello = Hello();
    hello.mutable_hello()->set_stripe(number);
    stripe.stream->Read();
    stripe.stream->Write(ChunkHead(hello), nullptr, 0, 0);
    // The answer may come before gRPC says that the hello is written, and gRPC aborts at a second
    // write before that.
    EXPECT_TRUE(Wait([&] { return stripe.sink->answer() && stripe.sink->written() == 1; }));
    return stripe.sink->answer() ? stripe.sink->answer()->code() : -1;
  }
  std::vector<Stripe> stripes_;
};

TEST_F(RawLanes, ChunksOfAFrameMayComeOnAnyConnection) {
  Greet();
  ASSERT_EQ(Join(1), 0);
  bulk::v1::ChunkHeader second;
  second.set_frame(1);
  second.set_offset(4);
  second.set_sequence(2);
  stripes_[0].stream->Write(ChunkHead(second) + "456789", nullptr, 0, 0);
  ASSERT_TRUE(Wait([this] { return stripes_[0].sink->written() == 2; }));
  bulk::v1::ChunkHeader first = FrameOf("0123456789");
  first.set_sequence(1);
  Write(first, "0123");
  EXPECT_TRUE(Wait([this] { return frames_ == 1; }));
}

TEST_F(RawLanes, AChunkThatIsNowhereClosesTheLink) {
  Greet();
  bulk::v1::ChunkHeader header = FrameOf("0123456789");
  header.set_sequence(2);
  Write(header, "0123456789");
  ExpectClosed("missing");
}

TEST_F(RawLanes, OneMoreConnectionOfNoLinkIsRefused) { EXPECT_NE(Join(1), 0); }

TEST_F(RawLanes, NotMoreConnectionsThanFour) {
  Greet();
  for (std::uint32_t i = 1; i < 4; ++i) EXPECT_EQ(Join(i), 0);
  EXPECT_NE(Join(4), 0);
}

TEST(Protocol, TheWirePageNamesTheVersion) {
  const Result<std::string> page =
      ReadFile(test_support::Environment("SHOAL_SOURCE_DIR") + "/docs/WIRE.md", 1 << 20);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_THAT(*page, HasSubstr("protocol version (" + std::to_string(kProtocolVersion) + ","));
}

TEST(Protocol, TheWirePageStatesTheLimits) {
  const Result<std::string> page =
      ReadFile(test_support::Environment("SHOAL_SOURCE_DIR") + "/docs/WIRE.md", 1 << 20);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  const LinkLimits limits;
  const std::pair<const char*, std::uint64_t> stated[] = {
      {"at most %llu MiB", kChunkHeaderBytesMax >> 20},
      {"payload, at most %llu MiB", kChunkPayloadBytesMax >> 20},
      {"Ours are %llu KiB", limits.chunk_bytes >> 10},
      {"Chunks of up to %llu frames", kOpenFramesMax},
      {"Frame %llu GiB", limits.frame_bytes_max >> 30},
      {"send queue %llu GiB", limits.queue_bytes_max >> 30},
      {"codec and channel name %llu bytes", kCodecNameBytesMax},
      {"1 to %llu connections per link", limits.connections_max}};
  for (const auto& [format, value] : stated) {
    char text[64];
    std::snprintf(text, sizeof(text), format, static_cast<unsigned long long>(value));
    EXPECT_THAT(*page, HasSubstr(text));
  }
}

TEST_F(RawStreamTest, OtherProtocolVersionIsNamed) {
  bulk::v1::ChunkHeader hello = Hello();
  hello.mutable_hello()->set_protocol(99);
  Write(hello);
  ExpectRefused("the calling peer speaks link protocol 99, the called one " +
                std::to_string(kProtocolVersion));
}

TEST_F(RawStreamTest, FirstMessageMustBeAHello) {
  Write(FrameOf("0123456789"), "0123456789");
  ExpectRefused("must be a hello");
}

TEST_F(RawStreamTest, GarbageInsteadOfAHello) {
  Write(std::string("\x04\x00\x00\x00\xff\xff\xff\xff", 8));
  ExpectRefused("cannot be read");
}

TEST_F(RawStreamTest, OversizedFrame) {
  Greet();
  bulk::v1::ChunkHeader header = FrameOf("0123456789");
  header.mutable_header()->set_payload_bytes(1ull << 60);
  Write(header, "0123456789");
  ExpectClosed("over the limit");
}

TEST_F(RawStreamTest, WrongChecksum) {
  Greet();
  Write(FrameOf("0123456789"), "0123456780");
  ExpectClosed("checksum");
  EXPECT_EQ(closed_->code(), StatusCode::kDataLoss);
}

TEST_F(RawStreamTest, AFrameThatIsNeverFinishedEndsTheLink) {
  Greet();
  Write(FrameOf("0123456789"), "01234");
  ExpectClosed("was begun and not finished");
}

TEST_F(RawStreamTest, WrongOffset) {
  Greet();
  Write(FrameOf("0123456789"), "01234");
  bulk::v1::ChunkHeader next;
  next.set_frame(1);
  next.set_offset(4);
  Write(next, "456789");
  ExpectClosed("instead of 5");
}

TEST_F(RawStreamTest, SecondHello) {
  Greet();
  Write(Hello());
  ExpectClosed("neither chunk nor ping");
}

TEST_F(RawStreamTest, HeaderLengthOverTheMessage) {
  Greet();
  Write(std::string("\xff\x00\x00\x00\x01", 5));
  ExpectClosed("cut off");
}

TEST_F(RawStreamTest, MessageOverTheTransportLimit) {
  Greet();
  stream_->Write(std::string(static_cast<std::size_t>(kBulkMessageBytesMax) + 1, 'x'), nullptr, 0,
                 0);
  ExpectClosed("closed the link");
}

}  // namespace
}  // namespace shoal::net
