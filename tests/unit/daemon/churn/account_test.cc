#include "daemon/churn/account.h"

#include <gtest/gtest.h>

namespace shoal::daemon {
namespace {

TimePoint At(int seconds) {
  return TimePoint(std::chrono::hours(1) + std::chrono::seconds(seconds));
}

TEST(ChurnAccount, EverySecondIsSpentOnOneThing) {
  Account account;
  account.Set(0, Spent::kIdle, At(0));
  account.Set(1, Spent::kIdle, At(0));
  account.Begin(0, At(10));
  for (const std::size_t machine : {0u, 1u}) account.Set(machine, Spent::kTraining, At(10));
  account.Applied({0, 4, 16, 2}, At(20));  // took ten
  account.Set(0, Spent::kDetection, At(23));
  account.Leave(1, At(23));
  account.Unfinished(At(25));
  account.Set(0, Spent::kTransfer, At(25));
  account.Set(0, Spent::kIdle, At(30));
  const Balance balance = account.At(At(32));
  EXPECT_DOUBLE_EQ(balance.all, 22 + 13);
  EXPECT_DOUBLE_EQ(balance.Parts(), balance.all);
  EXPECT_DOUBLE_EQ(balance.useful, 16);
  EXPECT_DOUBLE_EQ(balance.first_visits, 2);
  EXPECT_DOUBLE_EQ(balance.slower, 2);
  EXPECT_DOUBLE_EQ(balance.unfinished, 6);
  EXPECT_DOUBLE_EQ(balance.detection, 2);
  EXPECT_DOUBLE_EQ(balance.transfer, 5);
  EXPECT_DOUBLE_EQ(balance.idle, 2);
  EXPECT_EQ(balance.micro_batches, 4u);
}

TEST(ChurnAccount, StepsThatAreTrainedAgainAreNotUseful) {
  Account account;
  account.Set(0, Spent::kTraining, At(0));
  for (int step = 0; step < 3; ++step) {
    account.Applied({static_cast<std::uint64_t>(step), 1, 1, 0}, At(step + 1));
  }
  account.BackTo(1);
  account.Applied({1, 1, 1, 0}, At(4));
  const Balance balance = account.At(At(4));
  EXPECT_DOUBLE_EQ(balance.useful, 2);
  EXPECT_DOUBLE_EQ(balance.repeated, 2);
  EXPECT_EQ(balance.repeated_steps, 2u);
  EXPECT_EQ(balance.steps, 2u);
  EXPECT_DOUBLE_EQ(balance.Parts(), 4);
}

TEST(ChurnAccount, TheStepInProgressAtTheEndDoesNotCount) {
  Account account;
  account.Set(0, Spent::kTraining, At(0));
  account.Applied({0, 1, 2, 0}, At(2));
  const Balance balance = account.At(At(3));
  EXPECT_DOUBLE_EQ(balance.all, 2);
  EXPECT_DOUBLE_EQ(balance.useful, 2);
  EXPECT_DOUBLE_EQ(account.Presence(At(3)), 3);
}

TEST(ChurnAccount, StepsBeforeItBeganCountAsRepeated) {
  Account account;
  account.Set(0, Spent::kTraining, At(0));
  account.Applied({0, 1, 1, 0}, At(1));
  account.Begin(1, At(1));
  account.Applied({1, 1, 1, 0}, At(2));
  account.BackTo(0);
  account.Applied({0, 1, 1, 0}, At(3));
  const Balance balance = account.At(At(3));
  EXPECT_DOUBLE_EQ(balance.all, 2);
  EXPECT_DOUBLE_EQ(balance.repeated, 2);
  EXPECT_DOUBLE_EQ(balance.useful, 0);
}

}  // namespace
}  // namespace shoal::daemon
