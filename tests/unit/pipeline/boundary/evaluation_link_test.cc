#include "pipeline/boundary/evaluation_link.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/sim_executor.h"

namespace shoal::pipeline {
namespace {

constexpr compression::SampleShape kShape{2, 3};
constexpr std::uint32_t kRows = 2;
constexpr std::uint64_t kStep = 7;

StepPlan PlanOf(std::uint32_t evaluated) {
  StepPlan plan;
  plan.step = kStep;
  plan.evaluation.resize(evaluated);
  return plan;
}

Buffer Message(std::byte value) {
  Buffer message(16 + 2 * kRows * kShape.values());
  for (std::byte& byte : message.bytes()) byte = value;
  return message;
}

// Both ends of a boundary; what they send waits in `up` and `down`.
struct Ends {
  test_support::SimWorld world;
  std::unique_ptr<Executor> control = world.NewExecutor("control");
  Generation generation{control.get(), [](const Status&, const PeerId*) {}};
  net::GenerationLinks links{nullptr, RunId{1}, 1};
  std::vector<net::Frame> up, down;
  EvaluationLink lower{{true, kShape, kRows}, &generation, &links, [this](net::Frame frame) {
                         up.push_back(std::move(frame));
                         return Status::Ok();
                       }};
  EvaluationLink upper{{false, kShape, kRows}, &generation, &links, [this](net::Frame frame) {
                         down.push_back(std::move(frame));
                         return Status::Ok();
                       }};

  // On the control thread, as all calls.
  void On(std::function<void()> work) {
    bool done = false;
    control->Post("test", [&] {
      work();
      done = true;
    });
    ASSERT_TRUE(world.RunUntil([&] { return done; }, std::chrono::seconds(1)));
  }
  void Start(std::uint32_t evaluated) {
    ASSERT_TRUE(lower.StartStep(PlanOf(evaluated)).ok());
    ASSERT_TRUE(upper.StartStep(PlanOf(evaluated)).ok());
  }
};

TEST(EvaluationLinkTest, TakesInOrderWhateverOvertakesWhat) {
  Ends ends;
  ends.On([&] {
    ends.Start(3);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(ends.lower.HasRoom());
      ASSERT_TRUE(ends.lower.Put(Message(static_cast<std::byte>(i))).ok());
    }
    for (const std::size_t i : {2u, 0u, 1u}) {
      EXPECT_FALSE(ends.upper.HasNext() && i == 0);
      ASSERT_TRUE(ends.upper.OnFrame(std::move(ends.up[i])).ok());
    }
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(ends.upper.HasNext());
      const Result<EvaluationMessage> taken = ends.upper.Take();
      ASSERT_TRUE(taken.ok() && taken->has_value());
      EXPECT_EQ((*taken)->data()[0], static_cast<std::byte>(i));
    }
    EXPECT_FALSE(ends.upper.HasNext());
    EXPECT_EQ(ends.down.size(), 3u);
  });
}

TEST(EvaluationLinkTest, SendsNoMoreThanMayWait) {
  Ends ends;
  ends.On([&] {
    ends.Start(10);
    for (std::uint32_t i = 0; i < kEvaluationAhead; ++i) {
      ASSERT_TRUE(ends.lower.HasRoom());
      ASSERT_TRUE(ends.lower.Put(Message(std::byte{1})).ok());
    }
    EXPECT_FALSE(ends.lower.HasRoom());
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(ends.upper.OnFrame(std::move(ends.up[static_cast<std::size_t>(i)])).ok());
      ASSERT_TRUE(ends.upper.Take().ok());
    }
    // The second acknowledgement says what the first one does, which comes later.
    ASSERT_TRUE(ends.lower.OnFrame(std::move(ends.down[1])).ok());
    EXPECT_TRUE(ends.lower.HasRoom());
    ASSERT_TRUE(ends.lower.OnFrame(std::move(ends.down[0])).ok());
    ASSERT_TRUE(ends.lower.Put(Message(std::byte{1})).ok());
    ASSERT_TRUE(ends.lower.HasRoom());
    ASSERT_TRUE(ends.lower.Put(Message(std::byte{1})).ok());
    EXPECT_FALSE(ends.lower.HasRoom());
  });
}

TEST(EvaluationLinkTest, WhatIsNotFiniteTravelsWithoutValues) {
  Ends ends;
  ends.On([&] {
    ends.Start(1);
    ASSERT_TRUE(ends.lower.Put(std::nullopt).ok());
    EXPECT_TRUE(ends.up[0].payload.empty());
    ASSERT_TRUE(ends.upper.OnFrame(std::move(ends.up[0])).ok());
    const Result<EvaluationMessage> taken = ends.upper.Take();
    ASSERT_TRUE(taken.ok());
    EXPECT_FALSE(taken->has_value());
  });
}

TEST(EvaluationLinkTest, AHostileEndIsAnErrorAndChangesNothing) {
  using Edit = std::function<void(net::Frame*)>;
  const std::vector<std::pair<std::string, Edit>> wrong = {
      {"index", [](net::Frame* f) { f->micro_batch.index = 3; }},
      {"far index", [](net::Frame* f) { f->micro_batch.index = UINT32_MAX; }},
      {"tag", [](net::Frame* f) { f->tag = 2; }},
      {"empty", [](net::Frame* f) { f->payload = Buffer(); }},
      {"not finite with values", [](net::Frame* f) { f->tag = 1; }},
      {"too long", [](net::Frame* f) { f->payload = Buffer(1000); }},
      {"codec", [](net::Frame* f) { f->codec = "raw:dtype=fp32"; }},
      {"tokens", [](net::Frame* f) { f->tokens = 9; }},
      {"hidden", [](net::Frame* f) { f->hidden = 9; }},
      {"samples", [](net::Frame* f) { f->samples.resize(1); }},
  };
  for (const auto& [name, edit] : wrong) {
    SCOPED_TRACE(name);
    Ends ends;
    ends.On([&, change = edit] {
      ends.Start(3);
      ASSERT_TRUE(ends.lower.Put(Message(std::byte{1})).ok());
      net::Frame frame = net::CopyOf(ends.up[0]);
      change(&frame);
      EXPECT_FALSE(ends.upper.OnFrame(std::move(frame)).ok());
      EXPECT_FALSE(ends.upper.HasNext());
      ASSERT_TRUE(ends.upper.OnFrame(net::CopyOf(ends.up[0])).ok());
      EXPECT_FALSE(ends.upper.OnFrame(net::CopyOf(ends.up[0])).ok()) << "twice";
      ASSERT_TRUE(ends.upper.Take().ok());
      EXPECT_FALSE(ends.upper.OnFrame(net::CopyOf(ends.up[0])).ok()) << "after it was taken";
      net::Frame early = net::CopyOf(ends.down[0]);
      early.micro_batch.index = 1;
      EXPECT_FALSE(ends.lower.OnFrame(std::move(early)).ok()) << "was not sent";
      net::Frame other = net::CopyOf(ends.down[0]);
      other.tag = 0;
      EXPECT_FALSE(ends.lower.OnFrame(std::move(other)).ok());
    });
  }
}

TEST(EvaluationLinkTest, ASenderThatDoesNotWaitIsRefused) {
  Ends ends;
  ends.On([&] {
    ends.Start(10);
    ASSERT_TRUE(ends.lower.Put(Message(std::byte{1})).ok());
    for (std::uint32_t i = 0; i < kEvaluationAhead; ++i) {
      net::Frame frame = net::CopyOf(ends.up[0]);
      frame.micro_batch.index = i;
      ASSERT_TRUE(ends.upper.OnFrame(std::move(frame)).ok());
    }
    net::Frame more = net::CopyOf(ends.up[0]);
    more.micro_batch.index = kEvaluationAhead;
    EXPECT_EQ(ends.upper.OnFrame(std::move(more)).code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(ends.upper.StartStep(PlanOf(1)).code(), StatusCode::kFailedPrecondition);
  });
}

}  // namespace
}  // namespace shoal::pipeline
