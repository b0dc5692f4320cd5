#include "daemon/churn/step_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::daemon {
namespace {

using ::testing::HasSubstr;

constexpr dataset::SamplerOptions kSamples{7, 12, 4, 1};  // three steps are an epoch

control::v1::StepPlan PlanOf(std::uint64_t step, std::uint32_t pipelines) {
  control::v1::StepPlan plan;
  plan.set_step(step);
  for (std::uint32_t p = 0; p < pipelines; ++p) plan.add_pipelines();
  for (const auto& batch : dataset::Sampler::Make(kSamples)->Step(step)) {
    auto* planned = plan.mutable_pipelines(static_cast<int>(batch.global_index % pipelines))
                        ->add_micro_batches();
    planned->set_global_index(batch.global_index);
    for (const SampleId sample : batch.samples) planned->add_samples(sample.value);
  }
  return plan;
}

TEST(StepLedger, TakesEachStepOnceWhoeverTrainsIt) {
  auto ledger = StepLedger::Make(kSamples);
  ASSERT_TRUE(ledger.ok());
  for (std::uint64_t step = 0; step < 7; ++step) {
    EXPECT_TRUE(ledger->Applied(PlanOf(step, 1 + step % 3)).ok()) << step;
  }
  EXPECT_THAT(ledger->Applied(PlanOf(6, 2)).message(), HasSubstr("after 7 steps"));
  ledger->BackTo(2);
  for (std::uint64_t step = 2; step < 9; ++step) {
    EXPECT_TRUE(ledger->Applied(PlanOf(step, 2)).ok()) << step;
  }
  EXPECT_EQ(ledger->steps(), 9u);
}

TEST(StepLedger, FindsWhatIsMissingTwiceOrOfAnotherStep) {
  auto ledger = StepLedger::Make(kSamples);
  ASSERT_TRUE(ledger.ok());
  auto plan = PlanOf(0, 2);
  plan.mutable_pipelines(1)->mutable_micro_batches()->RemoveLast();
  EXPECT_THAT(ledger->Applied(plan).message(), HasSubstr("lacks micro-batch"));
  plan = PlanOf(0, 2);
  *plan.mutable_pipelines(0)->add_micro_batches() = plan.pipelines(1).micro_batches(0);
  EXPECT_THAT(ledger->Applied(plan).message(), HasSubstr("twice"));
  plan = PlanOf(1, 2);
  plan.set_step(0);
  EXPECT_THAT(ledger->Applied(plan).message(), HasSubstr("lacks micro-batch"));
}

}  // namespace
}  // namespace shoal::daemon
