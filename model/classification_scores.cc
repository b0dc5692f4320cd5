#include "model/classification_scores.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/status.h"

namespace shoal::model {

void ClassificationScores::Add(std::uint32_t label, std::uint32_t prediction) {
  SHOAL_CHECK(label < labels_.size() && prediction < predictions_.size());
  ++rows_;
  if (label == prediction) ++right_;
  ++labels_[label];
  ++predictions_[prediction];
}

double ClassificationScores::Accuracy() const {
  return rows_ == 0 ? 0 : static_cast<double>(right_) / static_cast<double>(rows_);
}

double ClassificationScores::MatthewsCorrelation() const {
  const auto rows = static_cast<double>(rows_);
  double both = 0, of_labels = 0, of_predictions = 0;
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    const auto label = static_cast<double>(labels_[i]);
    const auto prediction = static_cast<double>(predictions_[i]);
    both += label * prediction;
    of_labels += label * label;
    of_predictions += prediction * prediction;
  }
  const double spread = (rows * rows - of_labels) * (rows * rows - of_predictions);
  if (spread <= 0) return 0;
  return (static_cast<double>(right_) * rows - both) / std::sqrt(spread);
}

double CrossEntropy(std::span<const float> logits, std::uint32_t label) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return std::log(sum) + largest - logits[label];
}

std::uint32_t Prediction(std::span<const float> logits) {
  return static_cast<std::uint32_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace shoal::model
