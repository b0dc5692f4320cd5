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
  Persisted(&reaction);
  for (std::size_t i = 1; i < kLossesPerEvent; ++i) journal.AddLoss(1);
  EXPECT_TRUE(reaction.Take().empty());
  journal.AddLoss(1);
  EXPECT_EQ(Persisted(&reaction).size(), 1u);
  EXPECT_EQ(journal.history().step(), kLossesPerEvent);
  journal.StoreLosses();
  EXPECT_TRUE(reaction.Take().empty()) << "none is new";
  journal.AddLoss(1);
  journal.StoreLosses();
  EXPECT_EQ(Persisted(&reaction).size(), 1u);
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
