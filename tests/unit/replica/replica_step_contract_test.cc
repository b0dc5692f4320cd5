// What every ReplicaStep does: one suite over all registered methods. A method that is added needs
// a line here only if its options have other phases or steps than its name alone.

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "replica/methods/method_entry.h"
#include "replica/methods/method_registry.h"
#include "tests/unit/replica/stage_group.h"

namespace shoal::replica {
namespace {

using model::StateVector;

std::vector<std::string> Specs() {
  std::vector<std::string> specs = {
      "average:dtype=bf16",
      "average:codec=direct:bits=4/bucket=64,feedback=true",
      // Behind the warm-up, which is all that the name alone comes to here.
      "powersgd:rank=2,start=2",
      "powersgd:rank=2,start=2,stages=auto",
      "qadam:bits=4,bucket=64,start=3",
      "onebit:bucket=64,start=3",
      "marsit:start=3",
      "qsdp:weights=4,gradients=4,bucket=64,raw_below=100",
      // With feedback of gradients, once levels are learned.
      "qsdp:weights=4,gradients=4,bucket=64,raw_below=100,levels=learned,learn=2",
      "qsdp:weights=8,gradients=8,bucket=64,raw_below=100,shard_parameters=true",
  };
  for (const MethodEntry* const entry : Methods()) {
    specs.emplace_back(entry->name);
    if (entry->local_steps) specs.push_back(std::string(entry->name) + ":local_steps=4");
  }
  return specs;
}

class ReplicaStepContract : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::size_t kPipelines = StageGroup::kPipelines;
  struct State {
    std::uint64_t weights = 0;  // checksum
    std::vector<float> first_moment, second_moment;
    bool operator==(const State&) const = default;
  };

  // By pipeline, as saved.
  static std::vector<State> StateOf(StageGroup* group) {
    std::vector<State> state;
    for (std::size_t p = 0; p < kPipelines; ++p) {
      state.push_back({group->peer(p).model->WeightChecksum(),
                       group->Get(StateVector::kFirstMoment, p),
                       group->Get(StateVector::kSecondMoment, p)});
    }
    return state;
  }
  static void ExpectEqualWeights(StageGroup* group) {
    const std::vector<State> state = StateOf(group);
    for (std::size_t p = 1; p < kPipelines; ++p) {
      EXPECT_EQ(state[p].weights, state[0].weights) << "pipeline " << p;
    }
  }
};

TEST_P(ReplicaStepContract, AllMembersTrainAlikeAndNothingChangesBeforeApply) {
  StageGroup group(GetParam(), 1);
  std::vector<double> losses;
  for (std::uint64_t step = 0; step < 12; ++step) {
    const std::vector<State> before = StateOf(&group);
    ASSERT_NO_FATAL_FAILURE(group.Train(step));
    const ReduceOrder order = group.OrderOf(step);
    ASSERT_NO_FATAL_FAILURE(group.Reduce(order));
    EXPECT_TRUE(StateOf(&group) == before) << "step " << step;
    ASSERT_NO_FATAL_FAILURE(group.Apply(order));
    ExpectEqualWeights(&group);
    EXPECT_NE(StateOf(&group)[0].weights, before[0].weights) << "step " << step;
    losses.push_back(0);
    for (std::size_t p = 0; p < kPipelines; ++p) {
      losses.back() += group.peer(p).loss.sum;
      if (group.method().traits.shards_parameters) continue;  // holds none
      EXPECT_EQ(std::ranges::count(group.Get(StateVector::kGradients, p), 0.0F),
                static_cast<std::ptrdiff_t>(group.peer(p).model->state_size()));
    }
  }
  EXPECT_LT(losses.back(), losses.front());
}

TEST_P(ReplicaStepContract, OtherDelaysAreNoDifference) {
  StageGroup group(GetParam(), 1), other(GetParam(), 77);
  for (std::uint64_t step = 0; step < 6; ++step) {
    ASSERT_NO_FATAL_FAILURE(group.Step(step));
    ASSERT_NO_FATAL_FAILURE(other.Step(step));
  }
  EXPECT_TRUE(StateOf(&group) == StateOf(&other));
}

// Its rows change nothing for the others, and it goes on with them.
TEST_P(ReplicaStepContract, APipelineThatDoesNotCountOnlyFollows) {
  StageGroup group(GetParam(), 1), other(GetParam(), 1);
  for (std::uint64_t step = 0; step < 5; ++step) {
    ASSERT_NO_FATAL_FAILURE(group.Step(step));
    ASSERT_NO_FATAL_FAILURE(other.Step(step));
  }
  if (group.method().traits.shards_parameters) {
    ASSERT_NO_FATAL_FAILURE(group.Train(5));
    for (std::size_t p = 0; p < kPipelines; ++p) group.BeginReduce(p, group.OrderOf(5, 2));
    group.Settle();
    for (std::size_t p = 0; p < kPipelines; ++p) {
      ASSERT_TRUE(group.peer(p).norm.has_value());
      EXPECT_EQ(group.peer(p).norm->status().code(), StatusCode::kFailedPrecondition);
    }
    return;
  }
  ASSERT_NO_FATAL_FAILURE(group.Step(5, 2));
  ASSERT_NO_FATAL_FAILURE(other.Step(5, 2, true));
  ExpectEqualWeights(&group);
  EXPECT_EQ(StateOf(&group)[0].weights, StateOf(&other)[0].weights);
  ASSERT_NO_FATAL_FAILURE(group.Step(6));
  ExpectEqualWeights(&group);
}

TEST_P(ReplicaStepContract, DestructionAbortsAtAnyMomentAndANewGenerationGoesOn) {
  for (const std::size_t events : {0, 5, 20, 60, 150, 100000}) {
    StageGroup group(GetParam(), 1);
    std::uint64_t step = 0;
    for (; step < 4; ++step) ASSERT_NO_FATAL_FAILURE(group.Step(step));
    const std::vector<State> before = StateOf(&group);
    ASSERT_NO_FATAL_FAILURE(group.Train(step));
    const ReduceOrder order = group.OrderOf(step);
    for (std::size_t p = 0; p < kPipelines; ++p) group.BeginReduce(p, order);
    group.Run(3 + events);  // the first three begin it
    std::vector<bool> reduced;
    for (std::size_t p = 0; p < kPipelines; ++p) {
      reduced.push_back(group.peer(p).norm.has_value());
    }
    group.Close();
    for (std::size_t p = 0; p < kPipelines; ++p) {
      EXPECT_EQ(group.peer(p).norm.has_value(), reduced[p]) << events << " events";
    }
    EXPECT_TRUE(StateOf(&group) == before) << events << " events";
    group.Open();
    for (; step < 7; ++step) ASSERT_NO_FATAL_FAILURE(group.Step(step));
    ExpectEqualWeights(&group);
  }
}

TEST_P(ReplicaStepContract, WhoIsMissingIsAwaitedByName) {
  StageGroup group(GetParam(), 1);
  for (std::uint64_t step = 0; step < 5; ++step) {
    ASSERT_NO_FATAL_FAILURE(group.Step(step));
    const PeerId* peer = nullptr;
    EXPECT_EQ(group.peer(0).step->Awaited(&peer), "");
    EXPECT_EQ(peer, nullptr);
  }
  ASSERT_NO_FATAL_FAILURE(group.Train(5, 2));  // one does not get so far
  const ReduceOrder order = group.OrderOf(5);
  group.BeginReduce(0, order);
  group.BeginReduce(1, order);
  group.Settle();
  int named = 0;
  for (std::size_t p = 0; p < 2; ++p) {
    const PeerId* peer = nullptr;
    const std::string text = group.peer(p).step->Awaited(&peer);
    ASSERT_NE(peer, nullptr) << text;
    EXPECT_NE(*peer, group.peer(p).id);
    EXPECT_NE(text.find(" of peer " + peer->ToShort()), std::string::npos) << text;
    named += *peer == group.peer(2).id ? 1 : 0;
  }
  EXPECT_GT(named, 0);
}

// A member's gradient is lost: its zeros end the exchanges of all, and its mark tells. A group that
// never made the step has the same weights and moments then, and the same memories: the steps that
// follow are the same, bit for bit. (Where the step's number matters: not the same, but sound.)
TEST_P(ReplicaStepContract, ASkippedStepIsAsIfItHadNotBeen) {
  StageGroup group(GetParam(), 1), other(GetParam(), 77);
  const ReplicaMethod& method = group.method();
  const bool repeats = method.local.steps == 0 && !method.traits.shards_parameters;
  constexpr std::uint64_t kLost = 5;
  for (std::uint64_t step = 0; step < kLost; ++step) {
    ASSERT_NO_FATAL_FAILURE(group.Step(step));
    if (!repeats) continue;
    ASSERT_NO_FATAL_FAILURE(other.Step(step));
  }
  const std::vector<State> before = StateOf(&group);
  group.peer(1).model->SetFaults([](MicroBatchId id) {
    return id.step == kLost ? test_support::TinyStage::Fault::kLayer
                            : test_support::TinyStage::Fault::kNone;
  });
  ASSERT_NO_FATAL_FAILURE(group.Train(kLost));
  const ReduceOrder order = group.OrderOf(kLost);
  ASSERT_NO_FATAL_FAILURE(group.Reduce(order));
  for (std::size_t p = 0; p < kPipelines; ++p) {
    EXPECT_EQ(group.peer(p).member->mark->lost(), p == 1) << "pipeline " << p;
    group.peer(p).member->mark->Clear();
  }
  ASSERT_NO_FATAL_FAILURE(group.Apply(order, true));
  if (method.local.steps == 0) {
    EXPECT_TRUE(StateOf(&group) == before);
  }
  ExpectEqualWeights(&group);
  for (std::size_t p = 0; p < kPipelines && !method.traits.shards_parameters; ++p) {
    EXPECT_EQ(std::ranges::count(group.Get(StateVector::kGradients, p), 0.0F),
              static_cast<std::ptrdiff_t>(group.peer(p).model->state_size()));
  }
  for (std::uint64_t step = kLost + 1; step < kLost + 4; ++step) {
    ASSERT_NO_FATAL_FAILURE(group.Step(step));
    ExpectEqualWeights(&group);
    if (!repeats) continue;
    ASSERT_NO_FATAL_FAILURE(other.Step(step));
    EXPECT_TRUE(StateOf(&group) == StateOf(&other)) << "step " << step;
  }
}

// What others owe does not come any more. With qsdp every Apply waits for them, and nobody goes on
// without a checkpoint.
TEST_P(ReplicaStepContract, ASkipThatWaitsForOthersEndsWithTheGeneration) {
  StageGroup group(GetParam(), 1);
  ASSERT_NO_FATAL_FAILURE(group.Train(0));
  const ReduceOrder order = group.OrderOf(0);
  ASSERT_NO_FATAL_FAILURE(group.Reduce(order));
  group.BeginApply(0, {0, 1, StageGroup::kRate, order.labels, true});
  group.Settle();
  const std::optional<Status>& applied = group.peer(0).applied;
  const bool local = GetParam().find("local_steps") != std::string::npos;
  const MethodTraits& traits = group.method().traits;
  const bool goes_on = traits.follows_steps || traits.pipelines_differ;
  EXPECT_EQ(applied.has_value(), goes_on && !local) << "a sync is made up for";
  group.Abandon(0);
  group.Settle();
  ASSERT_EQ(applied.has_value(), goes_on);
  if (!goes_on) return;
  EXPECT_EQ(applied->code(), local ? StatusCode::kUnavailable : StatusCode::kOk);
}

// As an owner, too, whose answers may be larger. Signs have no size.
TEST_P(ReplicaStepContract, WhoAddsFarTooMuchIsNamed) {
  using Fault = test_support::TinyStage::Fault;
  constexpr std::uint64_t kSpoilt = 7;  // of four local steps the last
  StageGroup group(GetParam(), 1);
  for (std::uint64_t step = 0; step < kSpoilt; ++step) ASSERT_NO_FATAL_FAILURE(group.Step(step));
  std::map<std::size_t, std::set<PeerId>> blamed;
  for (std::size_t p = 0; p < kPipelines; ++p) {
    group.peer(p).member->fail = [&blamed, p](const Status&, const PeerId* of) {
      if (of != nullptr) blamed[p].insert(*of);
    };
  }
  test_support::TinyStage& model = *group.peer(1).model;
  const bool local = GetParam().find("local_steps") != std::string::npos;
  if (!local) model.SetFaults([](MicroBatchId) { return Fault::kHuge; }, 1e10F);
  ASSERT_NO_FATAL_FAILURE(group.Train(kSpoilt));
  // AdamW's steps have no size of their gradients' either.
  if (local) {
    for (float& weight : model.weights()) weight *= 1e10F;
  }
  const ReduceOrder order = group.OrderOf(kSpoilt);
  for (std::size_t p = 0; p < kPipelines; ++p) group.BeginReduce(p, order);
  group.Settle();
  std::map<std::size_t, std::set<PeerId>> expected;
  // One that a member holds alone is nobody else's to see: with rows of 1,024 a tensor of this
  // model has one owner. By units a gradient this large counts as lost (unit_exchange_test).
  const bool seen = GetParam() != "qsdp" && !group.method().traits.shards_parameters;
  const std::string name = GetParam().substr(0, GetParam().find(':'));
  if (seen && name != "marsit") {
    expected = {{0, {group.peer(1).id}}, {2, {group.peer(1).id}}};
  }
  EXPECT_EQ(blamed, expected);
}

INSTANTIATE_TEST_SUITE_P(Methods, ReplicaStepContract, testing::ValuesIn(Specs()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace_if(
                               name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace shoal::replica
