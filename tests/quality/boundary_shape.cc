#include "tests/quality/boundary_shape.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/status.h"

namespace shoal::quality {
namespace {

// The value that a share of `values` lies below.
double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

double LargestOverMedian(const std::vector<double>& squares) {
  const double median = Quantile(squares, 0.5);
  if (median == 0) return 0;
  return std::sqrt(*std::max_element(squares.begin(), squares.end()) / median);
}

}  // namespace

BoundaryShape ShapeOf(std::span<const float> x, std::span<const float> before, std::size_t hidden) {
  SHOAL_CHECK(hidden > 0 && x.size() % hidden == 0);
  SHOAL_CHECK(before.empty() || before.size() == x.size());
  std::vector<double> channels(hidden), tokens(x.size() / hidden), changes(tokens.size());
  double fourth = 0, second = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double square = double{x[i]} * x[i];
    second += square;
    fourth += square * square;
    channels[i % hidden] += square;
    tokens[i / hidden] += square;
    if (before.empty()) continue;
    const double change = double{x[i]} - before[i];
    changes[i / hidden] += change * change;
  }
  BoundaryShape shape;
  if (second == 0) return shape;
  shape.kurtosis = fourth * static_cast<double>(x.size()) / (second * second);
  shape.channel_ratio = LargestOverMedian(channels);
  shape.token_ratio = LargestOverMedian(tokens);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    changes[t] = tokens[t] == 0 ? 0 : std::sqrt(changes[t] / tokens[t]);
  }
  shape.change_median = Quantile(changes, 0.5);
  shape.change_p90 = Quantile(changes, 0.9);
  return shape;
}

}  // namespace shoal::quality
