#include "model/flat_parameters.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "model/families/open_model.h"

namespace shoal::model {
namespace {

ModelSpec MiniSpec() {
  return OpenModel(std::string(std::getenv("SHOAL_TEST_DATA")) + "/gpt2_mini_random").value().spec;
}

TEST(FlatParameters, LiesInOrderOfPartsWithoutGaps) {
  const FlatParameters parameters(MiniSpec(), {1, 4}, "cpu", false);
  std::size_t offset = 0;
  for (const ParameterEntry& entry : parameters.entries()) {
    EXPECT_EQ(entry.offset, offset) << entry.name;
    EXPECT_EQ(entry.decay, entry.shape.size() == 2) << entry.name;
    offset += entry.size;
  }
  EXPECT_EQ(parameters.size(), offset);
  ASSERT_EQ(parameters.parts().size(), 4u);
  EXPECT_EQ(parameters.parts().front().name, "layer.1");
  EXPECT_EQ(parameters.parts().back().name, "head");
}

TEST(FlatParameters, ATiedEmbeddingIsOneTensorWhereBothEndsAre) {
  const FlatParameters whole(MiniSpec(), {0, 4}, "cpu", false);
  const FlatParameters first(MiniSpec(), {0, 2}, "cpu", false);
  const FlatParameters last(MiniSpec(), {2, 4}, "cpu", false);
  EXPECT_EQ(whole.size() + std::size_t{512} * 32, first.size() + last.size());
}

TEST(FlatParameters, FusedUpdateEqualsTensorOperationsToTheBit) {
  // The tensor operations are what a CUDA device runs.
  FlatParameters fused(MiniSpec(), {0, 2}, "cpu", false);
  FlatParameters apart(MiniSpec(), {0, 2}, "cpu", false);
  FlatParameters sliced(MiniSpec(), {0, 2}, "cpu", false);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> gradients(fused.size());
  for (std::uint64_t step = 0; step < 20; ++step) {
    for (float& gradient : gradients) gradient = normal(random) * 1e-3f;
    const optimizer::AdamWOptions options{0.9, 0.999, 1e-8, 0.1, 1e-2, 0.3, step};
    fused.Write(StateVector::kGradients, 0, gradients);
    apart.Write(StateVector::kGradients, 0, gradients);
    sliced.Write(StateVector::kGradients, 0, gradients);
    fused.Apply(options);
    apart.Apply(options, /*fused=*/false);
    sliced.Apply(options, /*fused=*/false, /*slice_values=*/37);
    ASSERT_EQ(fused.WeightChecksum(), apart.WeightChecksum()) << "step " << step;
    ASSERT_EQ(fused.WeightChecksum(), sliced.WeightChecksum()) << "step " << step;
  }
}

}  // namespace
}  // namespace shoal::model
