// Values of a slow reference, in double, beside tensors of the code under test.

#ifndef SHOAL_TESTS_UNIT_MODEL_REFERENCE_VALUES_H_
#define SHOAL_TESTS_UNIT_MODEL_REFERENCE_VALUES_H_

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "tests/unit/model/test_device.h"

namespace shoal::model {

inline at::Tensor ToTensor(const std::vector<double>& values, at::IntArrayRef shape,
                           at::ScalarType dtype = at::kFloat) {
  std::vector<float> single(values.begin(), values.end());
  return at::from_blob(single.data(), shape, at::kFloat)
      .clone()
      .to(at::Device(TestDevice()), dtype);
}

// The largest difference over the largest value that is wanted.
inline double LargestDifference(const at::Tensor& tensor, const std::vector<double>& wanted) {
  const at::Tensor flat = tensor.to(at::kCPU, at::kFloat).contiguous();
  EXPECT_EQ(static_cast<std::size_t>(flat.numel()), wanted.size());
  const float* value = flat.const_data_ptr<float>();
  double most = 0, largest = 0;
  for (const double one : wanted) {
    most = std::max(most, std::abs(one - *value++));
    largest = std::max(largest, std::abs(one));
  }
  return largest > 0 ? most / largest : most;
}

}  // namespace shoal::model

#endif  // SHOAL_TESTS_UNIT_MODEL_REFERENCE_VALUES_H_
