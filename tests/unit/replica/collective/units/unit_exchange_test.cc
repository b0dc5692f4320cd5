// Members that gather pieces from their owners and send gradients to them.

#include "replica/collective/units/unit_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "tests/support/memory_group.h"

namespace shoal::collective {
namespace {

using test_support::MemoryGroup;
using test_support::SimWorld;
using ::testing::HasSubstr;
using Values = std::vector<float>;

// All vectors of all pieces, of which only the own shard is used.
class TestOwner final : public UnitOwner {
 public:
  explicit TestOwner(const std::vector<UnitPiece>& pieces) {
    for (const UnitPiece& piece : pieces) sums.emplace_back(piece.values);
  }
  static float Of(UnitVector which, std::size_t piece, std::size_t i) {
    return std::sin(static_cast<float>(i + 100 * piece)) + 10.0F * static_cast<float>(which);
  }
  Status Read(UnitVector which, std::size_t piece, std::size_t first,
              std::span<float> values) override {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = Of(which, piece, first + i);
    return Status::Ok();
  }
  Status Add(std::size_t piece, std::size_t first, std::span<const float> gradients) override {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!std::isfinite(gradients[i])) return InvalidArgument("gradients are not finite");
      sums[piece][first + i] += std::llround(double{gradients[i]} * 1e9);
    }
    return Status::Ok();
  }
  std::vector<std::vector<long long>> sums;
};

const std::vector<UnitPiece> kPieces = {{300, true}, {7, false}, {64, true}};

class UnitExchangeTest : public testing::Test {
 protected:
  UnitExchangeTest()
      : control_(world_.NewExecutor("control")),
        compute_(world_.NewExecutor("compute", [](const char*) { return Duration(3000); })),
        codec_(world_.NewExecutor("codec", [](const char*) { return Duration(2000); })),
        group_(&world_, control_.get(), kMembers,
               [this] { return Duration(1000 * (1 + random_() % 50)); }) {
    config_.weight_codec = "shifted:bits=8,bucket=16";
    config_.gradient_codec = "direct:bits=8,bucket=16,levels=midtread,rounding=stochastic";
    config_.row = 16;
    config_.chunk_values = 32;
    config_.ahead_max = 4;
    config_.alike = true;
  }
  void Open() {
    for (std::size_t r = 0; r < kMembers; ++r) {
      owners_.push_back(std::make_shared<TestOwner>(kPieces));
      UnitExchange::Handlers handlers;
      handlers.on_complete = [this] { ++complete_; };
      handlers.on_room = [this] { ++rooms_; };
      handlers.on_error = [this](const Status& status) { errors_.push_back(status.message()); };
      auto made = UnitExchange::Make(config_, kPieces, group_.member(r), control_.get(),
                                     compute_.get(), codec_.get(), owners_[r], handlers);
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      exchanges_.push_back(std::move(*made));
    }
  }
  void SetStep(std::uint64_t step) {
    for (const auto& exchange : exchanges_) {
      control_->Post("step", [&, step] { exchange->SetStep(step); });
    }
  }
  void Settle() {
    world_.RunUntil([] { return false; }, std::chrono::hours(1));
  }
  Values Pull(std::size_t member, UnitVector which, std::size_t piece) {
    Values values;
    control_->Post("pull", [&, which, piece] {
      exchanges_[member]->Pull(which, piece, [&](Buffer pulled) {
        const auto floats = pulled.floats();
        values.assign(floats.begin(), floats.end());
      });
    });
    Settle();
    return values;
  }

  static constexpr std::size_t kMembers = 3;
  SimWorld world_;
  std::mt19937 random_{5};
  std::unique_ptr<Executor> control_, compute_, codec_;
  MemoryGroup group_;
  UnitExchangeConfig config_;
  std::vector<std::shared_ptr<TestOwner>> owners_;
  std::vector<std::unique_ptr<UnitExchange>> exchanges_;
  std::size_t complete_ = 0, rooms_ = 0;
  std::vector<std::string> errors_;
};

TEST_F(UnitExchangeTest, AllGetTheSameCodedBitsAndExactOnesWhereTheyAsk) {
  Open();
  SetStep(4);
  for (std::size_t piece = 0; piece < kPieces.size(); ++piece) {
    const Values first = Pull(0, UnitVector::kWeights, piece);
    ASSERT_EQ(first.size(), kPieces[piece].values);
    double error = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      error = std::max(error,
                       std::abs(double{first[i]} - TestOwner::Of(UnitVector::kWeights, piece, i)));
    }
    EXPECT_LT(error, 0.01);
    EXPECT_EQ(error == 0, !kPieces[piece].coded);
    EXPECT_EQ(Pull(2, UnitVector::kWeights, piece), first);
    EXPECT_EQ(Pull(0, UnitVector::kWeights, piece), first) << "again";
    for (const auto which : {UnitVector::kExactWeights, UnitVector::kSecondMoment}) {
      const Values exact = Pull(1, which, piece);
      ASSERT_EQ(exact.size(), kPieces[piece].values);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        EXPECT_EQ(exact[i], TestOwner::Of(which, piece, i));
      }
    }
  }
  const Values before = Pull(0, UnitVector::kWeights, 0);
  SetStep(5);
  EXPECT_NE(Pull(0, UnitVector::kWeights, 0), before) << "another step's shift";
  EXPECT_EQ(errors_, std::vector<std::string>());
}

// All points lie where no weight is but at the ends: what is pulled tells that they were used.
TEST_F(UnitExchangeTest, AStepMayHaveAnotherWeightCodec) {
  Open();
  SetStep(4);
  const Values before = Pull(0, UnitVector::kWeights, 0);
  for (const auto& exchange : exchanges_) {
    EXPECT_FALSE(exchange->SetWeightCodec("nothing").ok());
    ASSERT_TRUE(exchange->SetWeightCodec("learned:bits=1,bucket=16,levels=0000ffff").ok());
  }
  SetStep(5);
  const Values after = Pull(0, UnitVector::kWeights, 0);
  EXPECT_EQ(Pull(2, UnitVector::kWeights, 0), after);
  EXPECT_NE(after, before);
  for (std::size_t first = 0; first < after.size(); first += 16) {
    const auto bucket = std::span(after).subspan(first, std::min<std::size_t>(16, 300 - first));
    EXPECT_LE(std::set<float>(bucket.begin(), bucket.end()).size(), 2u) << first;
  }
  for (std::size_t i = 0; i < kPieces[1].values; ++i) {
    EXPECT_EQ(Pull(1, UnitVector::kWeights, 1)[i], TestOwner::Of(UnitVector::kWeights, 1, i));
  }
  EXPECT_EQ(errors_, std::vector<std::string>());
}

TEST_F(UnitExchangeTest, GradientsReachTheirOwnersBeforeTheStepEnds) {
  Open();
  // One member begins a step earlier than the others come to it.
  exchanges_[0]->SetStep(1);
  std::vector<std::shared_ptr<Buffer>> given;
  for (std::size_t r = 0; r < kMembers; ++r) {
    auto gradients = std::make_shared<Buffer>(kPieces[0].values * sizeof(float));
    for (float& value : gradients->floats()) value = static_cast<float>(random_() % 1000) * 1e-3F;
    given.push_back(gradients);
    if (r > 0) {
      Settle();
      EXPECT_EQ(complete_, 0u);
      exchanges_[r]->SetStep(1);
    }
    exchanges_[r]->Push(2, 0, 0, gradients);
    EXPECT_FALSE(exchanges_[r]->CanPush()) << "more chunks than may be ahead";
    exchanges_[r]->End();
  }
  Settle();
  EXPECT_EQ(complete_, kMembers);
  EXPECT_EQ(rooms_, kMembers);
  for (std::size_t r = 0; r < kMembers; ++r) {
    EXPECT_TRUE(exchanges_[r]->CanPush());
    const ValueRange own = exchanges_[0]->layout(0).shard(r);
    ASSERT_GT(own.size(), 0u);
    for (std::size_t i = 0; i < kPieces[0].values; ++i) {
      double want = 0;
      for (const auto& gradients : given) want += double{gradients->floats()[i]};
      const bool mine = i >= own.begin && i < own.end;
      ASSERT_NEAR(static_cast<double>(owners_[r]->sums[0][i]) * 1e-9, mine ? want : 0, 3 * 0.009);
    }
  }
  EXPECT_EQ(errors_, std::vector<std::string>());
}

// From the second step on: then all know how large their own are. Stages that share a tensor have
// gradients of other sizes.
TEST_F(UnitExchangeTest, AGradientFarAboveTheOwnOnesIsBlamedOnItsSender) {
  struct Case {
    float factor;
    std::uint64_t step;
    bool alike, named;
  };
  for (const auto& [factor, spoilt, alike, named] :
       {Case{1e3F, 2, true, false}, Case{1e6F, 1, true, false}, Case{1e6F, 2, false, false},
        Case{1e6F, 2, true, true}}) {
    config_.alike = alike;
    exchanges_.clear();
    owners_.clear();
    Open();
    for (std::uint64_t step = 1; step <= 2; ++step) {
      SetStep(step);
      Settle();
      EXPECT_EQ(errors_, std::vector<std::string>());
      for (std::size_t r = 0; r < kMembers; ++r) {
        auto gradients = std::make_shared<Buffer>(kPieces[0].values * sizeof(float));
        const float size = r == 1 && step == spoilt ? factor : 1;
        for (float& value : gradients->floats()) value = size * static_cast<float>(random_() % 9);
        exchanges_[r]->Push(0, 0, 0, gradients);
        exchanges_[r]->End();
      }
      Settle();
    }
    std::set<std::pair<std::size_t, std::size_t>> blamed;
    for (const MemoryGroup::Blame& blame : group_.blamed) blamed.emplace(blame.by, blame.of);
    using Blamed = decltype(blamed);
    EXPECT_EQ(blamed, named ? (Blamed{{0, 1}, {2, 1}}) : Blamed()) << factor;
  }
}

TEST_F(UnitExchangeTest, ForeignMessagesEndItOnce) {
  struct Case {
    std::function<void(UnitHeader*)> change;
    const char* error;
  };
  const Case cases[] = {
      {[](UnitHeader* h) { ++h->method; }, "another plan"},
      {[](UnitHeader* h) { ++h->epoch; }, "another plan"},
      {[](UnitHeader* h) { h->piece = 3; }, "piece 3 of 3"},
      {[](UnitHeader* h) { h->step = 1; }, "is over"},
      {[](UnitHeader* h) { h->kind = UnitKind::kTaken; }, "were not sent"},
      {[](UnitHeader* h) {
         h->kind = UnitKind::kValues;
         h->values = 32;
       },
       "not requested"},
      {[](UnitHeader* h) {
         h->kind = UnitKind::kGradients;
         h->values = 33;
       },
       "chunk"},
      {[](UnitHeader* h) {
         h->kind = UnitKind::kGradients;
         h->chunk = 9;
         h->values = 1;
       },
       "chunk"},
  };
  for (const Case& one : cases) {
    exchanges_.clear();
    owners_.clear();
    errors_.clear();
    Open();
    SetStep(2);
    Settle();
    // What member 1 asks member 0, otherwise.
    bool sent = false;
    group_.tap = [&](MemoryGroup::Message* message) {
      if (message->from != 1 || message->to != 0 || std::exchange(sent, true)) return true;
      UnitHeader header = *ParseUnitMessage(message->payload.bytes());
      one.change(&header);
      message->payload = Buffer(kUnitHeaderBytes + (header.has_values() ? 4 : 0));
      SealUnitMessage(header, message->payload.bytes());
      return true;
    };
    EXPECT_EQ(Pull(1, UnitVector::kWeights, 0), Values());
    group_.tap = nullptr;
    ASSERT_EQ(errors_.size(), 1u) << one.error;
    EXPECT_THAT(errors_[0], HasSubstr(one.error));
    EXPECT_THAT(errors_[0], HasSubstr("member 1"));
  }
}

TEST_F(UnitExchangeTest, WhatComesTooEarlyIsHeldWithinLimits) {
  config_.held_bytes_max = 2000;
  Open();
  exchanges_[1]->SetStep(1);  // the others have not begun
  auto gradients = std::make_shared<Buffer>(kPieces[0].values * sizeof(float));
  std::ranges::fill(gradients->floats(), 0.5F);
  for (std::uint32_t i = 0; i < 8; ++i) exchanges_[1]->Push(i, 0, 0, gradients);
  Settle();
  ASSERT_FALSE(errors_.empty());
  EXPECT_THAT(errors_[0], HasSubstr("limit of held bytes"));
}

TEST_F(UnitExchangeTest, AConfigThatCannotBeIsRefused) {
  const auto make = [&] {
    return UnitExchange::Make(config_, kPieces, group_.member(0), control_.get(), compute_.get(),
                              codec_.get(), nullptr, {})
        .status()
        .message();
  };
  config_.chunk_values = 33;
  EXPECT_THAT(make(), HasSubstr("multiple of row"));
  config_.chunk_values = 32;
  config_.weight_codec = "nothing";
  EXPECT_THAT(make(), HasSubstr("nothing"));
}

}  // namespace
}  // namespace shoal::collective
