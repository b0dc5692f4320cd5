// A stream that waits for a punch: what its user is told, and when, whatever the door does.

#include "net/links/punched_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/sim_executor.h"

namespace shoal::net {
namespace {

// Keeps what it was asked for until the test answers.
class HandDoor final : public RelayDoor {
 public:
  void Use(const std::vector<RelayAddress>&) override {}
  std::vector<RelayState> states() const override { return {}; }
  void Punch(const RelayAddress& relay, const PeerId&, PunchDone done) override {
    relay_asked = relay.host_port;
    answer = std::move(done);
  }
  std::string relay_asked;
  PunchDone answer;
};

class EntryStream final : public BulkStream {
 public:
  bool SetSink(std::shared_ptr<StreamSink>) override { return true; }
  void Write(std::string, std::shared_ptr<const Buffer>, std::size_t, std::size_t) override {
    ++writes;
  }
  void Read() override { ++reads; }
  void Close(const Status&) override { ++closes; }
  std::string address() const override { return "127.0.0.1:7"; }
  std::string peer_address() const override { return "127.0.0.1:7"; }
  int writes = 0, reads = 0, closes = 0;
};

struct Ends final : public StreamSink {
  void OnOpen(BulkStream*) override {}
  void OnRead(BulkStream*, const ByteSlices&) override {}
  void OnWritten(BulkStream*) override {}
  void OnGone(BulkStream*, const Status& status) override { gone.push_back(status); }
  std::vector<Status> gone;
};

class PunchedStreamTest : public testing::Test {
 protected:
  void Dial(const std::string& address) {
    stream_ = PunchedStream::Dial(
        address, PeerId{}, &way_,
        [this](const std::string& entry, std::shared_ptr<StreamSink> sink) {
          dialled_.push_back(entry);
          EXPECT_EQ(sink, sink_);
          return entry_;
        },
        executor_.get(), sink_);
  }
  // Until nothing is to be done any more.
  void Settle() {
    bool there = false;
    executor_->Post("test", [&there] { there = true; });
    ASSERT_TRUE(world_.RunUntil([&there] { return there; }, std::chrono::seconds(1)));
  }

  const std::string address_ = PunchAddress("00112233445566778899aabbccddeeff@r:1");
  test_support::SimWorld world_;
  std::unique_ptr<Executor> executor_ = world_.NewExecutor("control");
  PunchWay way_;
  HandDoor door_;
  std::shared_ptr<Ends> sink_ = std::make_shared<Ends>();
  std::shared_ptr<EntryStream> entry_ = std::make_shared<EntryStream>();
  std::vector<std::string> dialled_;
  std::shared_ptr<BulkStream> stream_;
};

TEST_F(PunchedStreamTest, IsTheStreamOnTheConnection) {
  way_.Use(&door_);
  Dial(address_);
  EXPECT_EQ(door_.relay_asked, "r:1");
  EXPECT_EQ(stream_->peer_address(), "");
  stream_->Read();  // there is nothing yet
  door_.answer(PunchedWay{"127.0.0.1:7", "203.0.113.7:40000"});
  EXPECT_THAT(dialled_, testing::ElementsAre("127.0.0.1:7"));
  EXPECT_EQ(stream_->peer_address(), "203.0.113.7:40000");
  EXPECT_EQ(stream_->address(), address_) << "one more is made the same way";
  stream_->Write("x", nullptr, 0, 0);
  stream_->Read();
  stream_->Close(Status::Ok());
  EXPECT_EQ(entry_->writes, 1);
  EXPECT_EQ(entry_->reads, 1);
  EXPECT_EQ(entry_->closes, 1);
  Settle();
  EXPECT_TRUE(sink_->gone.empty()) << "the stream on it tells";
}

TEST_F(PunchedStreamTest, WhatFailsIsToldLater) {
  way_.Use(&door_);
  Dial(address_);
  door_.answer(Unavailable("no try got through"));
  EXPECT_TRUE(sink_->gone.empty());
  Settle();
  ASSERT_EQ(sink_->gone.size(), 1u);
  EXPECT_EQ(sink_->gone[0].message(), "no try got through");
  stream_->Close(Status::Ok());
  Settle();
  EXPECT_EQ(sink_->gone.size(), 1u);
}

TEST_F(PunchedStreamTest, WhoClosesFirstDialsNothing) {
  way_.Use(&door_);
  Dial(address_);
  stream_->Close(Cancelled("enough"));
  Settle();
  ASSERT_EQ(sink_->gone.size(), 1u);
  EXPECT_EQ(sink_->gone[0].code(), StatusCode::kCancelled);
  door_.answer(PunchedWay{"127.0.0.1:7", "203.0.113.7:40000"});
  Settle();
  EXPECT_TRUE(dialled_.empty());
  EXPECT_EQ(sink_->gone.size(), 1u);
}

TEST_F(PunchedStreamTest, WithoutADoorOrARelayThereIsNoWay) {
  Dial(address_);
  EXPECT_TRUE(sink_->gone.empty());
  Settle();
  ASSERT_EQ(sink_->gone.size(), 1u);
  way_.Use(&door_);
  Dial("00112233445566778899aabbccddeeff@r:1");
  Settle();
  EXPECT_EQ(sink_->gone.size(), 2u);
  EXPECT_FALSE(door_.answer);
  way_.Use(nullptr);
  Dial(address_);
  Settle();
  EXPECT_EQ(sink_->gone.size(), 3u);
}

}  // namespace
}  // namespace shoal::net
