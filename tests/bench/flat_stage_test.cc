#include "tests/bench/flat_stage.h"

#include "tests/unit/model/stage_model_contract.h"

namespace shoal::model {
namespace {

constexpr std::size_t kValues = 6 * 4 + 5;

std::unique_ptr<bench::FlatStage> NewFlatStage(StageRange range) {
  Buffer gradients(kValues * sizeof(float));
  for (std::size_t i = 0; i < kValues; ++i) gradients.floats()[i] = static_cast<float>(i + 1);
  StageOptions options;
  options.range = range;
  return std::make_unique<bench::FlatStage>(
      std::make_shared<const Buffer>(std::move(gradients)),
      std::vector<TensorLayout>{{"matrix", 0, 24, {6, 4}}, {"vector", 24, 5, {5}}}, options);
}

class FlatRig final : public StageRig {
 public:
  std::unique_ptr<StageModel> Make(StageRange range) override { return NewFlatStage(range); }
  std::uint32_t vocabulary() override { return 1; }
};

INSTANTIATE_TEST_SUITE_P(Flat, StageStateContract,
                         testing::Values(+[]() -> std::unique_ptr<StageRig> {
                           return std::make_unique<FlatRig>();
                         }));

TEST(FlatStageTest, EveryStepHasTheGivenGradientsUntilTheyAreWritten) {
  const auto stage = NewFlatStage({0, 4});
  std::vector<float> values(kValues), part = {-1, -2};
  for (int step = 0; step < 2; ++step) {
    stage->GiveGradients();
    ASSERT_TRUE(stage->Write(StateVector::kGradients, 23, part).ok());  // of both tensors
    ASSERT_TRUE(stage->Read(StateVector::kGradients, 0, values).ok());
    for (std::size_t i = 0; i < kValues; ++i) {
      const float given = static_cast<float>(i + 1);
      EXPECT_EQ(values[i], i == 23 ? -1 : i == 24 ? -2 : given) << i;
    }
    ASSERT_TRUE(stage->Apply(0, 1, 1, 1).ok());
    ASSERT_TRUE(stage->Read(StateVector::kGradients, 0, values).ok());
    EXPECT_EQ(values, std::vector<float>(kValues));
  }
}

}  // namespace
}  // namespace shoal::model
