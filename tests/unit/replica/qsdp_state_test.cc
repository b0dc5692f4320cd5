#include "replica/qsdp_state.h"

#include <gtest/gtest.h>

#include <vector>

namespace shoal::replica {
namespace {

using S = QsdpState;
using E = QsdpEvent;

constexpr S kStates[] = {S::kAccumulating, S::kReducing, S::kReduced,
                         S::kApplying,     S::kSaving,   S::kFailed};
constexpr E kEvents[] = {E::kReduce,        E::kNorms,   E::kApply, E::kAdopted,
                         E::kAdoptedToSave, E::kMoments, E::kFail};

S Walk(const std::vector<E>& events) {
  S state = S::kAccumulating;
  for (const E event : events) {
    const auto next = NextState(state, event);
    EXPECT_TRUE(next.has_value()) << "event " << static_cast<int>(event);
    if (!next) return state;
    state = *next;
  }
  return state;
}

TEST(QsdpStateTest, AStepWithAndWithoutCheckpointEndsWhereItBegan) {
  EXPECT_EQ(Walk({E::kReduce, E::kNorms, E::kApply, E::kAdopted}), S::kAccumulating);
  EXPECT_EQ(Walk({E::kReduce, E::kNorms, E::kApply, E::kAdoptedToSave}), S::kSaving);
  EXPECT_EQ(Walk({E::kReduce, E::kNorms, E::kApply, E::kAdoptedToSave, E::kMoments}),
            S::kAccumulating);
}

TEST(QsdpStateTest, NothingIsAppliedThatWasNotReduced) {
  EXPECT_FALSE(NextState(S::kAccumulating, E::kApply));
  EXPECT_FALSE(NextState(S::kReducing, E::kApply));
  EXPECT_FALSE(NextState(S::kReducing, E::kReduce));
}

TEST(QsdpStateTest, AFailedStepStaysFailed) {
  for (const S state : kStates) EXPECT_EQ(NextState(state, E::kFail), S::kFailed);
  for (const E event : kEvents) EXPECT_EQ(NextState(S::kFailed, event), S::kFailed);
}

TEST(QsdpStateTest, EachStateHasItsWaysOn) {
  int ways = 0;
  for (const S state : kStates) {
    for (const E event : kEvents) {
      if (event != E::kFail && state != S::kFailed) ways += NextState(state, event).has_value();
    }
  }
  EXPECT_EQ(ways, 6);
}

}  // namespace
}  // namespace shoal::replica
