#include "replica/collective/channel_mux.h"

#include "tests/unit/replica/collective/exchange_group.h"

namespace shoal::collective {
namespace {

using test_support::MemoryGroup;

constexpr std::size_t kMembers = 3;
enum : std::size_t { kGradients, kParameters, kHalves, kChannels };

// Three members whose links carry three channels.
class MuxTest : public testing::Test {
 protected:
  MuxTest() {
    control_ = world_.NewExecutor("control");
    compute_ = world_.NewExecutor("compute");
    links_ = std::make_unique<MemoryGroup>(&world_, control_.get(), kMembers, [this] {
      return std::chrono::microseconds(random_() % 1000);
    });
    for (std::size_t r = 0; r < kMembers; ++r) MakeMux(r, {});
  }

  void MakeMux(std::size_t rank, MuxLimits limits) {
    mux_[rank].reset();
    mux_[rank] = std::make_unique<ChannelMux>(
        links_->member(rank), kChannels,
        [this, rank](Status status) { errors_[rank].push_back(std::move(status)); }, limits);
  }
  std::unique_ptr<Exchange> Direct(std::size_t rank, std::size_t channel, const char* codec) {
    ExchangeConfig config;
    config.codec = codec;
    config.row = 16;
    config.chunk_values = 48;
    config.seed = channel;
    return NewDirectExchange(config, mux_[rank]->channel(channel), control_.get(), compute_.get())
        .value();
  }
  void Drain() {
    while (world_.Step()) {
    }
  }

  std::mt19937 random_{4};
  test_support::SimWorld world_;
  std::unique_ptr<Executor> control_, compute_;
  std::unique_ptr<MemoryGroup> links_;
  std::unique_ptr<ChannelMux> mux_[kMembers];
  std::vector<Status> errors_[kMembers];
};

TEST_F(MuxTest, ExchangesRunAtTheSameTimeAsIfAlone) {
  std::vector<std::unique_ptr<Exchange>> all[kMembers];
  for (std::size_t r = 0; r < kMembers; ++r) {
    all[r].push_back(Direct(r, kGradients, "direct:bits=4,bucket=16"));
    all[r].push_back(Direct(r, kParameters, "raw:dtype=fp32"));
    all[r].push_back(Direct(r, kHalves, "raw:dtype=fp16"));
  }
  std::vector<std::size_t> messages(kChannels), switches(1);
  links_->tap = [&, last = std::size_t{kChannels}](MemoryGroup::Message* message) mutable {
    const std::size_t channel = message->tag >> kMuxTagBits;
    EXPECT_LE(message->tag & 0xffff, 5u);  // the round
    ++messages.at(channel);
    if (std::exchange(last, channel) != channel) ++switches[0];
    return true;
  };
  ExchangeGroup alone(kMembers, 9);
  for (std::uint64_t round = 1; round <= 5; ++round) {
    std::vector<Values> values = alone.RandomOfAll(300);
    std::vector<std::optional<Values>> got[kMembers];
    for (std::size_t r = 0; r < kMembers; ++r) {
      got[r].resize(kChannels);
      for (std::size_t c = 0; c < kChannels; ++c) {
        const auto store = [&got, r, c](Result<Buffer> sum) {
          ASSERT_TRUE(sum.ok()) << sum.status().ToString();
          const auto floats = std::as_const(*sum).floats();
          got[r][c] = Values(floats.begin(), floats.end());
        };
        control_->Post("start", [&, r, c, store] {
          const std::vector<std::uint64_t> weights(kMembers, 1);
          all[r][c]->Start({round, 0, weights, Combine::kSum, Shared(values[r])}, store);
        });
      }
    }
    Drain();
    alone.Round(round, {1, 1, 1}, values);
    const Values exact = alone.Agreed();
    for (std::size_t c = 0; c < kChannels; ++c) {
      for (std::size_t r = 0; r < kMembers; ++r) {
        ASSERT_TRUE(got[r][c].has_value());
        EXPECT_TRUE(SameBits(*got[r][c], *got[0][c])) << "channel " << c << ", member " << r;
      }
    }
    EXPECT_TRUE(SameBits(*got[0][kParameters], exact));
    EXPECT_FALSE(SameBits(*got[0][kGradients], exact));  // four bits
    for (std::size_t i = 0; i < exact.size(); ++i) {
      EXPECT_NEAR((*got[0][kHalves])[i], exact[i], 1.0);  // of hundreds
    }
  }
  for (const std::size_t count : messages) EXPECT_GT(count, 50u);
  EXPECT_GT(switches[0], 50u);  // they ran at the same time
  for (const auto& errors : errors_) EXPECT_TRUE(errors.empty());
}

struct Got {
  std::size_t from;
  std::uint64_t tag;
  std::size_t bytes;
  bool operator==(const Got&) const = default;
};

TEST_F(MuxTest, TagsComeBackAsTheyWereAndWaitForAReceiver) {
  constexpr std::uint64_t kLargest = (std::uint64_t{1} << kMuxTagBits) - 1;
  std::vector<std::uint64_t> tags;
  links_->tap = [&](MemoryGroup::Message* message) {
    tags.push_back(message->tag);
    return true;
  };
  EXPECT_TRUE(mux_[1]->channel(2)->Send(0, kLargest, Buffer(7)).ok());
  EXPECT_TRUE(mux_[1]->channel(2)->Send(0, 0, Buffer(8)).ok());
  EXPECT_TRUE(mux_[1]->channel(0)->Send(0, kLargest, Buffer(9)).ok());
  EXPECT_EQ(mux_[1]->channel(2)->Send(0, kLargest + 1, Buffer(9)).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(tags, (std::vector<std::uint64_t>{0x02ffffffffffffff, 0x0200000000000000,
                                              0x00ffffffffffffff}));
  std::vector<Got> got;
  const auto receiver = [&](std::size_t from, std::uint64_t tag, const Buffer& payload) {
    got.push_back({from, tag, payload.size()});
  };
  mux_[0]->channel(0)->SetReceiver(receiver);
  Drain();
  EXPECT_EQ(got, (std::vector<Got>{{1, kLargest, 9}}));
  mux_[0]->channel(1)->SetReceiver(receiver);
  EXPECT_EQ(got.size(), 1u);
  mux_[0]->channel(2)->SetReceiver(receiver);
  EXPECT_EQ(got, (std::vector<Got>{{1, kLargest, 9}, {1, kLargest, 7}, {1, 0, 8}}));
  EXPECT_EQ(mux_[0]->channel(1)->size(), kMembers);
  EXPECT_EQ(mux_[2]->channel(1)->rank(), 2u);
}

TEST_F(MuxTest, AMessageOfAnUnknownChannelIsAnErrorOnceAndNothingIsDeliveredAfterIt) {
  std::vector<std::uint64_t> got;
  mux_[0]->channel(0)->SetReceiver(
      [&](std::size_t, std::uint64_t tag, const Buffer&) { got.push_back(tag); });
  for (const std::uint64_t tag : {1ull, 3ull << 56, 255ull << 56, 2ull}) {
    EXPECT_TRUE(links_->member(2)->Send(0, tag, Buffer(4)).ok());
  }
  Drain();
  ASSERT_EQ(errors_[0].size(), 1u);
  EXPECT_EQ(errors_[0][0].code(), StatusCode::kInvalidArgument);
  EXPECT_NE(errors_[0][0].message().find("member 2"), std::string::npos);
  EXPECT_NE(errors_[0][0].message().find("channel 3"), std::string::npos);
  EXPECT_EQ(got, std::vector<std::uint64_t>{1});
}

TEST_F(MuxTest, TheErrorMayDestroyTheMux) {
  mux_[0].reset();
  int calls = 0;
  mux_[0] = std::make_unique<ChannelMux>(links_->member(0), 1, [&](const Status&) {
    ++calls;
    mux_[0].reset();
  });
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(links_->member(1)->Send(0, 1ull << 56, Buffer(4)).ok());
  }
  Drain();
  EXPECT_EQ(calls, 1);
}

TEST_F(MuxTest, WhatWaitsForAReceiverIsBoundedPerMember) {
  MakeMux(0, {1000});
  const auto send = [&](std::size_t from, std::size_t bytes) {
    EXPECT_TRUE(mux_[from]->channel(1)->Send(0, 1, Buffer(bytes)).ok());
    Drain();
  };
  for (const std::size_t from : {1u, 2u}) {
    send(from, 244);
    send(from, 244);  // 1000 with what holding costs
  }
  EXPECT_TRUE(errors_[0].empty());
  std::size_t got = 0;
  mux_[0]->channel(1)->SetReceiver([&](std::size_t, std::uint64_t, const Buffer&) { ++got; });
  mux_[0]->channel(1)->SetReceiver(nullptr);
  EXPECT_EQ(got, 4u);
  send(1, 744);  // there is room again
  EXPECT_TRUE(errors_[0].empty());
  send(1, 0);
  ASSERT_EQ(errors_[0].size(), 1u);
  EXPECT_EQ(errors_[0][0].code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace shoal::collective
