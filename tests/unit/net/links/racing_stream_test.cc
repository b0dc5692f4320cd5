// Which of several addresses wins, on a fake clock, with streams that the test moves by hand.

#include "net/links/racing_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/sim_executor.h"

namespace shoal::net {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kRelay[] = "00112233445566778899aabbccddeeff@r:1";

struct HandStream final : public BulkStream {
  explicit HandStream(std::string to) : to_(std::move(to)) {}
  bool SetSink(std::shared_ptr<StreamSink> sink) override {
    sink_ = std::move(sink);
    return true;
  }
  void Write(std::string head, std::shared_ptr<const Buffer>, std::size_t, std::size_t) override {
    written.push_back(std::move(head));
  }
  void Read() override { ++reads; }
  void Close(const Status&) override { closed = true; }
  std::string address() const override { return to_; }
  std::string peer_address() const override { return "1.1.1.1:1"; }

  void Open() { sink_->OnOpen(this); }
  bool gone() const { return sink_ == nullptr; }
  void Gone(const Status& status) { std::exchange(sink_, nullptr)->OnGone(this, status); }

  std::vector<std::string> written;
  int reads = 0;
  bool closed = false;

 private:
  const std::string to_;
  std::shared_ptr<StreamSink> sink_;
};

struct User final : public StreamSink {
  void OnOpen(BulkStream*) override { ++opened; }
  void OnRead(BulkStream*, const ByteSlices&) override {}
  void OnWritten(BulkStream*) override {}
  void OnGone(BulkStream*, const Status& status) override { gone.push_back(status); }
  int opened = 0;
  std::vector<Status> gone;
};

class RacingStreamTest : public testing::Test {
 protected:
  // As gRPC does at the latest when it ends.
  ~RacingStreamTest() override {
    for (const auto& [address, stream] : streams_) {
      if (!stream->gone()) stream->Gone(Cancelled("the test ends"));
    }
  }
  void Dial(const std::vector<std::string>& addresses) {
    race_ = RacingStream::Dial(
        [this](const std::string& address, std::shared_ptr<StreamSink> sink) {
          order_.push_back(address);
          const auto stream = std::make_shared<HandStream>(address);
          stream->SetSink(std::move(sink));
          streams_[address] = stream;
          return stream;
        },
        addresses, executor_.get(), user_);
  }
  void Advance(Duration time) {
    bool there = false;
    world_.At(world_.Now() + time, [&there] { there = true; });
    ASSERT_TRUE(world_.RunUntil([&there] { return there; }, time));
  }

  test_support::SimWorld world_;
  std::unique_ptr<Executor> executor_ = world_.NewExecutor("control");
  std::shared_ptr<User> user_ = std::make_shared<User>();
  std::map<std::string, std::shared_ptr<HandStream>> streams_;
  std::vector<std::string> order_;
  std::shared_ptr<BulkStream> race_;
};

TEST_F(RacingStreamTest, AddressesFollowEachOtherAndRelaysComeLast) {
  Dial({kRelay, "a:1", "b:1"});
  EXPECT_THAT(order_, ElementsAre("a:1"));
  Advance(milliseconds(200));
  EXPECT_THAT(order_, ElementsAre("a:1", "b:1"));
  Advance(milliseconds(799));
  EXPECT_EQ(order_.size(), 2u);
  Advance(milliseconds(1));
  EXPECT_THAT(order_, ElementsAre("a:1", "b:1", kRelay));
  EXPECT_THAT(race_->address(), HasSubstr("relay r:1"));
  EXPECT_THAT(race_->address(), testing::Not(HasSubstr("0011")));
}

TEST_F(RacingStreamTest, TheFirstThatAnswersWins) {
  Dial({"a:1", "b:1"});
  Advance(milliseconds(300));
  streams_["b:1"]->Open();
  EXPECT_EQ(user_->opened, 1);
  EXPECT_TRUE(streams_["a:1"]->closed);
  EXPECT_EQ(race_->address(), "b:1");
  streams_["a:1"]->Gone(Cancelled("late"));
  EXPECT_TRUE(user_->gone.empty());
  race_->Write("hello", nullptr, 0, 0);
  race_->Read();
  EXPECT_THAT(streams_["b:1"]->written, ElementsAre("hello"));
  EXPECT_EQ(streams_["b:1"]->reads, 1);
  streams_["b:1"]->Gone(Unavailable("it broke"));
  ASSERT_EQ(user_->gone.size(), 1u);
  EXPECT_EQ(user_->gone[0].message(), "it broke");
}

TEST_F(RacingStreamTest, TheNextBeginsAtOnceWhereNothingIsUnderWay) {
  Dial({"a:1", "b:1", kRelay});
  streams_["a:1"]->Gone(Unavailable("refused"));
  EXPECT_THAT(order_, ElementsAre("a:1", "b:1"));
  streams_["b:1"]->Gone(Unavailable("no route"));
  EXPECT_THAT(order_, ElementsAre("a:1", "b:1", kRelay));
  streams_[kRelay]->Gone(NotFound("not here"));
  ASSERT_EQ(user_->gone.size(), 1u);
  EXPECT_EQ(user_->gone[0].code(), StatusCode::kNotFound);
  EXPECT_EQ(user_->gone[0].message(), "a:1: refused; b:1: no route; relay r:1: not here");
  Advance(std::chrono::seconds(5));
  EXPECT_EQ(order_.size(), 3u);
}

TEST_F(RacingStreamTest, APeerThatRefusesIsNotCalledByARelay) {
  Dial({"a:1", "b:1", kRelay});
  Advance(milliseconds(300));
  streams_["a:1"]->Gone(PermissionDenied("it does not take this peer's key"));
  EXPECT_TRUE(streams_["b:1"]->closed);
  EXPECT_TRUE(user_->gone.empty());
  streams_["b:1"]->Gone(Cancelled("closed"));
  Advance(std::chrono::seconds(5));
  EXPECT_EQ(order_.size(), 2u);
  ASSERT_EQ(user_->gone.size(), 1u);
  EXPECT_THAT(user_->gone[0].message(), HasSubstr("a:1: it does not take this peer's key"));
  EXPECT_EQ(user_->gone[0].code(), StatusCode::kPermissionDenied);
}

TEST_F(RacingStreamTest, WhoeverAnswersAfterwardsIsSentAway) {
  Dial({"a:1", "b:1"});
  Advance(milliseconds(300));
  streams_["a:1"]->Open();
  streams_["b:1"]->Open();
  EXPECT_EQ(user_->opened, 1);
  EXPECT_FALSE(streams_["a:1"]->closed);
  EXPECT_TRUE(streams_["b:1"]->closed);
}

TEST_F(RacingStreamTest, AClosedOneBeginsNothingAndTellsItsEndOnce) {
  Dial({"a:1", "b:1"});
  race_->Close(Cancelled("enough"));
  EXPECT_TRUE(streams_["a:1"]->closed);
  Advance(std::chrono::seconds(5));
  EXPECT_EQ(order_.size(), 1u);
  streams_["a:1"]->Gone(Cancelled("enough"));
  EXPECT_EQ(user_->gone.size(), 1u);
  EXPECT_EQ(user_->opened, 0);
  EXPECT_FALSE(race_->SetSink(user_));
}

}  // namespace
}  // namespace shoal::net
