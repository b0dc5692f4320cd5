#include "replica/replica_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/tiny_stage.h"

namespace shoal::replica {
namespace {

using model::StateVector;
using Values = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void SetGradient(test_support::TinyStage* model, std::size_t at, float value) {
  ASSERT_TRUE(model->Write(StateVector::kGradients, at, Values{value}).ok());
}

// The model keeps what it has: only what is read of it is zeros.
TEST(ReadGradients, ALostOneIsZerosInItsPartOnlyAndTheMarkStays) {
  test_support::TinyStage model({}, model::StageRange{0, 4}, 5);
  const std::vector<model::TensorLayout> layout(model.layout().begin(), model.layout().end());
  const Values ones(model.state_size(), 1.0F);
  ASSERT_TRUE(model.Write(StateVector::kGradients, 0, ones).ok());
  SetGradient(&model, layout[1].offset, kNan);
  GradientMark all;
  for (std::size_t entry = 0; entry < layout.size(); ++entry) {
    const auto part = MakeParameterGroup({layout[entry]}, nullptr, 1);
    GradientMark mark;
    Values values(part->values);
    ASSERT_TRUE(ReadGradients(&model, *part, values, &mark).ok());
    EXPECT_EQ(values, Values(part->values, entry == 1 ? 0.0F : 1.0F));
    EXPECT_EQ(mark.lost(), entry == 1);
    ASSERT_TRUE(ReadGradients(&model, *part, values, &all).ok());
    EXPECT_EQ(all.lost(), entry >= 1) << "until it is cleared";
  }
  Values value(1);
  ASSERT_TRUE(model.Read(StateVector::kGradients, layout[1].offset, value).ok());
  EXPECT_TRUE(std::isnan(value[0]));
  all.Clear();
  EXPECT_FALSE(all.lost());
}

TEST(ReadGradients, OneThatIsTooLargeIsLost) {
  test_support::TinyStage model({}, model::StageRange{0, 4}, 5);
  const auto part = MakeParameterGroup({model.layout().begin(), model.layout().end()}, nullptr, 1);
  Values values(part->values);
  const auto lost = [&](float value, float most) {
    GradientMark mark;
    SetGradient(&model, part->values - 1, value);
    EXPECT_TRUE(ReadGradients(&model, *part, values, &mark, most).ok());
    EXPECT_EQ(values.back(), mark.lost() ? 0 : value);
    return mark.lost();
  };
  EXPECT_FALSE(lost(-kGradientMost, kGradientMost));
  EXPECT_TRUE(lost(2 * kGradientMost, kGradientMost));
  EXPECT_FALSE(lost(8, 8));
  EXPECT_TRUE(lost(-9, 8));
}

}  // namespace
}  // namespace shoal::replica
