// Messages that a member of the same plan would not send.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "replica/collective/exchange_message.h"
#include "tests/support/fake_device.h"
#include "tests/unit/replica/collective/exchange_group.h"

namespace shoal::collective {
namespace {

using test_support::MemoryGroup;

ExchangeConfig Config(std::string codec = "direct:bits=4,bucket=16") {
  ExchangeConfig config;
  config.codec = std::move(codec);
  config.row = 16;
  config.chunk_values = 48;
  config.epoch = 1ull << 33;
  return config;
}
constexpr std::uint64_t kRound = 1ull << 34;

// A round of two in which `change` is done to the first message of member 1; what became of
// member 0.
Status AfterChange(const std::function<void(Buffer*)>& change,
                   std::string codec = "direct:bits=4,bucket=16") {
  ExchangeGroup group(2, 1, Config(std::move(codec)));
  bool changed = false;
  group.links_->tap = [&](MemoryGroup::Message* message) {
    if (message->from == 1 && !std::exchange(changed, true)) change(&message->payload);
    return true;
  };
  group.Round(kRound, {2, 3}, {group.Random(150), group.Random(150)});
  EXPECT_TRUE(changed);
  // Whoever ends what follows hears whose it is.
  const Status status = group.StatusOf(0);
  const bool waits = status.ok() || status.code() == StatusCode::kUnavailable;
  EXPECT_EQ(group.links_->blamed.size(), waits ? 0u : 1u) << status.ToString();
  for (const MemoryGroup::Blame& blame : group.links_->blamed) {
    EXPECT_EQ(blame.by, 0u);
    EXPECT_EQ(blame.of, 1u);
  }
  return status;
}

// Who blames whom after a round of gradients that are alike but for what `spoil` does to member
// 1's.
std::vector<std::pair<std::size_t, std::size_t>> BlamedFor(
    const std::function<void(Values*)>& spoil, const ExchangeConfig& config, bool alike = true,
    Combine combine = Combine::kSum) {
  ExchangeGroup group(3, 6, config);
  std::vector<Values> values = group.RandomOfAll(450);
  spoil(&values[1]);
  ExchangeRequest request{kRound, 0, {1, 1, 1}, combine, nullptr};
  request.alike = alike;
  group.Round(request, values);
  std::vector<std::pair<std::size_t, std::size_t>> blamed;
  for (const MemoryGroup::Blame& blame : group.links_->blamed) {
    blamed.emplace_back(blame.by, blame.of);
    EXPECT_FALSE(group.StatusOf(blame.by).ok());
    EXPECT_NE(blame.status.message().find("member 1"), std::string::npos);
  }
  std::ranges::sort(blamed);
  return blamed;
}

std::function<void(Values*)> Times(float factor) {
  return [factor](Values* values) {
    for (float& value : *values) value *= factor;
  };
}

TEST(ExchangeForeignTest, EveryBitOfAHeaderCounts) {
  EXPECT_TRUE(AfterChange([](Buffer*) {}).ok());
  for (std::size_t bit = 0; bit < 8 * kMessageHeaderBytes; ++bit) {
    const Status status = AfterChange(
        [bit](Buffer* message) { message->data()[bit / 8] ^= std::byte{1} << (bit % 8); });
    EXPECT_FALSE(status.ok()) << "bit " << bit;
    // Of an earlier round or epoch it is late, of a later round early: the round waits.
    const bool waits = status.code() == StatusCode::kUnavailable;
    const bool round = bit / 8 >= 16 && bit / 8 < 24, epoch = bit / 8 >= 24 && bit / 8 < 32;
    EXPECT_TRUE(!waits || round || epoch) << "bit " << bit << ": " << status.ToString();
    if (waits) continue;
    EXPECT_NE(status.message().find("member 1"), std::string::npos) << status.ToString();
  }
}

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

TEST(ExchangeForeignTest, AGradientFarAboveTheOwnOneIsBlamedOnItsSender) {
  const Pairs both = {{0, 1}, {2, 1}};
  for (const char* codec : {"raw:dtype=fp32", "direct:bits=4,bucket=16", "onebit"}) {
    for (const Combine combine : {Combine::kSum, Combine::kWeightedMean}) {
      EXPECT_EQ(BlamedFor(Times(1e6F), Config(codec), true, combine), both) << codec;
      EXPECT_EQ(BlamedFor(Times(1e4F), Config(codec), true, combine), Pairs()) << codec;
      EXPECT_EQ(BlamedFor(Times(0), Config(codec), true, combine), Pairs()) << "nothing is large";
    }
    EXPECT_EQ(BlamedFor(Times(1e6F), Config(codec), false), Pairs()) << "others may differ";
  }
}

// As an exchange on a GPU sees it.
TEST(ExchangeForeignTest, AGradientOnADeviceFarAboveTheOwnOneIsBlamedOnItsSender) {
  const auto device = std::make_shared<test_support::FakeDevice>();
  const Pairs both = {{0, 1}, {2, 1}};
  for (const char* codec : {"raw:dtype=fp32", "direct:bits=4,bucket=16"}) {
    ExchangeConfig config = Config(codec);
    config.home = test_support::ValuesOf(device);
    EXPECT_EQ(BlamedFor(Times(1e6F), config), both) << codec;
    EXPECT_EQ(BlamedFor(Times(1e4F), config), Pairs()) << codec;
    EXPECT_EQ(BlamedFor(Times(1e6F), config, false), Pairs()) << "others may differ";
  }
  ExchangeConfig config = Config("raw:dtype=fp32");
  config.home = test_support::ValuesOf(device);
  EXPECT_EQ(BlamedFor([](Values* values) { values->back() = NAN; }, config).size(), 1U)
      << "the owner of the last shard";
}

// Where the own vector says nothing, others' do.
TEST(ExchangeForeignTest, AnOwnerOfZerosComparesOthersGradients) {
  const auto blamed_for = [](float factor, bool others_have_any) {
    ExchangeGroup group(4, 8, Config("raw:dtype=fp32"));
    std::vector<Values> values = group.RandomOfAll(640);
    Times(factor)(&values[1]);
    std::ranges::fill(values[0], 0.0F);
    if (!others_have_any) std::ranges::fill(values[2], 0.0F), std::ranges::fill(values[3], 0.0F);
    ExchangeRequest request{kRound, 0, {1, 1, 1, 1}, Combine::kSum, nullptr};
    request.alike = true;
    group.Round(request, values);
    Pairs pairs;
    for (const auto& blame : group.links_->blamed) pairs.emplace_back(blame.by, blame.of);
    std::ranges::sort(pairs);
    return pairs;
  };
  EXPECT_EQ(blamed_for(1e30F, true), (Pairs{{0, 1}, {2, 1}, {3, 1}})) << "and not member 0";
  EXPECT_EQ(blamed_for(1e3F, true), Pairs());
  EXPECT_EQ(blamed_for(1e30F, false), Pairs()) << "there is nothing to compare it with";
  for (const auto& [by, of] : blamed_for(1e-20F, true)) {
    EXPECT_EQ(by, 1U) << "one that is tiny makes no other large but to itself, not " << of;
  }
}

// What is usual is looked at again where it matters, and once it was, that of zeros is none.
TEST(ExchangeForeignTest, GradientsMayGrowAndVanishTogether) {
  ExchangeGroup group(3, 9, Config("raw:dtype=fp32"));
  std::uint64_t round = kRound;
  for (const float factor : {1.0F, 1e9F, 1e-9F, 1.0F}) {
    std::vector<Values> values = group.RandomOfAll(450);
    for (Values& of_member : values) Times(factor)(&of_member);
    if (factor < 1) std::ranges::fill(values[2], 0.0F);
    ExchangeRequest request{++round, 0, {1, 1, 1}, Combine::kSum, nullptr};
    request.alike = true;
    group.Round(request, values);
    group.Agreed();
    group.Commit();
  }
  EXPECT_TRUE(group.links_->blamed.empty());
}

// What owners could not send of sums waits with them. Of one that another made large, they would
// add it to their own gradients once shards move.
TEST(ExchangeForeignTest, WhatAnotherLeftInAMemoryIsNotItsOwnersFault) {
  ExchangeConfig config = Config("direct:bits=8,bucket=16");
  config.result_codec = "topk:ratio=0.02,bits=8";
  config.error_feedback = true;
  ExchangeGroup group(3, 10, config);
  const auto round_of = [&](std::uint64_t number, std::uint64_t weight, float factor) {
    std::vector<Values> values = group.RandomOfAll(1500);
    Times(factor)(values.data());
    ExchangeRequest request{kRound + number, 0, {weight, 1, 1}, Combine::kSum, nullptr};
    request.alike = true;
    group.Round(request, values);
    group.Agreed();
    group.Commit();
  };
  for (std::uint64_t number = 1; number <= 8; ++number) round_of(number, 1, 3e5F);
  EXPECT_TRUE(group.links_->blamed.empty()) << "just within what a gradient may be";
  for (std::uint64_t number = 9; number <= 12; ++number) round_of(number, 0, 1);
  EXPECT_TRUE(group.links_->blamed.empty());
}

// A member's own device names nobody.
TEST(ExchangeForeignTest, ANormThatADeviceDoesNotGiveIsNobodysFault) {
  class Failing final : public compression::ValueHome {
   public:
    bool on_host() const override { return true; }
    Result<compression::HomeCodec> NewCodec(std::string_view spec,
                                            std::uint32_t hidden) const override {
      return host_.NewCodec(spec, hidden);
    }
    Result<Buffer> Allocate(std::size_t count) const override { return host_.Allocate(count); }
    Result<bool> AllWithin(std::span<const float> values, float most) const override {
      return host_.AllWithin(values, most);
    }
    Result<double> SumOfSquares(std::span<const float> values) const override {
      if (calls++ >= works) return Internal("the device is lost");
      return host_.SumOfSquares(values);
    }
    Status Zero(std::span<float> values) const override { return host_.Zero(values); }
    Status Update(compression::VectorOp op, std::span<const float> from, float factor,
                  std::span<float> to) const override {
      return host_.Update(op, from, factor, to);
    }
    Status CopyToHost(std::span<const float> from, std::span<std::byte> to) const override {
      return host_.CopyToHost(from, to);
    }
    Status CopyFromHost(std::span<const std::byte> from, std::span<float> to) const override {
      return host_.CopyFromHost(from, to);
    }
    std::size_t works = 0;
    mutable std::size_t calls = 0;

   private:
    const compression::ValueHome& host_ = *compression::HostValues();
  };
  for (std::size_t works = 0; works < 9; ++works) {
    const auto home = std::make_shared<Failing>();
    home->works = works;
    ExchangeConfig config = Config("raw:dtype=fp32");
    config.home = home;
    EXPECT_EQ(BlamedFor(Times(1), config), Pairs()) << works;
    home->calls = 0;
    for (const auto& [by, of] : BlamedFor(Times(1e6F), config)) {
      EXPECT_EQ(of, 1U) << works << ": the norms of " << by << " came before";
    }
  }
}

// Who blames whom where member 1 answers `factor` times the sum of its shard.
Pairs BlamedForAnswers(float factor, const ExchangeConfig& config, bool alike = true) {
  ExchangeGroup group(3, 7, config);
  group.links_->tap = [&](MemoryGroup::Message* message) {
    const MessageHeader header = ParseMessageHeader(message->payload.bytes()).value();
    if (message->from != 1 || header.phase != Phase::kResult) return true;
    const auto payload = message->payload.bytes().subspan(kMessageHeaderBytes);
    for (std::size_t at = 0; at < payload.size(); at += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, payload.data() + at, sizeof value);
      value *= factor;
      std::memcpy(payload.data() + at, &value, sizeof value);
    }
    SealMessage(header, message->payload.bytes());
    return true;
  };
  ExchangeRequest request{kRound, 0, {1, 1, 1}, Combine::kSum, nullptr};
  request.alike = alike;
  group.Round(request, group.RandomOfAll(450));
  Pairs blamed;
  for (const MemoryGroup::Blame& blame : group.links_->blamed) {
    blamed.emplace_back(blame.by, blame.of);
    EXPECT_NE(blame.status.message().find("member 1"), std::string::npos);
  }
  std::ranges::sort(blamed);
  return blamed;
}

TEST(ExchangeForeignTest, AnAnswerThatNoOwnerCouldGiveIsBlamedOnIt) {
  const auto device = std::make_shared<test_support::FakeDevice>();
  ExchangeConfig config = Config("raw:dtype=fp32");
  for (const bool on_device : {false, true}) {
    if (on_device) config.home = test_support::ValuesOf(device);
    EXPECT_EQ(BlamedForAnswers(1e9F, config), (Pairs{{0, 1}, {2, 1}})) << on_device;
    EXPECT_EQ(BlamedForAnswers(NAN, config), (Pairs{{0, 1}, {2, 1}})) << on_device;
    EXPECT_EQ(BlamedForAnswers(1e7F, config), Pairs()) << "honest where its own are so much larger";
    EXPECT_EQ(BlamedForAnswers(1e9F, config, false), Pairs());
  }
}

// Where the codec does not refuse it.
TEST(ExchangeForeignTest, AGradientThatIsNotFiniteIsBlamedOnItsSender) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const auto spoil = [bad](Values* values) {
      for (std::size_t i = 0; i < values->size(); i += 100) (*values)[i] = bad;
    };
    const Pairs blamed = BlamedFor(spoil, Config("raw:dtype=fp32"));
    EXPECT_EQ(blamed, (Pairs{{0, 1}, {2, 1}}));
    EXPECT_EQ(BlamedFor(spoil, Config("raw:dtype=fp32"), false), Pairs());
  }
}

TEST(ExchangeForeignTest, EveryByteOfAPayloadCounts) {
  for (const char* codec : {"direct:bits=4,bucket=16", "onebit", "raw:dtype=fp32"}) {
    for (std::size_t at = kMessageHeaderBytes; at < kMessageHeaderBytes + 10; ++at) {
      const Status status =
          AfterChange([at](Buffer* message) { message->data()[at] ^= std::byte{4}; }, codec);
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << codec << ", byte " << at;
      EXPECT_NE(status.message().find("member 1"), std::string::npos) << status.ToString();
    }
  }
}

TEST(ExchangeForeignTest, PayloadsOfAnotherSizeAreRefusedHoweverSealed) {
  for (const char* codec : {"direct:bits=4,bucket=16", "onebit", "raw:dtype=fp32"}) {
    for (const int more : {-64, -5, -1, 1, 4, 1000}) {
      const auto resize = [more](Buffer* message) {
        const MessageHeader header = ParseMessageHeader(message->bytes()).value();
        const std::size_t size = std::max<std::size_t>(
            kMessageHeaderBytes, message->size() + static_cast<std::size_t>(more));
        Buffer other(size);
        std::memset(other.data(), 0, size);
        std::memcpy(other.data(), message->data(), std::min(size, message->size()));
        SealMessage(header, other.bytes());
        *message = std::move(other);
      };
      const Status status = AfterChange(resize, codec);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << codec << ", " << more << " bytes";
    }
  }
  for (std::size_t size = 0; size < kMessageHeaderBytes; ++size) {
    EXPECT_EQ(AfterChange([size](Buffer* message) { message->Truncate(size); }).code(),
              StatusCode::kInvalidArgument);
  }
}

// Every message of a round twice, one at a time: the round fails, or ended before the second came.
TEST(ExchangeForeignTest, ASecondMessageIsNeverCountedTwice) {
  ExchangeGroup once(3, 2, Config("raw:dtype=fp32"));
  const std::vector<Values> values = once.RandomOfAll(100);
  once.Round(1, {1, 1, 1}, values);
  const Values expected = once.Agreed();
  int refused = 0;
  for (int twice = 0; twice < 18; ++twice) {
    ExchangeGroup group(3, 2, Config("raw:dtype=fp32"));
    int sent = 0;
    group.links_->tap = [&](MemoryGroup::Message* message) {
      if (sent++ != twice) return true;
      Buffer copy = Buffer::CopyOf(message->payload.bytes());
      EXPECT_TRUE(group.links_->member(message->from)
                      ->Send(message->to, message->tag, std::move(copy))
                      .ok());
      return true;
    };
    group.Round(1, {1, 1, 1}, values);
    for (std::size_t r = 0; r < 3; ++r) {
      const Status status = group.StatusOf(r);
      EXPECT_TRUE(!status.ok() || SameBits(group.ValuesOf(r), expected));
      if (status.message().find("second") != std::string::npos) ++refused;
    }
  }
  EXPECT_GT(refused, 9);
}

TEST(ExchangeForeignTest, AMemberThatOnlyListensMustNotSend) {
  ExchangeGroup group(3, 3, Config("raw:dtype=fp32"));
  group.links_->tap = [](MemoryGroup::Message* message) { return message->from == 2; };
  const Values values = group.Random(40);
  group.Start(0, {7, 0, {1, 1, 0}, Combine::kSum, Shared(values)});
  group.Start(2, {7, 0, {1, 1, 1}, Combine::kSum, Shared(values)});
  group.Drain();
  EXPECT_NE(group.StatusOf(0).message().find("only listens"), std::string::npos)
      << group.StatusOf(0).ToString();
}

TEST(ExchangeForeignTest, MembersWithOtherMethodsTensorsOrWeightsDoNotMix) {
  for (const int what : {0, 1, 2, 3}) {
    ExchangeGroup group(2, 4, Config());
    const char* const codec = what == 0 ? "direct:bits=5,bucket=16" : "direct:bits=4,bucket=16";
    group.exchange_[1].reset();  // before the next one: each sets the channel's receiver
    group.exchange_[1] = NewDirectExchange(Config(codec), group.links_->member(1),
                                           group.control_.get(), group.compute_[1].get())
                             .value();
    ExchangeRequest request{7, 0, {1, 1}, Combine::kSum, Shared(group.Random(70))};
    group.Start(0, request);
    if (what == 1) request.tensor = 1;
    if (what == 2) request.weights = {1, 2};
    if (what == 3) request.combine = Combine::kWeightedMean;
    group.Start(1, request);
    group.Drain();
    EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kInvalidArgument) << what;
    EXPECT_FALSE(group.StatusOf(1).ok()) << what;
  }
}

TEST(ExchangeForeignTest, MessagesOfTheNextRoundWaitForIt) {
  ExchangeGroup group(2, 5, Config("raw:dtype=fp32"));
  const Values a = group.Random(90), b = group.Random(90);
  group.Start(0, {1, 0, {1, 1}, Combine::kSum, Shared(a)});
  group.Drain();
  EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kUnavailable);  // still waiting
  EXPECT_EQ(group.exchange_[0]->Awaited(), std::vector<std::size_t>{1});
  EXPECT_TRUE(group.exchange_[1]->Awaited().empty());
  group.Start(1, {1, 0, {1, 1}, Combine::kSum, Shared(b)});
  group.Drain();
  EXPECT_EQ(group.Agreed().size(), 90u);
}

TEST(ExchangeForeignTest, AFloodOfEarlyMessagesIsAnErrorNotAHang) {
  for (const bool running : {false, true}) {
    ExchangeConfig config = Config("raw:dtype=fp32");
    config.early_bytes_max = 2000;
    ExchangeGroup group(2, 6, config);
    const ExchangeRequest request{1, 0, {1, 1}, Combine::kSum, Shared({1, 2, 3})};
    if (running) group.Start(0, request);
    group.Drain();
    MessageHeader header;
    header.epoch = config.epoch;
    header.values = header.weight = 1;
    for (header.round = 9; header.round < 1000; ++header.round) {
      Buffer message(kMessageHeaderBytes + 4);
      SealMessage(header, message.bytes());
      ASSERT_TRUE(group.links_->member(1)->Send(0, header.round, std::move(message)).ok());
    }
    group.Drain();
    if (!running) group.Start(0, request);
    group.Drain();
    EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kResourceExhausted);
    EXPECT_NE(group.StatusOf(0).message().find("member 1"), std::string::npos);
  }
}

TEST(ExchangeForeignTest, WrongArgumentsAreRefused) {
  ExchangeGroup group(2, 8, Config());
  const auto code = [&](ExchangeRequest request) {
    group.Start(0, std::move(request));
    group.Drain();
    return group.StatusOf(0).code();
  };
  const auto values = Shared({1.0f});
  EXPECT_EQ(code({3, 0, {0, 0}, Combine::kSum, values}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({3, 0, {1}, Combine::kSum, values}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({3, 0, {1, UINT64_MAX}, Combine::kSum, values}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({3, 0, {1, 1}, Combine::kSum, nullptr}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({3, 0, {1, 1}, Combine::kSum, std::make_shared<const Buffer>(3)}),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code({3, 0, {1, 1}, Combine::kSum, values}), StatusCode::kUnavailable);  // runs
  group.exchange_[0]->Abort();
  EXPECT_EQ(code({3, 0, {1, 1}, Combine::kSum, values}), StatusCode::kInvalidArgument);
}

TEST(ExchangeForeignTest, WrongConfigsAreRefused) {
  ExchangeGroup group(2, 9);
  const auto refused = [&](const std::function<void(ExchangeConfig*)>& change) {
    ExchangeConfig config;
    change(&config);
    const auto made = NewDirectExchange(config, group.links_->member(0), group.control_.get(),
                                        group.compute_[0].get());
    return made.ok() ? std::string() : made.status().message();
  };
  EXPECT_EQ(refused([](ExchangeConfig*) {}), "");
  for (const char* codec : {"aqsgd:bits=4", "topk:ratio=0.1,bits=4,feedback=on", "nothing",
                            "onebit:bucket=0", "onebit:bucket=4x", "onebitter", "onebit:bits=1"}) {
    EXPECT_NE(refused([&](ExchangeConfig* c) { c->codec = codec; }), "") << codec;
    EXPECT_NE(refused([&](ExchangeConfig* c) { c->result_codec = codec; }), "") << codec;
  }
  EXPECT_NE(refused([](ExchangeConfig* c) { c->row = 0; }), "");
  EXPECT_NE(refused([](ExchangeConfig* c) { c->chunk_bytes = 100; }), "");
  EXPECT_NE(refused([](ExchangeConfig* c) { c->shares = {1}; }), "");
  EXPECT_NE(refused([](ExchangeConfig* c) { c->shares = {1, -1}; }), "");
}

}  // namespace
}  // namespace shoal::collective
