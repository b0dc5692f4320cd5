#include "replica/methods/replica_method.h"

#include <gmock/gmock.h>

#include "replica/methods/marsit_method.h"
#include "replica/methods/momentum_method.h"
#include "replica/methods/power_sgd_method.h"
#include "replica/methods/qsdp_method.h"

namespace shoal::replica {
namespace {

using testing::HasSubstr;

// Where differences lose nothing, the gradient of a tied embedding does not either.
TEST(ReplicaMethod, EndsOfTheEmbeddingAreExactWhereDifferencesAre) {
  const std::pair<const char*, const char*> cases[] = {
      {"average:local_steps=4", "raw:dtype=fp32"},
      {"average:local_steps=4,ends=exact", "raw:dtype=fp32"},
      {"average:codec=direct:bits=4,local_steps=4", "dithered:step=0.3"},
      {"average:codec=direct:bits=4,local_steps=4,ends=exact", "raw:dtype=fp32"},
      {"powersgd:rank=8,local_steps=4", "dithered:step=0.3"},
      {"onebit:local_steps=4,ends=auto", "dithered:step=0.3"},
      {"onebit", ""},
  };
  for (const auto& [spec, codec] : cases) {
    const auto method = ParseReplicaMethod(spec);
    ASSERT_TRUE(method.ok()) << method.status().ToString();
    EXPECT_EQ(method->local.ends_codec, codec) << spec;
  }
}

TEST(ReplicaMethod, CanonicalSpecsStayAsTheyAre) {
  const struct {
    const char *spec, *codec;
    bool feedback;
  } cases[] = {
      {"average", "raw:dtype=fp32", false},
      {"average:dtype=fp32", "raw:dtype=fp32", false},
      {"average:dtype=bf16", "raw:dtype=bf16", true},
      {"average:dtype=fp16,feedback=false", "raw:dtype=fp16", false},
      {"average:codec=dithered:step=1.0", "dithered:step=1", false},
      {"average:codec=direct:bits=4/bucket=512", "direct:bits=4,bucket=512", true},
      {"average:codec=direct:bits=4/rounding=stochastic", "direct:bits=4", true},
      {"average:codec=direct:bits=4/levels=affine/rounding=stochastic", "direct:bits=4", false},
      {"average:codec=tiles:bits=4,feedback=false", "tiles:bits=4", false},
      {"powersgd:rank=8,stages=0-2/4", "raw:dtype=fp32", false},
      {"qadam", "direct:bits=4,bucket=512", true},
      {"qadam:bits=8,bucket=128,start=50,refresh=on", "direct:bits=8,bucket=128", true},
      {"qadam:bits=1,bucket=256", "onebit:bucket=256", true},
      {"onebit", "onebit:bucket=1024", true},
      {"marsit", "raw:dtype=fp32", false},
      {"marsit:every=auto", "raw:dtype=fp32", false},
      {"marsit:every=100,scale=0.25,shape=torus,start=30", "raw:dtype=fp32", false},
      {"qsdp", "direct:bits=8,bucket=1024,levels=midtread,rounding=stochastic", false},
      {"qsdp:weights=32,gradients=32", "raw:dtype=fp32", false},
      {"qsdp:gradients=2,bucket=64,raw_below=1", "direct:bits=2,bucket=64,levels=affine", false},
      {"qsdp:weights=5,gradients=4,levels=learned", "learned:bits=4,bucket=1024", true},
      {"qsdp:weights=3,levels=learned,learn=400/1900", "direct:bits=8", false},
      {"cocktail", "cocktail:stride=10,ratio=0.2,bits=4,bucket=128", true},
      {"cocktail:random=0.333,top=0.5,bits=2,local_steps=4", "stride=3,ratio=0.5,bits=2", true},
      {"average:local_steps=16", "raw:dtype=fp32", false},
      {"average:codec=topk:ratio=0.015625/bits=2,local_steps=8", "ratio=0.015625,bits=2", true},
      {"qadam:local_steps=4,outer_rate=1,outer_momentum=0", "direct:bits=4", true},
      {"onebit:local_steps=4,outer_momentum=0.5", "onebit:bucket=1024", true},
      {"powersgd:rank=8,local_steps=4,start=20", "raw:dtype=fp32", false},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.spec);
    const auto method = ParseReplicaMethod(one.spec);
    ASSERT_TRUE(method.ok()) << method.status().ToString();
    EXPECT_THAT(method->codec, HasSubstr(one.codec));
    EXPECT_EQ(method->feedback, one.feedback);
    const auto again = ParseReplicaMethod(method->spec);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(again->spec, method->spec);
    EXPECT_EQ(again->codec, method->codec);
    EXPECT_EQ(again->feedback, method->feedback);
    EXPECT_EQ(again->local.steps, method->local.steps);
    EXPECT_EQ(again->local.outer_rate, method->local.outer_rate);
    EXPECT_EQ(again->local.outer_momentum, method->local.outer_momentum);
    EXPECT_EQ(again->local.ends_codec, method->local.ends_codec);
  }
}

TEST(ReplicaMethod, VarianceIsFrozenAfterTheWarmUpOfTheRate) {
  for (const std::string name : {"qadam", "onebit", "marsit"}) {
    SCOPED_TRACE(name);
    const auto warm_up = [&](const std::string& spec) {
      const auto method = ParseReplicaMethod(spec);
      EXPECT_TRUE(method.ok()) << method.status().ToString();
      return name == "marsit" ? MarsitOptionsOf(*method).warm_up
                              : MomentumOptionsOf(*method).warm_up;
    };
    EXPECT_EQ(warm_up(name).StartOf(400, 10), 50u);  // an eighth
    EXPECT_EQ(warm_up(name).StartOf(400, 150), 150u);
    EXPECT_EQ(warm_up(name).StartOf(40000, 2500), 2500u);  // not 1000
    const auto automatic = ParseReplicaMethod(name);
    EXPECT_EQ(warm_up(automatic->SpecOfRun(400, 150)).StartOf(400), 150u);
    // A rate that grows for longer than the run lasts: no step is in bits.
    EXPECT_EQ(warm_up(automatic->SpecOfRun(400, std::uint64_t{1} << 60)).StartOf(400), 400u);
    // Who names a step gets that one.
    const auto named = ParseReplicaMethod(name + ":start=20");
    ASSERT_TRUE(named.ok()) << named.status().ToString();
    EXPECT_EQ(named->SpecOfRun(400, 150), named->spec);
    EXPECT_EQ(warm_up(named->spec).StartOf(400, 150), 20u);
  }
}

TEST(ReplicaMethod, MarsitHasARingOfTwoMembersForEachPipelineOfSeveralStages) {
  const auto marsit = ParseReplicaMethod("marsit");
  ASSERT_TRUE(marsit.ok()) << marsit.status().ToString();
  EXPECT_TRUE(marsit->CheckRun(1, 64).ok());
  EXPECT_TRUE(marsit->CheckRun(2, 32).ok());
  EXPECT_EQ(marsit->CheckRun(2, 33).message(),
            "replica method marsit takes up to 32 pipelines of 2 stages, not 33; write method = "
            "\"onebit\" for more");
  const auto average = ParseReplicaMethod("average");
  ASSERT_TRUE(average.ok()) << average.status().ToString();
  EXPECT_TRUE(average->CheckRun(2, 64).ok());
}

TEST(ReplicaMethod, APeerOfEveryStageMayBeTooLargeAGroup) {
  const auto average = ParseReplicaMethod("average"), marsit = ParseReplicaMethod("marsit");
  ASSERT_TRUE(average.ok() && marsit.ok());
  EXPECT_TRUE(average->CheckSharing(0, 64).ok());
  EXPECT_TRUE(average->CheckSharing(2, 64).ok());
  EXPECT_TRUE(average->CheckSharing(8, 16).ok());
  EXPECT_EQ(average->CheckSharing(8, 17).message(),
            "replica method average takes up to 128 peers that share tensors, and the model has "
            "some in 8 stages of 17 pipelines; take fewer of either");
  EXPECT_TRUE(marsit->CheckSharing(8, 8).ok());
  EXPECT_FALSE(marsit->CheckSharing(8, 9).ok());
  EXPECT_TRUE(marsit->CheckSharing(96, 1).ok()) << "one pipeline adds up exactly";
}

TEST(ReplicaMethod, LocalStepsGoWithOtherMethods) {
  const auto method = ParseReplicaMethod("powersgd:local_steps=12,rank=4,outer_rate=0.5");
  ASSERT_TRUE(method.ok()) << method.status().ToString();
  EXPECT_EQ(PowerSgdOptionsOf(*method).rank, 4u);
  EXPECT_EQ(method->local.steps, 12u);
  EXPECT_EQ(method->local.outer_rate, 0.5);
  EXPECT_EQ(method->local.outer_momentum, 0);
  EXPECT_TRUE(method->traits.clips_locally);
  EXPECT_EQ(ParseReplicaMethod("average")->local.steps, 0u);
  EXPECT_FALSE(ParseReplicaMethod("average")->traits.clips_locally);
}

TEST(ReplicaMethod, MistakesAreNamed) {
  const struct {
    const char *spec, *error;
  } cases[] = {
      {"avrage", "is not known; did you mean 'average'?; there are average"},
      {"average:dtype=int8", "fp32"},
      {"average:bits=4", "dtype, codec, feedback"},
      {"average:codec=direct:bits=4,bucket=512", "'/' stands for ','"},
      {"average+zstd", "entropy coder"},
      {"average:dtype=bf16,codec=direct:bits=4", "not both"},
      {"average:codec=aqsgd:bits=4", "memory of its own"},
      {"average:codec=lowrank:rank=4", "memory of its own"},
      {"average:codec=direct:bits=99", "bits"},
      {"average:feedback=true", "nothing to feed back"},
      {"qadam:bits=9", "bits"},
      {"qadam:bits=99", "replica method 'qadam:bits=99': bits=99; allowed"},
      {"marsit,local_steps=4", "write marsit:local_steps=4"},
      {"qadam:bucket=48", "divide 1024"},
      {"qadam:start=0", "start"},
      {"onebit:bits=2", "bits"},
      {"powersgd:rank=0", "rank"},
      {"powersgd:stages=first", "stages are all, none, auto"},
      {"cocktail:ratio=0.1", "random, top, bits, bucket"},
      {"cocktail:random=0.4", "one value in so many"},
      {"cocktail+rans:bits=4", "entropy coder"},
      {"marsit:every=0", "every"},
      {"marsit:every=often", "every"},
      {"marsit:scale=0", "scale"},
      {"marsit:shape=star", "auto, ring"},
      {"marsit:bits=1", "every, scale, shape"},
      {"qsdp:weights=16", "1 to 8"},
      {"qsdp:bits=8", "weights, gradients, bucket"},
      {"qsdp:bucket=48", "divide 1024"},
      {"qsdp+rans", "entropy coder"},
      {"qsdp:delta=true,weights=32", "delta=true"},
      {"qsdp:levels=learned", "1 to 5 bits"},
      {"qsdp:weights=4,learn=100", "needs levels=learned"},
      {"qsdp:weights=4,levels=learned,learn=100/50", "ascending"},
      {"qsdp:shard_parameters=true,delta=true", "not with delta"},
      {"qsdp:shard_parameters=true,lan=0-1", "not with delta or lan"},
      {"qsdp:shard_parameters=true,levels=learned,weights=3,gradients=4", "for weights only"},
      {"qsdp:shard_parameters=yes", "shard_parameters"},
      {"average:local_steps=0", "local_steps=1"},
      {"average:outer_rate=0.5", "needs local_steps"},
      {"average:local_steps=4,outer_rate=3", "outer_rate=3"},
      {"average:local_steps=4,ends=raw", "ends=auto and ends=exact"},
      {"average:ends=exact", "needs local_steps"},
      {"average:local_steps=4,outer_momentum=1", "outer_momentum=1"},
      {"qadam:local_steps=4,start=10", "no warm-up"},
      {"onebit:local_steps=4,refresh=on", "no warm-up"},
      {"qsdp:local_steps=4", "goes with average"},
      {"marsit:local_steps=4", "goes with average"},
      {"qsdp:lan=auto/0-1", "0-1/2-3, or is auto or none"},
      {"qsdp:lan=0-1/1-2", "lan has '1-2'"},
      {"qsdp:lan=3-2", "lan has '3-2'"},
      {"", ""},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.spec);
    const auto method = ParseReplicaMethod(one.spec);
    ASSERT_FALSE(method.ok());
    EXPECT_EQ(method.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(method.status().message(), HasSubstr(one.error));
  }
}

// What is accepted is accepted again as it is written out, which can be longer.
TEST(ReplicaMethod, WhatDoesNotFitWithAllOptionsIsRefused) {
  std::string stages = "powersgd:stages=0";
  while (stages.size() < 250) stages += "/1";
  EXPECT_THAT(ParseReplicaMethod(stages).status().message(), HasSubstr("with all of its options"));
  stages.resize(200);
  const auto method = ParseReplicaMethod(stages);
  ASSERT_TRUE(method.ok()) << method.status().ToString();
  EXPECT_EQ(ParseReplicaMethod(method->spec)->spec, method->spec);
}

// Too long for a string that holds its text itself: what is read must be the option's own.
TEST(ReplicaMethod, ALongListOfLansIsReadFromTheOption) {
  const auto method = ParseReplicaMethod("qsdp:lan=0-1/2-3/4-5/6-7/8-9/10-11/12-13/14-15");
  ASSERT_TRUE(method.ok()) << method.status().ToString();
  const auto lans = QsdpOptionsOf(*method).LanOf(17);
  ASSERT_TRUE(lans.ok()) << lans.status().ToString();
  for (std::size_t p = 0; p < 17; ++p) EXPECT_EQ((*lans)[p], p - p % 2) << p;
}

TEST(ReplicaMethod, QsdpOptionsSayHowWeightsTravel) {
  const auto method = ParseReplicaMethod("qsdp:delta=true,gradients=8,levels=learned");
  ASSERT_TRUE(method.ok()) << method.status().ToString();
  EXPECT_FALSE(method->traits.clips_locally) << "owners know the norm of the whole gradient";
  EXPECT_EQ(QsdpOptionsOf(*method).weight_bits, 4)
      << "differences take fewer bits unless told otherwise";
  EXPECT_EQ(method->spec,
            "qsdp:weights=4,gradients=8,bucket=1024,raw_below=1024,delta=true,lan=none,"
            "levels=learned,learn=auto");
  EXPECT_EQ(QsdpOptionsOf(*method).WeightCodec(), "shifted:bits=4,bucket=1024");
  EXPECT_EQ(QsdpOptionsOf(*method).LearnSteps(4800), (std::vector<std::uint64_t>{400, 1920, 3840}));
  EXPECT_EQ(QsdpOptionsOf(*method).LearnSteps(2), (std::vector<std::uint64_t>{1}));
  const auto given = ParseReplicaMethod("qsdp:weights=3,levels=learned,learn=400/1900");
  ASSERT_TRUE(given.ok()) << given.status().ToString();
  EXPECT_EQ(QsdpOptionsOf(*given).LearnSteps(10), (std::vector<std::uint64_t>{400, 1900}));
  EXPECT_TRUE(QsdpOptionsOf(*ParseReplicaMethod("qsdp")).LearnSteps(4800).empty());
  const auto lans = ParseReplicaMethod("qsdp:lan=1-2/4-5");
  ASSERT_TRUE(lans.ok()) << lans.status().ToString();
  EXPECT_EQ(*QsdpOptionsOf(*lans).LanOf(6), (std::vector<std::size_t>{0, 1, 1, 3, 4, 4}));
  EXPECT_FALSE(QsdpOptionsOf(*lans).LanOf(5).ok());
  EXPECT_EQ(QsdpOptionsOf(*ParseReplicaMethod(lans->spec)).lan, "1-2/4-5");
  EXPECT_FALSE(QsdpOptionsOf(*lans).lan_auto());
  const auto measured = ParseReplicaMethod("qsdp:lan=auto");
  ASSERT_TRUE(measured.ok()) << measured.status().ToString();
  EXPECT_TRUE(QsdpOptionsOf(*ParseReplicaMethod(measured->spec)).lan_auto());
  EXPECT_EQ(*QsdpOptionsOf(*measured).LanOf(3), (std::vector<std::size_t>{0, 1, 2}))
      << "the plan tells them";
}

TEST(ReplicaMethod, WeightsBelowEightBitsTravelAsDifferences) {
  const std::pair<const char*, bool> cases[] = {
      {"qsdp", false},
      {"qsdp:weights=8,gradients=4", false},
      {"qsdp:weights=32", false},
      {"qsdp:weights=7", true},
      {"qsdp:weights=4,gradients=4", true},
      {"qsdp:weights=3,levels=learned", true},
      {"qsdp:weights=4,delta=false", false},
      {"qsdp:weights=8,delta=true", true},
      {"qsdp:weights=4,shard_parameters=true", false},
  };
  for (const auto& [text, delta] : cases) {
    SCOPED_TRACE(text);
    const auto method = ParseReplicaMethod(text);
    ASSERT_TRUE(method.ok()) << method.status().ToString();
    EXPECT_EQ(QsdpOptionsOf(*method).delta, delta);
    const auto again = ParseReplicaMethod(method->spec);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(QsdpOptionsOf(*again).delta, delta) << "a plan says it in full";
  }
}

TEST(ReplicaMethod, QsdpMayShardParametersToo) {
  const auto method = ParseReplicaMethod("qsdp:weights=8,shard_parameters=true");
  ASSERT_TRUE(method.ok()) << method.status().ToString();
  EXPECT_TRUE(method->traits.shards_parameters);
  EXPECT_TRUE(ParseReplicaMethod(method->spec)->traits.shards_parameters);
  EXPECT_FALSE(ParseReplicaMethod("qsdp")->traits.shards_parameters);
  const auto learned =
      ParseReplicaMethod("qsdp:weights=3,levels=learned,learn=5,shard_parameters=true");
  ASSERT_TRUE(learned.ok()) << learned.status().ToString();
  EXPECT_TRUE(learned->traits.shards_parameters && QsdpOptionsOf(*learned).learns_weights());
  EXPECT_FALSE(learned->feedback);
  EXPECT_EQ(ParseReplicaMethod(learned->spec)->spec, learned->spec);
}

TEST(ReplicaMethod, ShardsOfTheOptimizerShrinkWithTheGroup) {
  const auto bytes = [](const char* spec, std::uint32_t pipelines, bool bf16 = false) {
    return ParseReplicaMethod(spec)->StateBytes(1200, pipelines, bf16);
  };
  EXPECT_EQ(bytes("average", 4), 1200u * 16);
  EXPECT_EQ(bytes("average", 4, true), 1200u * 18);
  EXPECT_EQ(bytes("qsdp", 1), 1200u * 16) << "there is nobody to share with";
  EXPECT_EQ(bytes("qsdp", 2), 1200u * (8 + 6));
  EXPECT_EQ(bytes("qsdp", 4), 1200u * (8 + 3));
  EXPECT_EQ(bytes("qsdp:delta=true", 4, true), 1200u * (10 + 4));
  EXPECT_EQ(bytes("qsdp:lan=0-1/2-3", 4), 1200u * (8 + 6)) << "one of a LAN owns";
  EXPECT_EQ(bytes("qsdp:lan=auto", 4), 1200u * (8 + 12)) << "all may share one";
  const auto all = ParseReplicaMethod("qsdp:shard_parameters=true");
  EXPECT_EQ(all->StateBytes(1200, 4, false, 100), 1200u * 5 + 100 * 12);
  EXPECT_EQ(all->StateBytes(1200, 4, true, 100), 1200u * 5 + 100 * 16);
  EXPECT_EQ(all->StateBytes(1200, 1, false, 100), 1200u * 16);
}

}  // namespace
}  // namespace shoal::replica
