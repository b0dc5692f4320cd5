#include "pipeline/core/generation.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/sim_executor.h"

namespace shoal::pipeline {
namespace {

class GenerationTest : public testing::Test {
 protected:
  // Runs `task` on control, and everything that follows from it.
  template <typename Task>
  void OnControl(Task task) {
    control_->Post("test", task);
    world_.RunUntil([] { return false; }, std::chrono::seconds(10));
  }

  test_support::SimWorld world_;
  std::unique_ptr<Executor> control_ = world_.NewExecutor("control");
  std::unique_ptr<Executor> other_ = world_.NewExecutor("other");
  std::vector<std::string> failures_;
  PeerId failed_peer_;
  Generation generation_{control_.get(), [this](const Status& status, const PeerId* peer) {
                           EXPECT_TRUE(generation_.ended());
                           failures_.push_back(status.message());
                           if (peer != nullptr) failed_peer_ = *peer;
                         }};
};

TEST_F(GenerationTest, OnlyTheFirstFailureIsTold) {
  PeerId peer;
  peer.key[0] = 7;
  OnControl([&] {
    generation_.Fail(Unavailable("first"), &peer);
    generation_.Fail(Internal("second"));
  });
  EXPECT_EQ(failures_, std::vector<std::string>{"first"});
  EXPECT_EQ(failed_peer_, peer);
}

TEST_F(GenerationTest, AnEndIsNoFailureAndNothingReportsBehindIt) {
  int reported = 0;
  OnControl([&] {
    generation_.scope().Run(
        other_.get(), "early", [] { return 1; }, [&](int) { ++reported; });
  });
  EXPECT_EQ(reported, 1);
  OnControl([&] {
    generation_.scope().Run(
        other_.get(), "late", [] { return 1; }, [&](int) { ++reported; });
    generation_.End();
    generation_.Fail(Internal("too late"));
  });
  EXPECT_EQ(reported, 1);
  EXPECT_TRUE(failures_.empty());
}

TEST_F(GenerationTest, ProgressIsATimeOfItsClock) {
  TimePoint then;
  OnControl([&] {
    generation_.Progress();
    then = world_.Now();
  });
  EXPECT_EQ(generation_.last_progress(), then);
}

}  // namespace
}  // namespace shoal::pipeline
