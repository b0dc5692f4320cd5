// The quality bench on a made-up text: a few steps of two blocks, so that its figures are trusted.

#include "tests/quality/experiment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "common/file.h"
#include "tests/support/temporary_folder.h"

namespace shoal::quality {
namespace {

constexpr std::uint64_t kRows = 32;  // two steps an epoch
constexpr std::uint64_t kValues = kRows * 128 * 128;

// Words of a small vocabulary, so that there is something to learn.
std::string MadeUpText(std::size_t bytes) {
  std::mt19937 random(5);
  std::string text;
  while (text.size() < bytes)
    text += "the cat sat on a mat. " + std::to_string(random() % 50) + " ";
  text.resize(bytes);
  return text;
}

class ExperimentTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test_support::TemporaryFolder;
    for (const auto& [name, bytes] : {std::pair("/wiki", 1 << 20), std::pair("/valid", 1 << 20),
                                      std::pair("/plays", 1115394)}) {
      ASSERT_TRUE(
          WriteFileAtomic(folder_->path() + name, MadeUpText(static_cast<std::size_t>(bytes)))
              .ok());
    }
    const auto base = TrainBase(Base("/model", 20));
    ASSERT_TRUE(base.ok()) << base.status().ToString();
    EXPECT_LT(base->shakespeare_loss, 5.0) << "nothing was learned: ln 256 is 5.55";
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static BaseSpec Base(const std::string& folder, std::uint64_t first_steps) {
    BaseSpec spec;
    spec.model.layers = 2;
    spec.wikitext = folder_->path() + "/wiki";
    spec.wikitext_validation = folder_->path() + "/valid";
    spec.shakespeare = folder_->path() + "/plays";
    spec.first_steps = first_steps;
    spec.second_steps = 2;
    spec.first_warmup = 2;
    spec.folder = folder_->path() + folder;
    return spec;
  }
  static RowSpec Spec(const std::string& forward, const std::string& backward) {
    RowSpec spec;
    spec.model.layers = 2;
    spec.stages = 2;
    spec.weights = folder_->path() + "/model/base";
    spec.shakespeare = folder_->path() + "/plays";
    spec.forward = forward;
    spec.backward = backward;
    spec.rows = kRows;
    spec.held_out_rows = 16;
    spec.epochs = 3;
    return spec;
  }
  static RowFigures Train(const RowSpec& spec) {
    const auto figures = TrainRow(spec);
    EXPECT_TRUE(figures.ok()) << figures.status().ToString();
    return figures.ok() ? *figures : RowFigures{};
  }
  static double Bits(std::uint64_t bytes) { return 8.0 * static_cast<double>(bytes) / kValues; }

  static test_support::TemporaryFolder* folder_;
};
test_support::TemporaryFolder* ExperimentTest::folder_ = nullptr;

TEST_F(ExperimentTest, APipelineWithoutCompressionIsTheModelInOnePiece) {
  RowSpec spec = Spec("raw:dtype=fp32", "raw:dtype=fp32");
  const RowFigures two = Train(spec);
  spec.stages = 1;
  const RowFigures one = Train(spec);
  ASSERT_EQ(two.epochs.size(), 3u);
  ASSERT_EQ(one.epochs.size(), 3u);
  EXPECT_NEAR(two.held_out_before, one.held_out_before, 1e-5);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(two.epochs[i].train_loss, one.epochs[i].train_loss, 1e-5);
    EXPECT_NEAR(two.epochs[i].held_out_loss, one.epochs[i].held_out_loss, 1e-5);
    EXPECT_EQ(two.epochs[i].values, kValues);
    EXPECT_EQ(one.epochs[i].values, 0u);
    EXPECT_NEAR(Bits(two.epochs[i].forward_bytes), 32.1, 0.1);
    EXPECT_NEAR(Bits(two.epochs[i].backward_bytes), 32.1, 0.1);
  }
  EXPECT_LT(two.epochs[2].held_out_loss, two.held_out_before);
}

TEST_F(ExperimentTest, EqualSpecsGiveEqualFiguresAndTheSeedOrdersTheSamples) {
  RowSpec spec = Spec("direct:bits=4", "direct:bits=8");
  const RowFigures first = Train(spec), second = Train(spec);
  spec.seed = 2;
  const RowFigures other = Train(spec);
  ASSERT_EQ(other.epochs.size(), 3u);
  EXPECT_EQ(first.epochs[2].train_loss, second.epochs[2].train_loss);
  EXPECT_EQ(first.epochs[2].held_out_loss, second.epochs[2].held_out_loss);
  EXPECT_EQ(first.held_out_before, other.held_out_before);
  EXPECT_NE(first.epochs[2].train_loss, other.epochs[2].train_loss);
  EXPECT_FALSE(first.epochs[2].delta_norm.has_value());
  EXPECT_GT(first.epochs[2].received_error.value_or(0), 0.01);
}

TEST_F(ExperimentTest, TheFirstEpochsGradientCodecLeavesMWhereItIs) {
  RowSpec spec = Spec("aqsgd:bits=3,first_visit=raw:dtype=fp32", "direct:bits=6");
  spec.first_epoch_backward = "raw:dtype=fp32";
  const RowFigures figures = Train(spec);
  ASSERT_EQ(figures.epochs.size(), 3u);
  EXPECT_EQ(figures.mismatches, 0u);
  EXPECT_EQ(figures.resends, 0u);
  // Each end counts: one boundary, two ends.
  EXPECT_EQ(figures.first_visits, 2 * kRows);
  EXPECT_EQ(figures.delta_hits, 2 * 2 * kRows);
  EXPECT_NEAR(Bits(figures.epochs[0].forward_bytes), 32.1, 0.1);
  EXPECT_NEAR(Bits(figures.epochs[0].backward_bytes), 32.1, 0.1);
  EXPECT_EQ(figures.epochs[0].gradient_error.value_or(1), 0);
  EXPECT_FALSE(figures.epochs[0].delta_norm.has_value());
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_NEAR(Bits(figures.epochs[i].forward_bytes), 3.2, 0.1);
    EXPECT_NEAR(Bits(figures.epochs[i].backward_bytes), 6.2, 0.1);
    const double delta = figures.epochs[i].delta_norm.value_or(0);
    EXPECT_GT(delta, 0.0);
    EXPECT_LT(figures.epochs[i].received_error.value_or(1), 0.5 * delta);
    EXPECT_GT(figures.epochs[i].gradient_error.value_or(0), 0.01);
  }
}

// The first epoch is the rate's warm-up: 16 steps here, and an eighth of the run would be fewer.
TEST_F(ExperimentTest, VarianceIsFrozenAfterTheWarmUpAsInARun) {
  RowSpec spec = Spec("raw:dtype=fp32", "raw:dtype=fp32");
  spec.rows = 256;
  spec.epochs = 1;
  spec.pipelines = 2;
  spec.stages = 1;
  spec.replica = "qadam:bits=4";
  const RowFigures automatic = Train(spec);
  spec.replica = "qadam:bits=4,start=16";
  const RowFigures told = Train(spec);
  ASSERT_EQ(automatic.epochs.size(), 1u);
  ASSERT_EQ(told.epochs.size(), 1u);
  EXPECT_EQ(automatic.epochs[0].train_loss, told.epochs[0].train_loss);
  EXPECT_EQ(automatic.epochs[0].replica_bytes, told.epochs[0].replica_bytes);
}

// The first phase ends, but cannot be saved: what is kept of it is taken up by a longer one.
TEST_F(ExperimentTest, ABaseThatWasStoppedGoesOnWhereItWas) {
  const auto straight = TrainBase(Base("/straight", 4));
  ASSERT_TRUE(straight.ok()) << straight.status().ToString();
  BaseSpec spec = Base("/stopped", 2);
  spec.save_every = 1;
  ASSERT_TRUE(MakeDirectories(spec.folder).ok());
  ASSERT_TRUE(WriteFileAtomic(spec.folder + "/wikitext", "in the way").ok());
  ASSERT_FALSE(TrainBase(spec).ok());
  EXPECT_TRUE(std::filesystem::exists(spec.folder + "/unfinished/step-2"));
  EXPECT_FALSE(std::filesystem::exists(spec.folder + "/unfinished/step-1"));
  std::filesystem::remove(spec.folder + "/wikitext");
  spec.first_steps = 4;
  const auto resumed = TrainBase(spec);
  ASSERT_TRUE(resumed.ok()) << resumed.status().ToString();
  EXPECT_EQ(resumed->wikitext_loss, straight->wikitext_loss);
  EXPECT_EQ(resumed->shakespeare_loss, straight->shakespeare_loss);
  EXPECT_FALSE(std::filesystem::exists(spec.folder + "/unfinished"));
}

// Entries of a GPT-2 vocabulary: printable Latin-1 stands for itself, other bytes for U+0100 on.
std::string ByteTokens() {
  std::string entries;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    const int code = printable ? byte : next++;
    std::string name(1, static_cast<char>(code));
    if (code >= 0x80) {
      name = {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
    }
    if (name == "\"" || name == "\\") name = "\\" + name;
    entries += "\"" + name + "\": " + std::to_string(byte) + ", ";
  }
  return entries;
}

TEST_F(ExperimentTest, AWiderModelOverABpeTrains) {
  const std::string data = folder_->path() + "/bpe";
  ASSERT_TRUE(MakeDirectories(data).ok());
  const std::string vocabulary =
      "{" + ByteTokens() + "\"at\": 256, \"\xc4\xa0" + "c\": 257}";  // "\u0120" is a space
  ASSERT_TRUE(WriteFileAtomic(data + "/vocab.json", vocabulary).ok());
  ASSERT_TRUE(WriteFileAtomic(data + "/merges.txt", "#version: 0.2\na t\n\xc4\xa0 c\n").ok());
  BaseSpec base = Base("/wide", 4);
  base.model = {.layers = 2, .hidden = 192, .heads = 3, .tokenizer = data, .threads = 1};
  base.second_steps = 0;
  const auto trained = TrainBase(base);
  ASSERT_TRUE(trained.ok()) << trained.status().ToString();
  EXPECT_LT(trained->shakespeare_loss, std::log(258));
  RowSpec row = Spec("direct:bits=4", "direct:bits=8");
  row.model = base.model;
  row.weights = base.folder + "/base";
  row.epochs = 1;
  row.held_out_rows = 128;  // as of a base
  const RowFigures figures = Train(row);
  ASSERT_EQ(figures.epochs.size(), 1u);
  EXPECT_EQ(figures.epochs[0].values, kRows * 128 * 192);
  EXPECT_NEAR(figures.held_out_before, trained->shakespeare_loss, 1e-5);
  // Processors without bf16 are slow at it: one step, two rows held out.
  row.rows = 16;
  row.held_out_rows = 2;
  const RowFigures full = Train(row);
  row.compute = "bf16";
  const RowFigures half = Train(row);
  ASSERT_EQ(full.epochs.size(), 1u);
  ASSERT_EQ(half.epochs.size(), 1u);
  EXPECT_NE(half.epochs[0].train_loss, full.epochs[0].train_loss);
  EXPECT_NEAR(half.epochs[0].train_loss, full.epochs[0].train_loss, 0.05);
}

TEST_F(ExperimentTest, WhatCannotBeMadeIsSaid) {
  const auto codec = TrainRow(Spec("direct:bits=99", "raw:dtype=fp32"));
  ASSERT_FALSE(codec.ok());
  EXPECT_NE(codec.status().message().find("bits=99"), std::string::npos);
  RowSpec spec = Spec("raw:dtype=fp32", "raw:dtype=fp32");
  spec.shakespeare = spec.weights + "/nowhere";
  EXPECT_FALSE(TrainRow(spec).ok());
}

}  // namespace
}  // namespace shoal::quality
