// Steps with sharded optimizer state whose gradients leave, bucket by bucket, before their end.

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/replica/qsdp_members.h"

namespace shoal::replica {
namespace {

constexpr std::size_t kParts = 4;

Members Bucketed(std::size_t count, const std::string& method) {
  return Members(count, Method(method), {}, true);
}

std::size_t CountMessages(Members* members, const std::function<void()>& during) {
  std::size_t messages = 0;
  members->group_->tap = [&](MemoryGroup::Message*) { return ++messages > 0; };
  during();
  members->group_->tap = nullptr;
  return messages;
}

class Methods : public testing::TestWithParam<const char*> {};

TEST_P(Methods, GradientsAreWithTheirOwnersBeforeReduce) {
  Members members = Bucketed(3, GetParam());
  for (std::uint64_t step = 0; step < 3; ++step) {
    std::size_t before = 0;
    for (std::size_t parts = 1; parts <= kParts; ++parts) {
      const std::size_t early = CountMessages(&members, [&] {
        for (std::size_t r = 0; r < 3; ++r) members.Backward(r, step, parts);
      });
      EXPECT_GT(early, 0u) << "a bucket leaves behind part " << parts;
      before += early;
    }
    const std::size_t reduce = CountMessages(&members, [&] {
      members.BeginReduce(step, false);
      members.Settle();
    });
    ASSERT_TRUE(members.Reduced());
    EXPECT_EQ(reduce, 3u * 2) << "norms alone";
    EXPECT_GT(before, reduce);
    const std::size_t apply = CountMessages(&members, [&] {
      members.BeginApply(step);
      members.Settle();
    });
    ASSERT_TRUE(members.Applied());
    EXPECT_GT(apply, 0u);
  }
}

// Members may be anywhere in their backward when others are through, and Reduce brings the rest.
TEST_P(Methods, WeightsDoNotDependOnWhatWasEarly) {
  Members early = Bucketed(3, GetParam()), late = Bucketed(3, GetParam());
  for (std::uint64_t step = 0; step < 5; ++step) {
    for (std::size_t r = 0; r < 3; ++r) early.Backward(r, step, (step + 2 * r) % (kParts + 1));
    early.Step(step, step == 3);
    late.Step(step, step == 3);
    EXPECT_EQ(**early.norms_[0], **late.norms_[0]);
    ASSERT_EQ(early.Get(StateVector::kWeights), late.Get(StateVector::kWeights)) << step;
  }
  for (const StateVector which : {StateVector::kFirstMoment, StateVector::kSecondMoment}) {
    EXPECT_EQ(early.Get(which), late.Get(which));
  }
}

// Whatever had begun in the belief that all count: the step is that of a group that never believed
// it, errors that are fed back included.
TEST_P(Methods, AWrongGuessLeavesNoTrace) {
  Members guessed = Bucketed(3, GetParam()), told = Bucketed(3, GetParam());
  for (std::uint64_t step = 0; step < 6; ++step) {
    for (Members* members : {&guessed, &told}) {
      members->left_out_.clear();
      if (step % 2 == 1) members->left_out_.insert(step % 3);
    }
    for (std::size_t r = 0; r < 3; ++r) {
      if (step == 1) guessed.Backward(r, step, kParts);
      if (step == 3) guessed.Backward(r, step, r + 1);
      if (step == 5) {  // in the midst of it
        guessed.WriteGradients(step);
        guessed.control_->Post("final",
                               [&, r, step] { guessed.steps_[r]->OnFinalGradients(step, kParts); });
      }
    }
    if (step == 5) guessed.world_.RunUntil([] { return false; }, std::chrono::microseconds(90));
    guessed.Step(step, step == 4);
    told.Step(step, step == 4);
    EXPECT_EQ(**guessed.norms_[0], **told.norms_[0]);
    ASSERT_EQ(guessed.Get(StateVector::kWeights), told.Get(StateVector::kWeights)) << step;
  }
}

// Weights and moments of a member.
std::array<Values, 3> StateOf(Members* members, std::size_t r) {
  return {members->Get(StateVector::kWeights, r), members->Get(StateVector::kFirstMoment, r),
          members->Get(StateVector::kSecondMoment, r)};
}
void SetState(Members* members, const std::array<Values, 3>& state) {
  constexpr std::array kWhich = {StateVector::kWeights, StateVector::kFirstMoment,
                                 StateVector::kSecondMoment};
  for (const auto& model : members->models_) {
    for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(model->Write(kWhich[i], 0, state[i]).ok());
  }
}

// A step of all members, as far as messages get: bucket by bucket, Reduce, Apply, saved.
void TryStep(Members* members, std::uint64_t step) {
  for (std::size_t r = 0; r < members->models_.size(); ++r) members->Backward(r, step, kParts);
  members->BeginReduce(step, true);
  members->Settle();
  if (!members->Reduced()) return;
  members->BeginApply(step);
  members->Settle();
}

// What Reduce has not ended has changed nothing; behind it a new generation begins with the
// checkpoint, as it always does. Either way, those who are left make the step as if there had been
// no other try.
TEST_P(Methods, AnAbortAtAnyMessageThenARetryWithoutAMemberIsExact) {
  Members start = Bucketed(2, GetParam());
  start.Step(0, true);
  const auto saved = StateOf(&start, 0);
  start.Open();  // error memories and levels begin anew, as behind any abort
  start.Step(1, true);
  const auto expected = StateOf(&start, 0);
  Members whole = Bucketed(3, GetParam());
  SetState(&whole, saved);
  whole.Open();
  const std::size_t messages = CountMessages(&whole, [&] { TryStep(&whole, 1); });
  ASSERT_TRUE(whole.Applied());
  std::size_t reduced = 0;
  for (std::size_t last = 0; last < messages; ++last) {
    SCOPED_TRACE("message " + std::to_string(last));
    Members members = Bucketed(3, GetParam());
    SetState(&members, saved);
    members.Open();
    std::size_t sent = 0;
    members.group_->tap = [&](MemoryGroup::Message*) { return ++sent <= last; };
    TryStep(&members, 1);
    ASSERT_GT(sent, last);
    ASSERT_FALSE(members.Reduced() && members.Applied());
    members.group_->tap = nullptr;
    if (members.Reduced()) {
      ++reduced;
      SetState(&members, saved);
    }
    members.Open(2);
    ASSERT_EQ(StateOf(&members, 1), saved);
    members.Step(1, true);
    ASSERT_EQ(StateOf(&members, 0), expected);
    ASSERT_EQ(StateOf(&members, 1), expected);
  }
  EXPECT_GT(reduced, 10u);
  EXPECT_GT(messages - reduced, 20u);
}

INSTANTIATE_TEST_SUITE_P(All, Methods,
                         testing::Values("weights=8,gradients=8", "delta=true,gradients=4",
                                         "weights=32,gradients=2",
                                         "weights=3,gradients=3,levels=learned,learn=2",
                                         "weights=8,gradients=8,lan=0-1"));

TEST(QsdpOverlapTest, BucketsMakeTheStepOfAdamWOfTheWholeGradient) {
  Members members = Bucketed(3, "weights=32,gradients=32");
  Reference reference(members.models_[0].get());
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (std::size_t r = 0; r < 3; ++r) members.Backward(r, step, step);
    members.Step(step);
    reference.Step(members.Counted(), step, members.Clip());
    EXPECT_NEAR(**members.norms_[0], reference.squared_norm, 1e-5 * reference.squared_norm);
    const Values weights = members.Get(StateVector::kWeights);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      ASSERT_NEAR(weights[i], reference.w[i], 2e-6 * (1 + std::abs(reference.w[i]))) << i;
    }
  }
}

// Equal gradients in two buckets are not rounded alike.
TEST(QsdpOverlapTest, BucketsDrawNumbersOfTheirOwn) {
  Members members = Bucketed(2, "weights=32,gradients=2");
  constexpr std::size_t kSecond = kFirst + kBias + kSmall, kCount = 1024;
  members.norms_.assign(2, std::nullopt);
  for (std::size_t r = 0; r < 2; ++r) {
    Values gradient = GradientOf(r, 0, members.models_[r]->state_size());
    std::copy_n(gradient.begin() + 64, kCount, gradient.begin() + kSecond);
    std::copy_n(gradient.begin() + 64, kCount, gradient.begin());
    ASSERT_TRUE(members.models_[r]->Write(StateVector::kGradients, 0, gradient).ok());
    members.control_->Post("reduce", [&, r] {
      members.steps_[r]->Reduce(members.OrderOf(0, true), [&, r](Result<double> norm) {
        members.norms_[r] = std::move(norm);
      });
    });
  }
  members.Settle();
  ASSERT_TRUE(members.Reduced());
  members.BeginApply(0);
  members.Settle();
  const Values m = members.Get(StateVector::kFirstMoment);
  std::size_t different = 0;
  for (std::size_t i = 0; i < kCount; ++i) different += m[i] != m[kSecond + i] ? 1 : 0;
  EXPECT_GT(different, kCount / 4);
}

TEST(QsdpOverlapTest, AnErrorBeforeReduceIsItsAnswer) {
  Members members = Bucketed(2, "weights=8,gradients=8");
  const Values weights = members.Get(StateVector::kWeights);
  members.group_->tap = test_support::MemoryGroup::Garble;
  for (std::size_t r = 0; r < 2; ++r) {
    members.control_->Post("final", [&, r] { members.steps_[r]->OnFinalGradients(0, 1); });
  }
  members.Settle();
  members.BeginReduce(0, false);
  members.Settle();
  ASSERT_TRUE(members.Reduced());
  for (const auto& norm : members.norms_) {
    ASSERT_FALSE(norm->ok());
    EXPECT_NE(norm->status().message().find("stage group"), std::string::npos)
        << norm->status().ToString();
  }
  EXPECT_EQ(members.Get(StateVector::kWeights), weights);
}

}  // namespace
}  // namespace shoal::replica
