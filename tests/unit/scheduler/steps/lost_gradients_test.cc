#include "scheduler/steps/lost_gradients.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace shoal::scheduler {
namespace {

PeerId Peer(int number) {
  PeerId peer;
  peer.key[0] = static_cast<std::uint8_t>(number);
  return peer;
}

// Steps that counted.
LostGradients After(std::initializer_list<std::initializer_list<int>> steps) {
  LostGradients lost;
  for (const auto& step : steps) {
    lost.Begin();
    for (const int peer : step) lost.Add(Peer(peer), std::to_string(peer));
    lost.End();
  }
  lost.Begin();
  return lost;
}

TEST(LostGradients, OneMemberAloneAtEveryStepIsNamed) {
  LostGradients lost = After({{1}, {1}});
  EXPECT_FALSE(lost.any());
  EXPECT_FALSE(lost.Alone(0)) << "nothing is lost at this step";
  lost.Add(Peer(1), "first");
  lost.Add(Peer(1), "again");
  EXPECT_TRUE(lost.any());
  EXPECT_EQ(lost.first(), "first");
  EXPECT_EQ(lost.Alone(2), Peer(1));
  EXPECT_FALSE(lost.Alone(3));
}

TEST(LostGradients, AStepThatWasNotAppliedIsTriedAgain) {
  LostGradients lost = After({{1}, {1}});
  for (int attempt = 0; attempt < 3; ++attempt) {
    lost.Begin();
    lost.Add(Peer(1), "");
    EXPECT_EQ(lost.Alone(2), Peer(1));
  }
}

TEST(LostGradients, NobodyIsNamedWhereAnotherHasLostOneToo) {
  for (const auto& steps : {std::initializer_list<std::initializer_list<int>>{{1}, {1, 2}},
                            {{1, 2}, {1}},
                            {{1}, {2}},
                            {{2}, {1}},
                            {{1}, {}},
                            {{1}}}) {
    LostGradients lost = After(steps);
    lost.Add(Peer(1), "");
    EXPECT_FALSE(lost.Alone(2));
  }
  LostGradients lost = After({{1}, {1}});
  lost.Add(Peer(1), "");
  lost.Add(Peer(2), "");
  EXPECT_FALSE(lost.Alone(2));
}

}  // namespace
}  // namespace shoal::scheduler
