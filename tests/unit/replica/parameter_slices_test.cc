#include "replica/parameter_slices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "optimizer/adamw.h"

namespace shoal::replica {
namespace {

std::vector<model::TensorLayout> Tensors(const std::vector<std::size_t>& sizes) {
  std::vector<model::TensorLayout> tensors;
  std::size_t offset = 0;
  for (const std::size_t size : sizes) {
    model::TensorLayout tensor;
    tensor.offset = offset;
    tensor.size = size;
    tensors.push_back(std::move(tensor));
    offset += size;
  }
  return tensors;
}

const std::vector<std::size_t> kSizes = {3,   5 * kSliceValues + 7, 0, 100, kSliceValues,
                                         100, kSliceValues - 1,     1};

TEST(PartSlicesTest, SlicesCoverEveryTensorOnce) {
  const auto tensors = Tensors(kSizes);
  std::vector<int> seen(tensors.back().offset + tensors.back().size);
  const auto sums = ForSlices(nullptr, "work", tensors, [&](const TensorSlice& slice) {
    const model::TensorLayout& tensor = tensors[slice.tensor];
    EXPECT_GE(slice.first, tensor.offset);
    EXPECT_LE(slice.first + slice.values, tensor.offset + tensor.size);
    EXPECT_LE(slice.values, kSliceValues);
    for (std::size_t i = 0; i < slice.values; ++i) ++seen[slice.first + i];
    return static_cast<double>(slice.values);
  });
  for (const int times : seen) ASSERT_EQ(times, 1);
  for (std::size_t i = 0; i < kSizes.size(); ++i) EXPECT_EQ(sums[i], kSizes[i]);
}

// What marsit does around its exchange, with any number of threads.
TEST(PartSlicesTest, BitsDoNotDependOnTheNumberOfThreads) {
  const auto tensors = Tensors(kSizes);
  const std::size_t values = tensors.back().offset + tensors.back().size;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> gradient(values), variance(values);
  for (float& value : gradient) value = normal(random);
  for (float& value : variance) value = std::abs(normal(random));
  optimizer::AdamWOptions options;
  options.learning_rate = 1e-3;
  const optimizer::AdamWStep step = optimizer::MakeFrozenStep(options, 100);
  const auto run = [&](Executor* helpers) {
    std::vector<float> momentum(values, 0.1F), direction(values);
    auto sums = ForSlices(helpers, "work", tensors, [&](const TensorSlice& slice) {
      const auto of = [&slice](std::vector<float>& all) {
        return std::span(all).subspan(slice.first, slice.values);
      };
      optimizer::FoldMomentum(step, of(gradient), of(momentum));
      optimizer::AdamDirection(step, of(momentum), of(variance), of(direction));
      return optimizer::SumOfSquares(of(direction));
    });
    return std::tuple(std::move(momentum), std::move(direction), std::move(sums));
  };
  const auto alone = run(nullptr);
  for (const int threads : {1, 4}) {
    const auto pool = NewThreadPool("helper", threads);
    EXPECT_EQ(run(pool.get()), alone) << threads << " threads";
  }
}

}  // namespace
}  // namespace shoal::replica
