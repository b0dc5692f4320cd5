// What every registered method keeps to, by its entry alone: a method that is added needs no line
// here, but for a value of an option that has no default.

#include <gmock/gmock.h>

#include <optional>
#include <set>
#include <string>

#include "compression/api/codec_spec.h"
#include "replica/methods/method_registry.h"
#include "replica/step_registry.h"

namespace shoal::replica {
namespace {

using testing::HasSubstr;

class MethodContractTest : public testing::TestWithParam<const MethodEntry*> {
 protected:
  const MethodEntry& entry() const { return *GetParam(); }
  std::string name() const { return std::string(entry().name); }
  ReplicaMethod Parsed(const std::string& spec) const {
    auto method = ParseReplicaMethod(spec);
    EXPECT_TRUE(method.ok()) << method.status().ToString();
    return method.ok() ? *method : *ParseReplicaMethod("average");
  }
};

TEST_P(MethodContractTest, TheNameAloneIsASpecThatReadsBackAsItself) {
  const ReplicaMethod method = Parsed(name());
  EXPECT_EQ(method.entry, &entry());
  EXPECT_EQ(Parsed(method.spec).spec, method.spec);
  EXPECT_EQ(Parsed(method.spec).codec, method.codec);
  EXPECT_TRUE(method.spec.starts_with(name()));
}

TEST_P(MethodContractTest, ItsUsageIsAmongWhatAnUnknownMethodIsAnsweredWith) {
  EXPECT_THAT(ParseReplicaMethod("nothing").status().message(), HasSubstr(entry().usage));
  EXPECT_EQ(FindMethod(name()), &entry());
}

TEST_P(MethodContractTest, OtherOptionsAreRefusedWithTheNamesOfItsOwn) {
  const auto method = ParseReplicaMethod(name() + ":colour=3");
  ASSERT_EQ(method.status().code(), StatusCode::kInvalidArgument);
  for (const std::string_view key : entry().keys) {
    EXPECT_THAT(method.status().message(), HasSubstr(key));
  }
}

TEST_P(MethodContractTest, EveryKeyIsReadAndABadValueOfItNamed) {
  for (const std::string_view key : entry().keys) {
    const auto method = ParseReplicaMethod(name() + ":" + std::string(key) + "=?");
    EXPECT_EQ(method.status().code(), StatusCode::kInvalidArgument) << key;
    EXPECT_THAT(method.status().message(), HasSubstr("?")) << key;
  }
}

TEST_P(MethodContractTest, StateGrowsWithTheStageAndShrinksWithOwnersOnly) {
  const ReplicaMethod method = Parsed(name());
  for (const std::uint32_t pipelines : {1U, 2U, 8U, 64U}) {
    const std::uint64_t small = method.StateBytes(1000, pipelines, false);
    EXPECT_GT(small, 0u);
    EXPECT_GT(method.StateBytes(2000, pipelines, false), small);
    EXPECT_GE(method.StateBytes(1000, pipelines, true), small);
    EXPECT_TRUE(method.traits.shards_moments || small == method.StateBytes(1000, 1, false));
  }
  EXPECT_TRUE(method.traits.shards_moments || !method.traits.shards_parameters);
}

TEST_P(MethodContractTest, WhatPeersAreToldDependsOnTheRunNoMore) {
  const std::string told = Parsed(name()).SpecOfRun(800, 30);
  EXPECT_EQ(Parsed(told).SpecOfRun(9000, 700), told);
}

TEST_P(MethodContractTest, LansAreOnesOwnUnlessTheSpecNamesThem) {
  const ReplicaMethod method = Parsed(name());
  EXPECT_FALSE(method.traits.uses_lans);
  EXPECT_EQ(*method.LanOf(3), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_TRUE(method.CheckRun(4, 3).ok());
}

TEST_P(MethodContractTest, LocalStepsMakeAMethodClipByItsOwnNorms) {
  const auto method = ParseReplicaMethod(name() + ":local_steps=4");
  ASSERT_EQ(method.ok(), entry().local_steps);
  if (!method.ok()) return;
  EXPECT_TRUE(method->traits.clips_locally);
  EXPECT_EQ(Parsed(method->spec).spec, method->spec);
  EXPECT_EQ(method->SpecOfRun(800, 30), method->spec);
}

TEST_P(MethodContractTest, AStepCarriesItOut) {
  ASSERT_NE(FindStep(name()), nullptr);
  EXPECT_NE(FindStep(name())->step, nullptr);
}

TEST_P(MethodContractTest, TheSwarmChoosesNoStagesUnlessTheSpecSaysSo) {
  EXPECT_EQ(Parsed(name()).StageChoiceStart(), std::nullopt);
  if (entry().stage_choice_start == nullptr) return;
  EXPECT_EQ(Parsed(name() + ":stages=auto,start=20").StageChoiceStart(), 20u);
}

// Users can take what is offered, and the advice knows how to compare it.
TEST_P(MethodContractTest, WhatItOffersAreSpecsOfIts) {
  for (const MethodOffer& offer : entry().offers) {
    const bool local = offer.use == OfferedFor::kLocalSteps;
    const std::string spec(offer.spec);
    const ReplicaMethod method =
        Parsed(local ? compression::WithOptions(spec, "local_steps=4") : spec);
    EXPECT_EQ(method.entry, &entry()) << spec;
    const bool small = offer.use == OfferedFor::kSmallMemory;
    EXPECT_EQ(offer.bits == 0, small) << spec;
    EXPECT_TRUE(method.traits.shards_parameters || !small) << spec;
    EXPECT_TRUE(offer.loss == 0 || (offer.loss > 0 && offer.loss < 0.01)) << spec;
    EXPECT_TRUE(method.traits.lossless || offer.bits < 32) << spec;
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, MethodContractTest, testing::ValuesIn(Methods()),
                         [](const auto& test) { return std::string(test.param->name); });

TEST(MethodRegistryTest, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (const MethodEntry* const entry : Methods()) names.insert(entry->name);
  EXPECT_EQ(names.size(), Methods().size());
  EXPECT_EQ(FindMethod("nothing"), nullptr);
  EXPECT_EQ(FindStep("nothing"), nullptr);
}

}  // namespace
}  // namespace shoal::replica
