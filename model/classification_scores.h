// How well a classifier does: accuracy, and Matthews' correlation of labels and predictions.
//
// The correlation is Gorodkin's ("Comparing two K-category assignments by a K-category correlation
// coefficient", 2004), with two classes Matthews' own (1975). It is 1 where all is right, and about
// 0 for guesses, however unequal the classes are. Thread: any one at a time.

#ifndef SHOAL_MODEL_CLASSIFICATION_SCORES_H_
#define SHOAL_MODEL_CLASSIFICATION_SCORES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace shoal::model {

class ClassificationScores {
 public:
  explicit ClassificationScores(std::uint32_t classes) : labels_(classes), predictions_(classes) {}

  // Both below the number of classes.
  void Add(std::uint32_t label, std::uint32_t prediction);

  std::uint64_t rows() const { return rows_; }
  double Accuracy() const;  // 0 without rows
  // 0 where all labels, or all predictions, are one class.
  double MatthewsCorrelation() const;

 private:
  std::uint64_t rows_ = 0, right_ = 0;
  std::vector<std::uint64_t> labels_, predictions_;  // rows by class
};

// -log of the probability that softmax of `logits` gives `label`, in fp64.
double CrossEntropy(std::span<const float> logits, std::uint32_t label);
// The class with the largest score, the first of equals.
std::uint32_t Prediction(std::span<const float> logits);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_CLASSIFICATION_SCORES_H_
