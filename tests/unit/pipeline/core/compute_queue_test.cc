#include "pipeline/core/compute_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/sim_executor.h"

namespace shoal::pipeline {
namespace {

using namespace std::chrono_literals;
using test_support::SimWorld;

// A part takes 10 ms on compute; control takes 3 ms for each thing that it hears.
class ComputeLaneTest : public testing::Test {
 protected:
  std::shared_ptr<Operation> Make(const std::string& name, int parts = 1, bool fails = false) {
    auto operation = std::make_shared<Operation>();
    operation->name = "part";
    operation->run = [this, name, left = parts, fails]() mutable {
      Note(name);
      if (fails) return PartEnd::kFailed;
      return --left > 0 ? PartEnd::kMore : PartEnd::kOver;
    };
    operation->ended = [this, name](bool followed) {
      Note(name + (followed ? " followed" : " ended"));
      if (const auto once = std::exchange(then, nullptr)) once(followed);
    };
    return operation;
  }
  void Note(const std::string& what) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(world.Now() - start);
    seen.push_back(std::to_string(ms.count()) + " " + what);
  }
  void At(Duration when, std::function<void()> event) { world.At(start + when, std::move(event)); }
  void RunAll() {
    while (world.Step()) {
    }
  }
  using Seen = std::vector<std::string>;

  SimWorld world;
  const TimePoint start = world.Now();
  std::unique_ptr<Executor> control = world.NewExecutor("control", [](const char*) { return 3ms; });
  std::unique_ptr<Executor> compute =
      world.NewExecutor("compute", [](const char*) { return 10ms; });
  std::optional<TaskScope> scope{control.get()};
  ComputeQueue queue{control.get(), compute.get(), *scope};
  Seen seen;
  std::function<void(bool)> then;
};

TEST_F(ComputeLaneTest, WhatIsOfferedBeginsWithoutControl) {
  queue.Start(Make("a"));
  EXPECT_TRUE(queue.Offer(Make("b"), false));
  RunAll();
  EXPECT_EQ(seen, (Seen{"10 a", "13 a followed", "20 b", "23 b ended"}));
}

TEST_F(ComputeLaneTest, WithoutAnOfferControlStartsTheNext) {
  queue.Start(Make("a"));
  then = [this](bool followed) {
    EXPECT_FALSE(followed);
    queue.Start(Make("b"));
  };
  RunAll();
  EXPECT_EQ(seen, (Seen{"10 a", "13 a ended", "23 b", "26 b ended"}));
}

TEST_F(ComputeLaneTest, AnOfferGivesWayToAnother) {
  queue.Start(Make("a"));
  const auto b = Make("b");
  EXPECT_TRUE(queue.Offer(b, false));
  At(5ms, [this] { EXPECT_TRUE(queue.Offer(Make("c"), false)); });
  // Put back, it comes after what took its place.
  At(14ms, [this, b] { EXPECT_TRUE(queue.Offer(b, false)); });
  RunAll();
  EXPECT_EQ(seen, (Seen{"10 a", "13 a followed", "20 c", "23 c followed", "30 b", "33 b ended"}));
}

TEST_F(ComputeLaneTest, AnOfferIsTakenBack) {
  queue.Start(Make("a"));
  EXPECT_TRUE(queue.Offer(Make("b"), false));
  At(5ms, [this] { EXPECT_TRUE(queue.Offer(nullptr, false)); });
  RunAll();
  EXPECT_EQ(seen, (Seen{"10 a", "13 a ended"}));
}

TEST_F(ComputeLaneTest, WhatHasBegunIsNotChangedAnyMore) {
  queue.Start(Make("a"));
  EXPECT_TRUE(queue.Offer(Make("b"), false));
  // Before control has heard that b runs.
  At(11ms, [this] {
    EXPECT_FALSE(queue.Offer(Make("c"), true));
    EXPECT_FALSE(queue.Offer(nullptr, false));
  });
  At(15ms, [this] { EXPECT_TRUE(queue.Offer(Make("d"), false)); });
  RunAll();
  EXPECT_EQ(seen, (Seen{"10 a", "13 a followed", "20 b", "23 b followed", "30 d", "33 d ended"}));
}

TEST_F(ComputeLaneTest, AnOfferBetweenTheEndAndItsNewsBeginsOnce) {
  queue.Start(Make("a"));
  At(11ms, [this] { EXPECT_TRUE(queue.Offer(Make("b"), false)); });
  RunAll();
  EXPECT_EQ(seen, (Seen{"10 a", "13 a followed", "23 b", "26 b ended"}));
}

TEST_F(ComputeLaneTest, UrgentGoesBetweenParts) {
  const auto w = Make("w", 3);
  queue.Start(w);
  At(12ms, [this] { EXPECT_TRUE(queue.Offer(Make("b"), true)); });
  // The rest of w afterwards, offered while b runs.
  then = [this, w](bool followed) {
    EXPECT_TRUE(followed);
    EXPECT_TRUE(queue.Offer(w, false));
  };
  RunAll();
  EXPECT_EQ(seen,
            (Seen{"10 w", "20 w", "23 w followed", "30 b", "33 b followed", "40 w", "43 w ended"}));
}

TEST_F(ComputeLaneTest, WhatIsNotUrgentWaitsForTheLastPart) {
  queue.Start(Make("w", 3));
  EXPECT_TRUE(queue.Offer(Make("f"), false));
  RunAll();
  EXPECT_EQ(seen, (Seen{"10 w", "20 w", "30 w", "33 w followed", "40 f", "43 f ended"}));
}

TEST_F(ComputeLaneTest, NothingFollowsAFailure) {
  queue.Start(Make("a", 1, true));
  EXPECT_TRUE(queue.Offer(Make("b"), true));
  RunAll();
  EXPECT_EQ(seen, (Seen{"10 a", "13 a ended"}));
}

TEST_F(ComputeLaneTest, TheScopesEndIsTheLanesEnd) {
  queue.Start(Make("w", 5));
  EXPECT_TRUE(queue.Offer(Make("b"), false));
  At(25ms, [this] { scope.reset(); });
  RunAll();
  EXPECT_EQ(seen, (Seen{"10 w", "20 w"}));
}

}  // namespace
}  // namespace shoal::pipeline
