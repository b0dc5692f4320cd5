#include "bench/bench_options.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shoal::bench {
namespace {

std::vector<CodecPair> Pairs(const std::string& text) {
  const auto pairs = ParseCodecPairs(text);
  EXPECT_TRUE(pairs.ok()) << pairs.status().ToString();
  return pairs.ok() ? *pairs : std::vector<CodecPair>();
}

TEST(BenchOptions, CodecPairsOfACommandLine) {
  EXPECT_EQ(Pairs("raw/raw,direct:bits=3/direct:bits=6,aqsgd:bits=3/direct:bits=6,"
                  "aqsgd:bits=4/direct:bits=8,aqsgd:bits=2/direct:bits=4,"
                  "aqsgd:bits=2+zstd/dithered:step=1.0"),
            (std::vector<CodecPair>{{"raw:dtype=fp32", "raw:dtype=fp32"},
                                    {"direct:bits=3", "direct:bits=6"},
                                    {"aqsgd:bits=3", "direct:bits=6"},
                                    {"aqsgd:bits=4", "direct:bits=8"},
                                    {"aqsgd:bits=2", "direct:bits=4"},
                                    {"aqsgd+zstd:bits=2", "dithered:step=1.0"}}));
  // Behind a nested spec it is the outer one's; within one it stays where it is.
  EXPECT_EQ(Pairs("aqsgd:bits=2,first_visit=tiles:bits=4+rans/direct:bits=4;"
                  "aqsgd:bits=2,first_visit=tiles+rans:bits=4/direct:bits=4+rans"),
            (std::vector<CodecPair>{
                {"aqsgd+rans:bits=2,first_visit=tiles:bits=4", "direct:bits=4"},
                {"aqsgd:bits=2,first_visit=tiles+rans:bits=4", "direct+rans:bits=4"}}));
}

TEST(BenchOptions, CommasAndSlashesWithinASpec) {
  EXPECT_EQ(Pairs("aqsgd+rans:bits=3,first_visit=direct+rans:bits=6/dithered:step=0.5"),
            (std::vector<CodecPair>{
                {"aqsgd+rans:bits=3,first_visit=direct+rans:bits=6", "dithered:step=0.5"}}));
  EXPECT_EQ(Pairs("aqsgd:bits=2,first_visit=direct:bits=8/bucket=64,m=8/direct:bits=4;raw/raw"),
            (std::vector<CodecPair>{
                {"aqsgd:bits=2,first_visit=direct:bits=8/bucket=64,m=8", "direct:bits=4"},
                {"raw:dtype=fp32", "raw:dtype=fp32"}}));
}

TEST(BenchOptions, WrongPairsAreRefused) {
  for (const char* text : {"", "raw", "raw/", "/raw", "raw/raw/raw", "raw/raw,,raw/raw", ";"}) {
    EXPECT_EQ(ParseCodecPairs(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(BenchOptions, DefaultsAreThePapersShape) {
  const auto options = ReadBenchOptions({});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->values(), 1024u * 1600u);
  EXPECT_EQ(options->weight_ms, 67.5);
  EXPECT_EQ(options->links.size(), 6u);
  EXPECT_EQ(options->links[0].value, 10'000'000'000u);
  EXPECT_EQ(options->schedules, (std::vector<std::string>{"1f1b", "zero-bubble"}));
}

TEST(BenchOptions, SlowMotion) {
  BenchArguments arguments;
  arguments.links = "off,500mbit,50mbit";
  arguments.rtt = "40ms";
  arguments.dilation = 4;
  const auto options = ReadBenchOptions(arguments);
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->forward_ms, 45);  // as asked for
  const BenchOptions slowed = Slowed(*options);
  EXPECT_EQ(slowed.forward_ms, 180);
  EXPECT_EQ(slowed.backward_ms, 540);
  EXPECT_EQ(slowed.weight_ms, 270);
  EXPECT_EQ(slowed.rtt, std::chrono::milliseconds(160));
  ASSERT_EQ(slowed.links.size(), 3u);
  EXPECT_EQ(slowed.links[0].value, 0u);
  EXPECT_EQ(slowed.links[1].value, 125'000'000u);
  EXPECT_EQ(slowed.links[2].value, 12'500'000u);
  EXPECT_EQ(slowed.micro_batches, options->micro_batches);
  EXPECT_EQ(slowed.codecs, options->codecs);
}

TEST(BenchOptions, SlowMotionIsAtLeastTheTruthAndFitsTheScheduler) {
  BenchArguments arguments;
  for (const double dilation : {0.0, 0.5, -1.0, 65.0, std::nan("")}) {
    arguments.dilation = dilation;
    EXPECT_EQ(ReadBenchOptions(arguments).status().code(), StatusCode::kInvalidArgument)
        << dilation;
  }
  arguments.dilation = 2;
  arguments.backward_ms = 30'001;
  EXPECT_EQ(ReadBenchOptions(arguments).status().code(), StatusCode::kInvalidArgument);
  arguments.backward_ms = 30'000;
  EXPECT_TRUE(ReadBenchOptions(arguments).ok());
}

TEST(BenchOptions, ReadsWhatIsGiven) {
  BenchArguments arguments;
  arguments.shape = "2x16x32";
  arguments.links = "off,2.5mbit";
  arguments.rtt = "40ms";
  arguments.schedules = "zero-bubble,1f1b";
  arguments.weight_ms = 0;
  const auto options = ReadBenchOptions(arguments);
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->rows, 2u);
  EXPECT_EQ(options->tokens, 16u);
  EXPECT_EQ(options->hidden, 32u);
  EXPECT_EQ(options->links[0].value, 0u);
  EXPECT_EQ(options->links[1].value, 2'500'000u);
  EXPECT_EQ(options->rtt, std::chrono::milliseconds(40));
  EXPECT_EQ(options->schedules.size(), 2u);
  EXPECT_EQ(options->weight_ms, 0);
}

TEST(BenchOptions, MistakesNameTheOption) {
  using Change = void (*)(BenchArguments*);
  const std::pair<Change, const char*> mistakes[] = {
      {[](BenchArguments* a) { a->shape = "1x2"; }, "--shape"},
      {[](BenchArguments* a) { a->shape = "0x2x2"; }, "--shape"},
      {[](BenchArguments* a) { a->shape = "4000000000x60000x4000000000"; }, "--shape"},
      {[](BenchArguments* a) { a->links = "fast"; }, "--links"},
      {[](BenchArguments* a) { a->codecs = "raw"; }, "--codecs"},
      {[](BenchArguments* a) { a->schedules = "gpipe"; }, "--schedules"},
      {[](BenchArguments* a) { a->rtt = "40"; }, "--rtt"},
      {[](BenchArguments* a) { a->rtt = "11s"; }, "--rtt"},
      {[](BenchArguments* a) { a->weight_ms = 200; }, "--weight-ms"},
      {[](BenchArguments* a) { a->weight_parts = 0; }, "--weight-parts"},
      {[](BenchArguments* a) { a->weight_parts = 1025; }, "--weight-parts"},
      {[](BenchArguments* a) { a->forward_ms = -1; }, "--forward-ms"},
      {[](BenchArguments* a) { a->stages = 0; }, "--stages"},
      {[](BenchArguments* a) { a->steps = 0; }, "--steps"},
      {[](BenchArguments* a) { a->epoch_steps = 5; }, "--epoch-steps"},
      {[](BenchArguments* a) { a->change = 1.5; }, "--change"},
      {[](BenchArguments* a) { a->change_decay = -0.1; }, "--change-decay"},
  };
  for (const auto& [change, option] : mistakes) {
    BenchArguments arguments;
    change(&arguments);
    const auto options = ReadBenchOptions(arguments);
    EXPECT_EQ(options.status().code(), StatusCode::kInvalidArgument) << option;
    EXPECT_NE(options.status().message().find(option), std::string::npos)
        << options.status().message();
  }
}

}  // namespace
}  // namespace shoal::bench
