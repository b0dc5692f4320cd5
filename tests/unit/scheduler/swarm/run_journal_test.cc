#include "scheduler/swarm/run_journal.h"

#include <gtest/gtest.h>

#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {
namespace {

std::vector<std::string> Persisted(Reaction* reaction) {
  std::vector<std::string> events;
  for (const Action& action : reaction->Take()) events.push_back(std::get<Persist>(action).event);
  return events;
}

TEST(RunJournal, RecordsTheChangeAndStoresTheEvent) {
  Reaction reaction;
  RunJournal journal(7, &reaction);
  journal.Record(RunBegan{RunId{1}, 7});
  journal.Record(RunStarted{});
  EXPECT_TRUE(journal.history().started());
  journal.Store(RunHeld{"paused"});
  EXPECT_FALSE(journal.history().held()) << "the change comes later";
  const std::vector<std::string> events = Persisted(&reaction);
  ASSERT_EQ(events.size(), 3u);

  RunJournal again(7, &reaction);
  for (const std::string& event : events) EXPECT_TRUE(again.Restore(event).ok());
  EXPECT_TRUE(again.history().started());
  EXPECT_TRUE(again.history().held());
  EXPECT_TRUE(reaction.Take().empty()) << "a replay stores nothing";
  EXPECT_FALSE(again.Restore("nonsense").ok());
  EXPECT_FALSE(RunJournal(8, &reaction).Restore(events.front()).ok()) << "of another configuration";
}

TEST(RunJournal, StoresLossesSeveralAtOnce) {
  Reaction reaction;
  RunJournal journal(7, &reaction);
  journal.Record(RunBegan{RunId{1}, 7});
  journal.AddLoss(1);  // stored at once, as the first
  Persisted(&reaction);
  for (std::size_t i = 1; i < kLossesPerEvent; ++i) journal.AddLoss(1);
  EXPECT_TRUE(reaction.Take().empty());
  journal.AddLoss(1);
  EXPECT_EQ(Persisted(&reaction).size(), 1u);
  EXPECT_EQ(journal.history().step(), kLossesPerEvent + 1);
  journal.StoreLosses();
  EXPECT_TRUE(reaction.Take().empty()) << "none is new";
  journal.AddLoss(1);
  journal.StoreLosses();
  EXPECT_EQ(Persisted(&reaction).size(), 1u);
}

TEST(RunJournal, StoresTheFirstLossOfAGenerationAtOnceAndOthersAfterAWhile) {
  Reaction reaction;
  const TimePoint start(std::chrono::hours(1));
  const auto stored = [&](RunJournal* journal, Duration at) {
    reaction.Begin(start + at);
    journal->AddLoss(1);
    return Persisted(&reaction).size();
  };
  RunJournal journal(7, &reaction);
  reaction.Begin(start);
  journal.Record(RunBegan{RunId{1}, 7});
  journal.Record(PlanMade{1, 0});
  EXPECT_FALSE(journal.idle());
  EXPECT_EQ(stored(&journal, std::chrono::seconds(1)), 1u);
  EXPECT_EQ(stored(&journal, std::chrono::seconds(2)), 0u);
  EXPECT_EQ(stored(&journal, std::chrono::seconds(1) + kLossesEvery), 1u);
  EXPECT_EQ(stored(&journal, std::chrono::seconds(2) + kLossesEvery), 0u);
  reaction.Begin(start + std::chrono::seconds(5) + kLossesEvery);
  EXPECT_EQ(journal.idle(), std::chrono::seconds(3));
  journal.StoreLosses();
  journal.Record(PlanMade{2, 4});
  EXPECT_FALSE(journal.idle()) << "the new generation made no step";
  EXPECT_EQ(stored(&journal, std::chrono::seconds(6) + kLossesEvery), 1u);
  EXPECT_EQ(stored(&journal, std::chrono::seconds(7) + kLossesEvery), 0u);
}

TEST(RunJournal, ASkippedStepIsStoredBehindTheLossesBeforeIt) {
  Reaction reaction;
  RunJournal journal(7, &reaction);
  journal.Record(RunBegan{RunId{1}, 7});
  journal.AddLoss(3);
  journal.AddSkipped(2, "why");
  journal.AddSkipped(1, "why else");
  journal.StoreLosses();
  RunJournal again(7, &reaction);
  for (const std::string& event : Persisted(&reaction)) EXPECT_TRUE(again.Restore(event).ok());
  for (const RunHistory& history : {journal.history(), again.history()}) {
    EXPECT_EQ(history.losses(), (std::vector<double>{3, 2, 1}));
    EXPECT_EQ(history.skipped(), (std::vector<std::uint64_t>{1, 2}));
    EXPECT_EQ(history.skipped_in_a_row(), 2u);
    EXPECT_EQ(history.last_skipped(), "why else");
  }
}

}  // namespace
}  // namespace shoal::scheduler
