#include "common/task_scope.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "tests/support/on_executor.h"

namespace shoal {
namespace {

class TaskScopeTest : public testing::Test {
 protected:
  // Cancels the scope while `work` waits behind another task, and lets all of it run.
  template <typename Start>
  void CancelBeforeItBegins(Start start) {
    std::atomic<bool> go = false;
    worker_->Post("test.hold", [&go] {
      while (!go) {
      }
    });
    test_support::RunOn(control_.get(), [&] {
      TaskScope scope(control_.get());
      start(&scope);
      scope.Cancel();
      return 0;
    });
    go = true;
    test_support::RunOn(worker_.get(), [] { return 0; });
    test_support::RunOn(control_.get(), [] { return 0; });
  }

  std::unique_ptr<Executor> control_ = NewThreadExecutor("control");
  std::unique_ptr<Executor> worker_ = NewThreadExecutor("worker");
  std::atomic<int> worked_ = 0, done_ = 0;
};

TEST_F(TaskScopeTest, WorkThatHasNotBegunEndsWithTheScope) {
  CancelBeforeItBegins([this](TaskScope* scope) {
    scope->Run(
        worker_.get(), "test.work", [this] { return ++worked_; }, [this](int) { ++done_; });
  });
  EXPECT_EQ(worked_, 0);
  EXPECT_EQ(done_, 0);
}

TEST_F(TaskScopeTest, WorkToTheEndOutlivesTheScopeButReportsToNobody) {
  CancelBeforeItBegins([this](TaskScope* scope) {
    scope->RunToEnd(
        worker_.get(), "test.work", [this] { return ++worked_; }, [this](int) { ++done_; });
  });
  EXPECT_EQ(worked_, 1);
  EXPECT_EQ(done_, 0);
}

TEST_F(TaskScopeTest, ResultsComeBackWhileItLives) {
  std::unique_ptr<TaskScope> scope = test_support::RunOn(control_.get(), [this] {
    auto made = std::make_unique<TaskScope>(control_.get());
    made->Run(
        worker_.get(), "test.one", [] { return std::string("a"); },
        [this](const std::string& text) { done_ += static_cast<int>(text.size()); });
    made->RunToEnd(
        worker_.get(), "test.two", [] { return 2; }, [this](int two) { done_ += two; });
    return made;
  });
  test_support::RunOn(worker_.get(), [] { return 0; });
  test_support::RunOn(control_.get(), [&scope] {
    scope.reset();
    return 0;
  });
  EXPECT_EQ(done_, 3);
}

}  // namespace
}  // namespace shoal
