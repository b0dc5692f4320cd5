// Two striped streams over stripes that delay each message at random, in virtual time.

#include "net/links/striped_stream.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <string>

#include "tests/support/sim_executor.h"

namespace shoal::net {
namespace {

using std::chrono::microseconds;
using testing::HasSubstr;

ByteSlices OneSlice(const std::string& message) {
  return {std::as_bytes(std::span<const char>(message))};
}

// One end of a stripe. What is written is with the other end after the stripe's delay, in order;
// the writer may be told later than that.
class FakeStripe final : public BulkStream, public std::enable_shared_from_this<FakeStripe> {
 public:
  FakeStripe(test_support::SimWorld* world, unsigned seed) : world_(world), random_(seed) {}

  static std::pair<std::shared_ptr<FakeStripe>, std::shared_ptr<FakeStripe>> Pair(
      test_support::SimWorld* world, unsigned seed) {
    const auto a = std::make_shared<FakeStripe>(world, seed);
    const auto b = std::make_shared<FakeStripe>(world, seed + 1000);
    a->other_ = b;
    b->other_ = a;
    return {a, b};
  }

  void set_delay_us(int least, int most) { delay_ = std::uniform_int_distribution<>(least, most); }
  void set_told_late_us(int least, int most) {
    late_ = std::uniform_int_distribution<>(least, most);
  }
  int writes() const { return writes_; }
  bool gone() const { return gone_; }

  bool SetSink(std::shared_ptr<StreamSink> sink) override {
    sink_ = std::move(sink);
    return !gone_;
  }
  void Write(std::string head, std::shared_ptr<const Buffer> payload, std::size_t offset,
             std::size_t size) override {
    ASSERT_FALSE(writing_) << "two writes at once";
    writing_ = true;
    ++writes_;
    std::string message = std::move(head);
    if (size > 0) message.append(reinterpret_cast<const char*>(payload->data()) + offset, size);
    const TimePoint done = world_->Now() + microseconds(delay_(random_));
    arrives_ = std::max(arrives_, done) + microseconds(delay_(random_));
    world_->At(done + microseconds(late_(random_)), [self = shared_from_this()] {
      self->writing_ = false;
      if (!self->gone_ && self->sink_) self->sink_->OnWritten(self.get());
    });
    world_->At(arrives_, [other = other_, message] {
      if (const auto there = other.lock()) {
        there->arrived_.push_back(message);
        there->Hand();
      }
    });
  }
  void Read() override {
    ASSERT_FALSE(wanted_) << "two reads at once";
    wanted_ = true;
    world_->At(world_->Now(), [self = shared_from_this()] { self->Hand(); });
  }
  void Close(const Status& reason) override {
    for (const auto& end : {shared_from_this(), other_.lock()}) {
      if (!end) continue;
      world_->At(world_->Now(), [end, reason] { end->Gone(reason); });
    }
  }
  std::string address() const override { return "stripe"; }
  std::string peer_address() const override { return "other"; }

  void Open() { sink_->OnOpen(this); }

 private:
  void Hand() {
    if (!wanted_ || arrived_.empty() || gone_) return;
    wanted_ = false;
    const std::string message = arrived_.front();
    arrived_.pop_front();
    sink_->OnRead(this, OneSlice(message));
  }
  void Gone(const Status& reason) {
    if (std::exchange(gone_, true)) return;
    if (const auto sink = std::exchange(sink_, nullptr)) sink->OnGone(this, reason);
  }

  test_support::SimWorld* const world_;
  std::mt19937 random_;
  std::uniform_int_distribution<> delay_{1, 1}, late_{0, 0};
  std::weak_ptr<FakeStripe> other_;
  std::shared_ptr<StreamSink> sink_;
  std::deque<std::string> arrived_;
  TimePoint arrives_{};
  bool writing_ = false, wanted_ = false, gone_ = false;
  int writes_ = 0;
};

std::string MessageOf(std::uint64_t sequence, std::uint64_t frame) {
  bulk::v1::ChunkHeader header;
  header.set_frame(frame);
  header.set_sequence(sequence);
  return ChunkHead(header);
}

// What a link does with its stream: writes one message after the other, reads when it likes.
struct User final : public StreamSink {
  test_support::SimWorld* world = nullptr;
  std::shared_ptr<StripedStream> stream;
  std::deque<std::string> to_write;
  std::vector<std::uint64_t> sequences;  // read, 0: none
  int written = 0, opened = 0;
  bool reading_now = false;
  int read_pause_us = 0;
  std::vector<Status> gone;

  void WriteNext() {
    if (to_write.empty()) return;
    std::string message = to_write.front();
    to_write.pop_front();
    stream->Write(std::move(message), nullptr, 0, 0);
  }
  void OnOpen(BulkStream*) override { ++opened; }
  void OnWritten(BulkStream*) override {
    ++written;
    WriteNext();
  }
  void OnRead(BulkStream*, const ByteSlices& message) override {
    ASSERT_FALSE(reading_now);
    reading_now = true;
    const auto chunk = ParseChunk(message);
    ASSERT_TRUE(chunk.ok());
    sequences.push_back(chunk->header.sequence());
    if (read_pause_us == 0) {
      stream->Read();
    } else {
      world->At(world->Now() + microseconds(read_pause_us), [this] { stream->Read(); });
    }
    reading_now = false;
  }
  void OnGone(BulkStream*, const Status& status) override { gone.push_back(status); }
};

class StripedStreamTest : public testing::Test {
 protected:
  // Connected by one stripe, both ends reading.
  void Connect(unsigned seed) {
    seed_ = seed;
    a_->world = b_->world = &world_;
    a_->stream = StripedStream::Dial(Dialer(&b_), {"there", "or there"}, executor_.get(), a_);
    Run();
    ASSERT_EQ(a_->opened, 1);
    b_->stream = StripedStream::Accepted(ends_[0].second, Dialer(&a_), executor_.get());
    ASSERT_TRUE(b_->stream->SetSink(b_));
    a_->stream->Read();
    b_->stream->Read();
  }
  void TearDown() override {
    for (const auto& user : {a_, b_}) {
      if (user->stream) user->stream->Close(Cancelled("test ends"));
    }
    Run();
    a_->stream = b_->stream = nullptr;
  }

  // Of the end whose stripes `other` takes.
  StripedStream::DialStripe Dialer(const std::shared_ptr<User>* other) {
    return
        [this, other](const std::vector<std::string>& addresses, std::shared_ptr<StreamSink> sink) {
          dialled_.push_back(addresses);
          return DialStripe(*other, std::move(sink));
        };
  }

  std::shared_ptr<BulkStream> DialStripe(const std::shared_ptr<User>& other,
                                         std::shared_ptr<StreamSink> sink) {
    ends_.push_back(FakeStripe::Pair(&world_, seed_ * 10 + static_cast<unsigned>(ends_.size())));
    const auto& [here, there] = ends_.back();
    here->set_delay_us(1, most_us_);
    there->set_delay_us(1, most_us_);
    for (const auto& end : {here, there}) end->set_told_late_us(late_us_ / 2, late_us_);
    here->SetSink(std::move(sink));
    if (ends_.size() > 1) {
      there->SetSink(std::make_shared<Greeter>(this, there, other));
      there->Read();
    }
    if (!silent_) world_.At(world_.Now(), [stripe = here] { stripe->Open(); });
    return here;
  }

  // Joins, or refuses, as the net's greeter does.
  struct Greeter final : public StreamSink {
    Greeter(StripedStreamTest* owner, std::shared_ptr<FakeStripe> end, std::shared_ptr<User> user)
        : test(owner), stripe(std::move(end)), to(std::move(user)) {}
    void OnOpen(BulkStream*) override {}
    void OnRead(BulkStream*, const ByteSlices& message) override {
      const auto chunk = ParseChunk(message);
      ASSERT_TRUE(chunk.ok() && chunk->header.has_hello());
      test->said_.insert(chunk->header.hello().stripe());
      bulk::v1::ChunkHeader header;
      header.mutable_accept()->set_code(test->refuse_ ? 5 : 0);
      if (test->refuse_) {
        stripe->Write(ChunkHead(header), nullptr, 0, 0);
      } else {
        ASSERT_TRUE(to->stream->Join(stripe, ChunkHead(header), chunk->header.hello().moves()));
      }
    }
    void OnWritten(BulkStream*) override {}
    void OnGone(BulkStream*, const Status&) override {}
    StripedStreamTest* const test;
    const std::shared_ptr<FakeStripe> stripe;
    const std::shared_ptr<User> to;
  };

  void Grow(std::size_t stripes) {
    for (std::size_t i = 1; i < stripes; ++i) {
      ASSERT_TRUE(a_->stream->Grow({}));
      EXPECT_FALSE(a_->stream->Grow({}));  // one at a time
      Run();
    }
    ASSERT_EQ(a_->stream->stripes(), stripes);
    ASSERT_EQ(b_->stream->stripes(), stripes);
  }
  void Run() {
    world_.RunUntil([] { return false; }, std::chrono::hours(1));
  }

  test_support::SimWorld world_;
  std::unique_ptr<Executor> executor_ = world_.NewExecutor("control");
  unsigned seed_ = 1;
  int most_us_ = 1;
  int late_us_ = 0;  // after which a writer is told at most; at least half of it
  bool refuse_ = false;
  bool silent_ = false;  // stripes do not open
  std::vector<std::vector<std::string>> dialled_;
  std::set<std::uint32_t> said_;  // numbers of the stripes that said hello
  std::vector<std::pair<std::shared_ptr<FakeStripe>, std::shared_ptr<FakeStripe>>> ends_;
  std::shared_ptr<User> a_ = std::make_shared<User>(), b_ = std::make_shared<User>();
};

TEST_F(StripedStreamTest, OneLaneIsTheStreamItself) {
  Connect(1);
  for (std::uint64_t i = 1; i <= 5; ++i) a_->to_write.push_back(MessageOf(i, 1));
  a_->WriteNext();
  Run();
  EXPECT_EQ(b_->sequences, (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(a_->written, 5);
}

class StripedStreamSeeds : public StripedStreamTest,
                           public testing::WithParamInterface<unsigned> {};

TEST_P(StripedStreamSeeds, ManyLanesKeepTheOrder) {
  const unsigned seed = GetParam();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  most_us_ = 500;
  const std::size_t stripes = 1 + seed % 4;
  b_->read_pause_us = seed % 3 == 0 ? 200 : 0;
  Connect(seed);
  Grow(stripes);
  const std::size_t control = b_->sequences.size();
  std::vector<std::uint64_t> wanted;
  int others = 0;
  for (std::uint64_t i = 1; i <= 300; ++i) {
    a_->to_write.push_back(MessageOf(i, 1));
    wanted.push_back(i);
    if (i % 7 == 0) {
      bulk::v1::ChunkHeader ping;
      ping.mutable_ping()->set_id(i);
      a_->to_write.push_back(ChunkHead(ping));
      ++others;
    }
  }
  a_->WriteNext();
  Run();
  EXPECT_EQ(a_->written, 300 + others);
  std::vector<std::uint64_t> read(b_->sequences.begin() + static_cast<std::ptrdiff_t>(control),
                                  b_->sequences.end());
  EXPECT_EQ(std::count(read.begin(), read.end(), 0), others);
  std::erase(read, 0u);
  EXPECT_EQ(read, wanted);
  for (std::size_t i = 0; i < stripes; ++i) EXPECT_GT(ends_[i].first->writes(), 10) << i;
  EXPECT_TRUE(a_->gone.empty() && b_->gone.empty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, StripedStreamSeeds, testing::Range(1u, 41u));

TEST_F(StripedStreamTest, TheSecondLaneIsUsedOnlyWhileTheFirstIsHeldUp) {
  Connect(1);
  Grow(2);
  EXPECT_EQ(said_, (std::set<std::uint32_t>{1}));
  const int hellos = ends_[1].first->writes();
  for (std::uint64_t i = 1; i <= 20; ++i) {
    a_->to_write.push_back(MessageOf(i, 1));
    a_->WriteNext();
    Run();
  }
  EXPECT_EQ(ends_[1].first->writes(), hellos);
  ends_[0].first->set_delay_us(10'000, 10'000);
  for (std::uint64_t i = 21; i <= 40; ++i) a_->to_write.push_back(MessageOf(i, 1));
  a_->WriteNext();
  Run();
  EXPECT_GT(ends_[1].first->writes(), hellos + 15);
  EXPECT_EQ(b_->sequences.size(), 40u);
}

TEST_F(StripedStreamTest, ARefusedLaneChangesNothing) {
  Connect(1);
  refuse_ = true;
  ASSERT_TRUE(a_->stream->Grow({}));
  Run();
  EXPECT_EQ(a_->stream->stripes(), 1u);
  EXPECT_FALSE(a_->stream->Grow({}));  // nor is it asked for again
  a_->to_write.push_back(MessageOf(1, 1));
  a_->WriteNext();
  Run();
  EXPECT_EQ(b_->sequences, std::vector<std::uint64_t>{1});
  EXPECT_TRUE(a_->gone.empty());
}

TEST_F(StripedStreamTest, ALaneThatBreaksEndsTheStreamOnce) {
  Connect(1);
  Grow(3);
  ends_[2].second->Close(Unavailable("the line was cut"));
  Run();
  ASSERT_EQ(a_->gone.size(), 1u);
  ASSERT_EQ(b_->gone.size(), 1u);
  EXPECT_THAT(a_->gone[0].message(), HasSubstr("cut"));
  EXPECT_EQ(a_->stream->stripes(), 0u);
  EXPECT_FALSE(a_->stream->Grow({}));
}

TEST_F(StripedStreamTest, AChunkThatIsMissingEndsTheStream) {
  Connect(1);
  Grow(2);
  a_->to_write = {MessageOf(1, 1), MessageOf(3, 1), MessageOf(4, 1), MessageOf(5, 1)};
  ends_[0].first->set_delay_us(100, 100);
  ends_[1].first->set_delay_us(100, 100);
  a_->WriteNext();
  Run();
  EXPECT_EQ(b_->sequences.back(), 1u);
  ASSERT_EQ(b_->gone.size(), 1u);
  EXPECT_THAT(b_->gone[0].message(), HasSubstr("missing"));
}

// Who accepts a stripe may send by it right behind the answer, which the other end does not have
// yet.
TEST_F(StripedStreamTest, NothingIsMissingWhileALaneAwaitsItsAnswer) {
  Connect(1);
  ends_[0].second->set_delay_us(1, 1);
  ASSERT_TRUE(a_->stream->Grow({}));
  ends_[1].first->set_delay_us(1, 1);
  ends_[1].second->set_delay_us(1000, 1000);
  for (std::uint64_t i = 1; i <= 6; ++i) b_->to_write.push_back(MessageOf(i, 1));
  world_.At(world_.Now() + microseconds(1500), [this] { b_->WriteNext(); });
  Run();
  EXPECT_TRUE(a_->gone.empty());
  EXPECT_EQ(a_->sequences, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_GT(ends_[1].second->writes(), 1);  // the answer, and chunks
}

TEST_F(StripedStreamTest, ANumberThatWasThereIsHandedOn) {
  Connect(1);
  a_->to_write = {MessageOf(1, 1), MessageOf(1, 1), MessageOf(2, 1)};
  a_->WriteNext();
  Run();
  EXPECT_EQ(b_->sequences, (std::vector<std::uint64_t>{1, 1, 2}));
}

TEST_P(StripedStreamSeeds, MovesWithoutLosingAMessage) {
  const unsigned seed = GetParam();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  most_us_ = 400;
  late_us_ = seed % 2 == 0 ? 1000 : 0;
  b_->read_pause_us = seed % 4 == 0 ? 150 : 0;
  Connect(seed);
  if (seed % 5 == 0) Grow(3);
  const std::size_t before = ends_.size();
  std::vector<std::uint64_t> wanted;
  for (std::uint64_t i = 1; i <= 300; ++i) {
    for (const auto& user : {a_, b_}) user->to_write.push_back(MessageOf(i, 1));
    wanted.push_back(i);
  }
  const auto move_at = [this](const std::shared_ptr<User>& user, int us) {
    world_.At(world_.Now() + microseconds(us),
              [user] { EXPECT_TRUE(user->stream->Move({}, {"better"}, std::chrono::seconds(5))); });
  };
  const bool by_a = seed % 3 != 1, by_b = seed % 3 != 0;  // or both, a moment apart
  std::mt19937 random(seed);
  if (by_a) move_at(a_, std::uniform_int_distribution<>(0, 20'000)(random));
  if (by_b) move_at(b_, std::uniform_int_distribution<>(0, 20'000)(random));
  a_->WriteNext();
  b_->WriteNext();
  Run();
  for (const auto& user : {a_, b_}) {
    EXPECT_EQ(user->written, 300);
    std::vector<std::uint64_t> read = user->sequences;
    std::erase(read, 0u);
    EXPECT_EQ(read, wanted);
    EXPECT_TRUE(user->gone.empty());
    EXPECT_GT(user->stream->changes(), 1u);
  }
  for (std::size_t i = 0; i < before; ++i) {
    EXPECT_TRUE(ends_[i].first->gone() && ends_[i].second->gone()) << i;
  }
  const auto left = std::count_if(ends_.begin(), ends_.end(),
                                  [](const auto& pair) { return !pair.first->gone(); });
  EXPECT_GE(left, 1);
  EXPECT_EQ(a_->stream->stripes(), static_cast<std::size_t>(left));
  EXPECT_EQ(b_->stream->stripes(), static_cast<std::size_t>(left));
  if (by_a != by_b) {
    EXPECT_EQ(left, 1);
    EXPECT_EQ(a_->stream->dialled(), by_a);
    EXPECT_EQ(b_->stream->dialled(), by_b);
  }
}

TEST_F(StripedStreamTest, MovesAsOftenAsOneLikes) {
  Connect(3);
  for (std::uint64_t i = 1; i <= 40; ++i) {
    const auto& user = i % 3 == 0 ? b_ : a_;
    ASSERT_TRUE(user->stream->Move({}, {"better"}, std::chrono::seconds(5))) << i;
    EXPECT_FALSE(user->stream->Move({}, {"better"}, std::chrono::seconds(5)));
    a_->to_write.push_back(MessageOf(i, 1));
    a_->WriteNext();
    Run();
    ASSERT_EQ(a_->stream->stripes(), 1u);
    ASSERT_EQ(b_->stream->stripes(), 1u);
  }
  EXPECT_EQ(std::count(b_->sequences.begin(), b_->sequences.end(), 0), 0);
  EXPECT_EQ(b_->sequences.size(), 40u);
  EXPECT_EQ(dialled_.back(), std::vector<std::string>{"better"});
  Grow(2);  // by whoever dialled what is left
  EXPECT_EQ(dialled_.back(), std::vector<std::string>{"stripe"});
}

// The link was told long ago that it may write; the new lane's own greeting is not known to be
// written yet.
TEST_F(StripedStreamTest, AMessageWaitsWhereTheFreeLaneHasRetired) {
  Connect(1);
  late_us_ = 50'000;
  ASSERT_TRUE(a_->stream->Move({}, {"better"}, std::chrono::seconds(5)));
  world_.RunUntil([] { return false; }, std::chrono::milliseconds(10));
  ASSERT_EQ(b_->stream->stripes(), 1u);
  for (std::uint64_t i = 1; i <= 3; ++i) b_->to_write.push_back(MessageOf(i, 1));
  b_->WriteNext();
  EXPECT_TRUE(a_->sequences.empty());
  Run();
  EXPECT_EQ(a_->sequences, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(b_->written, 3);
  EXPECT_TRUE(a_->gone.empty() && b_->gone.empty());
}

// The end that accepts a way has it open before the other end hears of that.
TEST_F(StripedStreamTest, AWayThatIsGivenUpBeforeItsAnswerChangesNothing) {
  Connect(1);
  ASSERT_TRUE(a_->stream->Move({}, {"better"}, std::chrono::milliseconds(10)));
  ends_.back().second->set_delay_us(50'000, 50'000);
  world_.RunUntil([] { return false; }, std::chrono::milliseconds(5));
  ASSERT_EQ(b_->stream->stripes(), 2u);
  const std::uint64_t changes = b_->stream->changes();
  Run();
  EXPECT_TRUE(ends_.back().first->gone());
  EXPECT_EQ(b_->stream->stripes(), 1u);
  EXPECT_GT(b_->stream->changes(), changes);  // the link looks at its way again
  for (const auto& user : {a_, b_}) {
    user->to_write.push_back(MessageOf(1, 1));
    user->WriteNext();
  }
  Run();
  EXPECT_EQ(a_->sequences, std::vector<std::uint64_t>{1});
  EXPECT_EQ(b_->sequences, std::vector<std::uint64_t>{1});
  EXPECT_TRUE(a_->gone.empty() && b_->gone.empty());
}

// One that was reached in time is not given up because its answer takes a while.
TEST_F(StripedStreamTest, AnAnswerMayTakeAsLongAsTheWayDid) {
  Connect(1);
  ASSERT_TRUE(a_->stream->Move({}, {"better"}, std::chrono::milliseconds(10)));
  ends_.back().second->set_delay_us(7'000, 7'000);
  Run();
  EXPECT_FALSE(ends_.back().first->gone());
  EXPECT_TRUE(ends_.front().first->gone());
  EXPECT_TRUE(a_->gone.empty() && b_->gone.empty());
}

// What this end sent over it is lost.
TEST_F(StripedStreamTest, AWayThatIsGivenUpAfterItsFirstMessageEndsTheStream) {
  Connect(1);
  ends_[0].second->set_delay_us(500'000, 500'000);
  ASSERT_TRUE(a_->stream->Move({}, {"better"}, std::chrono::milliseconds(20)));
  ends_.back().second->set_delay_us(30'000, 30'000);
  world_.RunUntil([] { return false; }, std::chrono::milliseconds(35));
  for (std::uint64_t i = 1; i <= 2; ++i) b_->to_write.push_back(MessageOf(i, 1));
  b_->WriteNext();  // the second one goes over the new lane
  Run();
  EXPECT_EQ(ends_.back().second->writes(), 2);
  EXPECT_EQ(b_->gone.size(), 1u);
  EXPECT_EQ(a_->gone.size(), 1u);
}

TEST_F(StripedStreamTest, AWayThatCannotBeHadChangesNothing) {
  Connect(1);
  refuse_ = true;
  ASSERT_TRUE(a_->stream->Move({}, {"better"}, std::chrono::seconds(5)));
  Run();
  refuse_ = false;
  silent_ = true;
  ASSERT_TRUE(a_->stream->Move({}, {"better"}, std::chrono::seconds(5)));
  Run();
  EXPECT_TRUE(ends_[2].first->gone());  // it was not waited for without end
  silent_ = false;
  EXPECT_EQ(a_->stream->stripes(), 1u);
  a_->to_write.push_back(MessageOf(1, 1));
  a_->WriteNext();
  Run();
  EXPECT_EQ(b_->sequences, std::vector<std::uint64_t>{1});
  EXPECT_TRUE(a_->gone.empty() && b_->gone.empty());
  Grow(2);  // connections by the same way may still be had
}

TEST_F(StripedStreamTest, WhoRetiresTheOnlyLaneIsRefused) {
  for (const bool seen : {false, true}) {
    Connect(1);
    bulk::v1::ChunkHeader header;
    header.mutable_retire()->set_seen(seen);
    ends_.back().first->Write(ChunkHead(header), nullptr, 0, 0);
    Run();
    ASSERT_EQ(b_->gone.size(), 1u);
    EXPECT_EQ(b_->gone[0].code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(b_->gone[0].message(), HasSubstr("retired against the rules"));
    TearDown();
    ends_.clear();
    a_ = std::make_shared<User>();
    b_ = std::make_shared<User>();
  }
}

TEST_F(StripedStreamTest, WhoWritesOnAfterRetiringIsRefused) {
  Connect(1);
  Grow(2);
  ends_[1].second->set_delay_us(50'000, 50'000);
  bulk::v1::ChunkHeader header;
  header.mutable_retire();
  ends_[1].first->Write(ChunkHead(header), nullptr, 0, 0);
  world_.RunUntil([] { return false; }, std::chrono::milliseconds(10));
  EXPECT_TRUE(b_->gone.empty());
  EXPECT_EQ(b_->stream->stripes(), 1u);
  ends_[1].first->Write(MessageOf(1, 1), nullptr, 0, 0);
  Run();
  ASSERT_EQ(b_->gone.size(), 1u);
  EXPECT_THAT(b_->gone[0].message(), HasSubstr("retired against the rules"));
}

// What was under way on it is lost.
TEST_F(StripedStreamTest, ALaneThatBreaksWhileItRetiresEndsTheStream) {
  Connect(1);
  ends_[0].second->set_delay_us(50'000, 50'000);
  for (std::uint64_t i = 1; i <= 3; ++i) b_->to_write.push_back(MessageOf(i, 1));
  b_->WriteNext();
  ASSERT_TRUE(a_->stream->Move({}, {"better"}, std::chrono::seconds(5)));
  world_.At(world_.Now() + std::chrono::milliseconds(20),
            [this] { ends_[0].second->Close(Unavailable("the relay died")); });
  Run();
  EXPECT_EQ(a_->gone.size(), 1u);
}

}  // namespace
}  // namespace shoal::net
