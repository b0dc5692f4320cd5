#include "compression/api/codec_advice.h"

#include <gmock/gmock.h>

#include "compression/api/codec.h"

namespace shoal::compression {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> Advice(std::string_view forward, std::string_view backward,
                                double epochs = 4, std::uint32_t boundaries = 3) {
  for (const std::string_view spec : {forward, backward}) {
    EXPECT_TRUE(MakeCodec(spec, 128).ok()) << spec;
  }
  return CodecAdvice({forward, backward, boundaries, epochs, false});
}

TEST(CodecAdviceTest, GoodChoicesGetNone) {
  for (const char* forward :
       {"raw:dtype=fp32", "aqsgd:bits=2", "aqsgd+rans:bits=3,first_visit=direct:bits=8",
        "aqsgd:delta=dithered:step=1.5,first_visit=tiles:bits=4", "aqsgd:bits=3,m=8",
        "tiles:bits=4", "direct:bits=8", "direct:bits=6,bucket=channel"}) {
    for (const char* backward : {"raw:dtype=bf16", "direct:bits=4", "dithered:step=1"}) {
      EXPECT_THAT(Advice(forward, backward), IsEmpty()) << forward << " " << backward;
    }
  }
}

TEST(CodecAdviceTest, ScalesPerChannel) {
  EXPECT_THAT(Advice("aqsgd:bits=4,bucket=channel", "direct:bits=5,bucket=channel"),
              ElementsAre(HasSubstr("forward = \"aqsgd:bits=4,bucket=channel\": one scale"),
                          HasSubstr("backward = \"direct:bits=5,bucket=channel\": one scale")));
  EXPECT_THAT(Advice("aqsgd:delta=direct:bits=2/bucket=channel", "direct:bits=8"),
              ElementsAre(HasSubstr("delta = ")));
}

TEST(CodecAdviceTest, LowRankChangesOfTooFewDirections) {
  for (const char* spec : {"aqsgd:delta=lowrank:rank=8", "aqsgd:delta=lowrank:rank=16",
                           "aqsgd:delta=lowrank:channels=on"}) {
    EXPECT_THAT(Advice(spec, "direct:bits=8"), ElementsAre(HasSubstr("energy=0.98"))) << spec;
  }
  for (const char* spec : {"aqsgd:delta=lowrank:rank=64", "aqsgd:delta=lowrank:energy=0.9"}) {
    EXPECT_THAT(Advice(spec, "direct:bits=8"), IsEmpty()) << spec;
  }
}

TEST(CodecAdviceTest, ASingleEpochNeedsNoDeltas) {
  EXPECT_THAT(Advice("aqsgd:bits=4", "direct:bits=8", 1), ElementsAre(HasSubstr("tiles")));
  EXPECT_THAT(Advice("aqsgd:bits=4", "direct:bits=8", 1.1), IsEmpty());
  EXPECT_THAT(Advice("aqsgd:bits=4", "direct:bits=8", 0), IsEmpty()) << "not known";
  EXPECT_THAT(Advice("tiles:bits=4", "direct:bits=8", 1), IsEmpty());
}

TEST(CodecAdviceTest, TooFewBits) {
  EXPECT_THAT(Advice("aqsgd:bits=4,m=2", "direct:bits=3"),
              ElementsAre(HasSubstr("m=8"), HasSubstr("dithered")));
  EXPECT_THAT(Advice("aqsgd:bits=4,first_visit=direct:bits=3", "direct:bits=4"),
              ElementsAre(HasSubstr("first visits")));
  EXPECT_THAT(Advice("direct:bits=4", "direct:bits=4"), ElementsAre(HasSubstr("aqsgd:bits=3")));
  EXPECT_THAT(Advice("aqsgd:bits=2", "direct:bits=4", 4, 7),
              ElementsAre(HasSubstr("7 boundaries")));
  EXPECT_THAT(Advice("aqsgd:bits=3", "direct:bits=4", 4, 7), IsEmpty());
}

TEST(CodecAdviceTest, WhatIsLeftOutOfGradients) {
  EXPECT_THAT(Advice("aqsgd:bits=4", "topk:ratio=0.2,bits=8"),
              ElementsAre(HasSubstr("add feedback=on over many epochs, or take dithered")));
  EXPECT_THAT(Advice("direct:bits=8", "topk:ratio=0.2,bits=8", 1),
              ElementsAre(HasSubstr("biases every step; take dithered")));
  EXPECT_THAT(Advice("aqsgd:bits=4", "topk:ratio=0.2,bits=8,feedback=on"), IsEmpty());
  EXPECT_THAT(Advice("aqsgd:bits=4", "direct:bits=2,feedback=on"), IsEmpty());
  const std::string gradients =
      "aqsgd:delta=dithered:step=0.4/of=values,first_visit=dithered:step=0.4";
  EXPECT_THAT(Advice("tiles:bits=4", gradients, 1),
              ElementsAre(HasSubstr("no change of a gradient is ever sent")));
  EXPECT_THAT(Advice("aqsgd:bits=4", gradients), IsEmpty());
  EXPECT_THAT(Advice("aqsgd:bits=4", "dithered:step=1,dither=off"),
              ElementsAre(HasSubstr("biases every sum")));
  EXPECT_THAT(Advice("direct:bits=8", "direct:bits=2,feedback=on", 1),
              ElementsAre(HasSubstr("nothing is fed back")));
}

TEST(CodecAdviceTest, FreshMasks) {
  EXPECT_THAT(CodecAdvice({"aqsgd:bits=4", "direct:bits=8", 1, 4, true}),
              ElementsAre(HasSubstr("dropout_masks")));
  EXPECT_THAT(CodecAdvice({"direct:bits=8", "direct:bits=8", 1, 4, true}), IsEmpty());
}

TEST(CodecAdviceTest, OneStageSendsNothing) {
  EXPECT_THAT(CodecAdvice({"direct:bits=1", "direct:bits=1", 0, 1, true}), IsEmpty());
}

}  // namespace
}  // namespace shoal::compression
