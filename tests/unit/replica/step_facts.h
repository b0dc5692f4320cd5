// What a step of a stage group brings, drawn at random.

#ifndef SHOAL_TESTS_UNIT_REPLICA_STEP_FACTS_H_
#define SHOAL_TESTS_UNIT_REPLICA_STEP_FACTS_H_

#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "replica/step_types.h"

namespace shoal::replica {

using Values = std::vector<float>;

inline constexpr double kClip = 3;

// What a step brings, by member and by pipeline.
struct StepFacts {
  std::uint64_t step = 0;
  std::vector<Values> gradients;
  std::vector<std::uint64_t> labels;
  std::vector<std::uint32_t> counted;
  std::vector<double> norms;  // of the gradients of the token mean
};

struct GroupShape {
  std::uint32_t pipelines = 3, ends = 1;
  std::uint64_t values_min = 1;
  std::uint64_t generation = 0;
};

// Gradients of about `scale` times their number of labels.
inline StepFacts MakeStep(const GroupShape& shape, std::uint64_t step, std::size_t values,
                          double scale, const std::vector<std::uint64_t>& labels) {
  StepFacts facts;
  facts.step = step;
  facts.labels = labels;
  std::mt19937 random(static_cast<unsigned>(1000 + step));
  std::normal_distribution<float> normal(0.1F, 1);
  for (std::uint32_t r = 0; r < shape.pipelines * shape.ends; ++r) {
    const double times =
        scale * static_cast<double>(labels[r % shape.pipelines]) / std::sqrt(values);
    Values gradient(values);
    for (float& value : gradient) value = normal(random) * static_cast<float>(times);
    facts.gradients.push_back(std::move(gradient));
  }
  for (std::uint32_t p = 0; p < shape.pipelines; ++p) {
    double squares = 0;
    for (std::uint32_t end = 0; end < shape.ends; ++end) {
      for (const double value : facts.gradients[end * shape.pipelines + p]) {
        squares += value * value;
      }
    }
    facts.norms.push_back(std::sqrt(squares) / static_cast<double>(labels[p]));
    facts.counted.push_back(p);
  }
  return facts;
}

inline ReduceOrder OrderOf(const StepFacts& facts) {
  ReduceOrder order;
  order.step = facts.step;
  order.pipelines = facts.counted;
  for (const std::uint32_t p : facts.counted) order.labels += facts.labels[p];
  order.learning_rate = 1e-3;
  order.local_norms = facts.norms;
  order.local_labels = facts.labels;
  return order;
}

}  // namespace shoal::replica

#endif  // SHOAL_TESTS_UNIT_REPLICA_STEP_FACTS_H_
