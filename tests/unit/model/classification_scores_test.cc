#include "model/classification_scores.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

namespace shoal::model {
namespace {

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // label, prediction

ClassificationScores ScoresOf(std::uint32_t classes, const Pairs& pairs) {
  ClassificationScores scores(classes);
  for (const auto& [label, prediction] : pairs) scores.Add(label, prediction);
  return scores;
}

Pairs Repeat(std::uint32_t label, std::uint32_t prediction, std::size_t times) {
  return Pairs(times, {label, prediction});
}

// 6 true positives, 3 true negatives, 1 false positive, 2 false negatives:
// (6 * 3 - 1 * 2) / sqrt(7 * 8 * 4 * 5) = 16 / sqrt(1120).
TEST(ClassificationScores, TwoClassesByHand) {
  Pairs pairs = Repeat(1, 1, 6);
  for (const Pairs& more : {Repeat(0, 0, 3), Repeat(0, 1, 1), Repeat(1, 0, 2)}) {
    pairs.insert(pairs.end(), more.begin(), more.end());
  }
  const ClassificationScores scores = ScoresOf(2, pairs);
  EXPECT_EQ(scores.rows(), 12U);
  EXPECT_DOUBLE_EQ(scores.Accuracy(), 9.0 / 12);
  EXPECT_NEAR(scores.MatthewsCorrelation(), 16 / std::sqrt(1120.0), 1e-12);
}

// Labels 0 0 1 1 2 2, predictions 0 1 1 1 2 0: 4 right of 6, counts of labels 2 2 2 and of
// predictions 2 3 1: (4 * 6 - 12) / sqrt((36 - 14) * (36 - 12)) = 12 / sqrt(528).
TEST(ClassificationScores, ThreeClassesByHand) {
  const ClassificationScores scores = ScoresOf(3, {{0, 0}, {0, 1}, {1, 1}, {1, 1}, {2, 2}, {2, 0}});
  EXPECT_DOUBLE_EQ(scores.Accuracy(), 4.0 / 6);
  EXPECT_NEAR(scores.MatthewsCorrelation(), 12 / std::sqrt(528.0), 1e-12);
}

TEST(ClassificationScores, EndsOfTheScale) {
  EXPECT_EQ(ClassificationScores(2).Accuracy(), 0);
  EXPECT_EQ(ClassificationScores(2).MatthewsCorrelation(), 0);
  EXPECT_NEAR(ScoresOf(2, {{0, 0}, {1, 1}, {1, 1}}).MatthewsCorrelation(), 1, 1e-12);
  EXPECT_NEAR(ScoresOf(2, {{0, 1}, {1, 0}, {1, 0}}).MatthewsCorrelation(), -1, 1e-12);
  // One class for all: right three times of four, and worth nothing.
  const ClassificationScores lazy = ScoresOf(2, {{1, 1}, {1, 1}, {0, 1}, {1, 1}});
  EXPECT_DOUBLE_EQ(lazy.Accuracy(), 0.75);
  EXPECT_EQ(lazy.MatthewsCorrelation(), 0);
}

// With two classes it is Pearson's correlation of the two columns.
TEST(ClassificationScores, TwoClassesArePearsonsCorrelation) {
  std::mt19937 random(4);
  Pairs pairs;
  double n = 0, x = 0, y = 0, xy = 0;
  for (int i = 0; i < 500; ++i) {
    const std::uint32_t label = random() % 3 == 0 ? 0 : 1;
    const std::uint32_t prediction = random() % 4 == 0 ? 1 - label : label;
    pairs.emplace_back(label, prediction);
    n += 1, x += label, y += prediction, xy += label * prediction;
  }
  const double wanted = (n * xy - x * y) / std::sqrt((n * x - x * x) * (n * y - y * y));
  EXPECT_NEAR(ScoresOf(2, pairs).MatthewsCorrelation(), wanted, 1e-12);
}

TEST(ClassificationScores, CrossEntropyAndPrediction) {
  const std::array<float, 3> logits = {0, std::log(3.0F), 0};
  EXPECT_NEAR(CrossEntropy(logits, 1), std::log(5.0 / 3), 1e-6);
  EXPECT_NEAR(CrossEntropy(logits, 2), std::log(5.0), 1e-6);
  EXPECT_EQ(Prediction(logits), 1U);
  EXPECT_EQ(Prediction(std::array<float, 2>{2, 2}), 0U);
  const std::array<float, 2> large = {1000, 0};
  EXPECT_NEAR(CrossEntropy(large, 0), 0, 1e-12);
  EXPECT_NEAR(CrossEntropy(large, 1), 1000, 1e-9);
}

}  // namespace
}  // namespace shoal::model
