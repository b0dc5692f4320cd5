// What activations at a boundary look like: how far a few channels, tokens and values stand out,
// and how much each token changes between visits. Pure.

#ifndef SHOAL_TESTS_QUALITY_BOUNDARY_SHAPE_H_
#define SHOAL_TESTS_QUALITY_BOUNDARY_SHAPE_H_

#include <cstddef>
#include <span>

namespace shoal::quality {

struct BoundaryShape {
  double kurtosis = 0;       // mean x^4 / (mean x^2)^2: 3 if values are Gaussian
  double channel_ratio = 0;  // rms of the largest channel over that of the median one
  double token_ratio = 0;    // rms of the largest token over that of the median one
  // ||x - before|| / ||x|| by token; 0 where nothing was given for before.
  double change_median = 0, change_p90 = 0;
};

// `x` and `before` are tokens x hidden; `before` may be empty.
BoundaryShape ShapeOf(std::span<const float> x, std::span<const float> before, std::size_t hidden);

}  // namespace shoal::quality

#endif  // SHOAL_TESTS_QUALITY_BOUNDARY_SHAPE_H_
