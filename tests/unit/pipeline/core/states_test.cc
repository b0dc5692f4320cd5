// The transition functions: every allowed way, and nothing else.

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <utility>

#include "pipeline/boundary/activation_link.h"
#include "pipeline/boundary/boundary.h"
#include "pipeline/core/lifecycle.h"

namespace shoal::pipeline {
namespace {

// Number of (state, event) pairs that lead somewhere.
template <typename State, typename Event>
int Edges(State last_state, Event last_event) {
  int edges = 0;
  for (int s = 0; s <= static_cast<int>(last_state); ++s) {
    for (int e = 0; e <= static_cast<int>(last_event); ++e) {
      edges += NextState(static_cast<State>(s), static_cast<Event>(e)).has_value() ? 1 : 0;
    }
  }
  return edges;
}

template <typename State, typename Event>
State Walk(State state, std::initializer_list<Event> events) {
  for (const Event event : events) {
    const auto next = NextState(state, event);
    EXPECT_TRUE(next.has_value()) << "event " << static_cast<int>(event) << " in state "
                                  << static_cast<int>(state);
    if (!next) return state;
    state = *next;
  }
  return state;
}

TEST(SendStatesTest, StoreFirstLayersFirstAndResend) {
  using E = SendEvent;
  EXPECT_EQ(Walk(SendState::kIdle, {E::kFetch, E::kFetched, E::kValues, E::kEncoded, E::kRelease}),
            SendState::kReleased);
  EXPECT_EQ(Walk(SendState::kIdle, {E::kFetch, E::kValues, E::kFetched, E::kEncoded}),
            SendState::kSent);
  EXPECT_EQ(Walk(SendState::kSent, {E::kResend, E::kEncoded, E::kRelease}), SendState::kReleased);
  EXPECT_EQ(Edges(SendState::kReleased, SendEvent::kRelease), 8);
}

TEST(ReceiveStatesTest, StoreFirstFrameFirstHeldAndResend) {
  using E = ReceiveEvent;
  using S = ReceiveState;
  EXPECT_EQ(Walk(S::kIdle, {E::kFetch, E::kFetched, E::kFrame, E::kMatch, E::kDecoded, E::kTake}),
            S::kTaken);
  EXPECT_EQ(Walk(S::kIdle, {E::kFetch, E::kFrame, E::kFetched}), S::kMatching);
  EXPECT_EQ(Walk(S::kIdle, {E::kFrame, E::kFetch, E::kFetched}), S::kMatching);
  EXPECT_EQ(Walk(S::kMatching, {E::kMismatch, E::kFrame, E::kMatch}), S::kDecoding);
  EXPECT_EQ(Edges(S::kTaken, E::kTake), 12);
}

TEST(BoundaryStatesTest, LinkThenInventoriesThenSteps) {
  using E = BoundaryEvent;
  const BoundaryState up =
      Walk(BoundaryState::kNew, {E::kOpen, E::kLinkOpen, E::kInventories, E::kAgreed});
  EXPECT_EQ(up, BoundaryState::kUp);
  EXPECT_EQ(Walk(up, {E::kStep, E::kStep}), BoundaryState::kStepping);
  EXPECT_EQ(Edges(BoundaryState::kStepping, E::kStep), 6);
  std::set<std::string_view> names;
  for (int s = 0; s <= static_cast<int>(BoundaryState::kStepping); ++s) {
    names.insert(BoundaryStateName(static_cast<BoundaryState>(s)));
  }
  EXPECT_EQ(names.size(), 6u);
}

TEST(RunnerStatesTest, StepsGoRoundAndEveryStateHasAName) {
  using E = RunnerEvent;
  const RunnerState waiting = Walk(RunnerState::kNew, {E::kStart, E::kLinksUp});
  EXPECT_EQ(waiting, RunnerState::kWaiting);
  EXPECT_EQ(Walk(waiting,
                 {E::kPlan, E::kMicroBatchesDone, E::kReduce, E::kReduced, E::kApply, E::kApplied}),
            waiting);
  EXPECT_EQ(Edges(RunnerState::kApplying, E::kApplied), 12);
  std::set<std::string_view> names;
  for (int s = 0; s <= static_cast<int>(RunnerState::kApplying); ++s) {
    names.insert(RunnerStateName(static_cast<RunnerState>(s)));
  }
  EXPECT_EQ(names.size(), 8u);
}

}  // namespace
}  // namespace shoal::pipeline
