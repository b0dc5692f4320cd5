#include "scheduler/history/run_audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "dataset/sampler.h"
#include "tests/unit/scheduler/history/ledger_events.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

constexpr SampleOrder kOrder{3, 61, 6, 2, 2};  // 5 steps an epoch, one row is left over

// The ledger written out: every step, every sample, every member.
struct SlowAudit {
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> counted;  // by epoch and row
  std::map<PeerId, std::uint64_t> work, thrown_away;
  std::map<std::uint64_t, std::uint64_t> step_of, pipeline_of;  // of row 17, by epoch
};

bool LacksAHost(const PlanMade& plan, std::uint32_t pipeline) {
  bool lacks = false;
  for (std::uint32_t s = 0; s < kOrder.stages; ++s) {
    lacks = lacks || plan.hosts[pipeline * kOrder.stages + s] == PeerId{};
  }
  return lacks;
}

SlowAudit Slowly(const std::vector<TimedEvent>& events) {
  struct Step {
    std::vector<PeerId> hosts;
    Homes homes;
    std::vector<std::uint32_t> pipelines;

    std::uint32_t PipelineOf(std::uint32_t micro_batch) const {  // dealing_test has it slowly
      if (homes.count == 0) return pipelines[micro_batch % pipelines.size()];
      return Deal({homes, {pipelines}}, kOrder.micro_batches)[micro_batch].pipeline;
    }
  };
  std::vector<Step> steps;
  std::vector<Step> gone;
  const PlanMade* plan = nullptr;
  std::vector<PipelinesCount> counting;
  for (const TimedEvent& timed : events) {
    if (const auto* const made = std::get_if<PlanMade>(&timed.event)) {
      plan = made;
      counting.clear();
      while (steps.size() > made->resume_step) {
        gone.push_back(steps.back());
        steps.pop_back();
      }
    }
    if (const auto* const count = std::get_if<PipelinesCount>(&timed.event)) {
      counting.push_back(*count);
    }
    const auto* const known = std::get_if<LossesKnown>(&timed.event);
    for (std::size_t i = 0; known != nullptr && i < known->losses.size(); ++i) {
      Step step{plan->hosts, plan->homes, {}};
      for (std::uint32_t p = 0; p < plan->hosts.size() / kOrder.stages; ++p) {
        if (!LacksAHost(*plan, p)) step.pipelines.push_back(p);
      }
      for (const PipelinesCount& count : counting) {
        if (count.step <= steps.size()) step.pipelines = count.pipelines;
      }
      steps.push_back(std::move(step));
    }
  }
  const auto sampler = dataset::Sampler::Make(
      {kOrder.seed, kOrder.train_rows, kOrder.micro_batches, kOrder.micro_batch_rows});
  SlowAudit audit;
  const auto work = [](const Step& step, std::map<PeerId, std::uint64_t>* of) {
    for (std::uint32_t j = 0; j < kOrder.micro_batches; ++j) {
      const std::uint32_t pipeline = step.PipelineOf(j);
      for (std::uint32_t s = 0; s < kOrder.stages; ++s) {
        ++(*of)[step.hosts[pipeline * kOrder.stages + s]];
      }
    }
  };
  for (std::size_t t = 0; t < steps.size(); ++t) {
    for (const auto& batch : sampler->Step(t)) {
      for (const SampleId sample : batch.samples) {
        ++audit.counted[{t / sampler->steps_per_epoch(), sample.value}];
        if (sample.value != 17) continue;
        audit.step_of[t / sampler->steps_per_epoch()] = t;
        audit.pipeline_of[t / sampler->steps_per_epoch()] =
            steps[t].PipelineOf(17 % kOrder.micro_batches);
      }
    }
    work(steps[t], &audit.work);
  }
  for (const Step& step : gone) work(step, &audit.thrown_away);
  return audit;
}

// A run with plans of up to four pipelines, some with gaps, of which not all count, that goes back
// now and then.
std::vector<TimedEvent> RandomLog(std::mt19937* random) {
  const auto draw = [random](std::uint32_t most) {
    return static_cast<std::uint32_t>((*random)() % (most + 1));
  };
  std::vector<TimedEvent> log = Log({RunBegan{}, kOrder});
  std::uint64_t steps = 0;
  for (std::uint64_t generation = 1; generation <= 6; ++generation) {
    steps -= std::min<std::uint64_t>(steps, draw(1) * draw(9));
    PlanMade plan{generation, steps};
    const std::uint32_t pipelines = 1 + draw(3);
    for (std::uint32_t i = 0; i < pipelines * kOrder.stages; ++i) {
      const bool gap = i >= kOrder.stages && draw(9) == 0;
      plan.hosts.push_back(gap ? PeerId{} : Host(1 + i + (generation % 2) * draw(1) * 100));
    }
    if (draw(1) == 1) {
      plan.homes = HomesOf({}, plan.hosts, kOrder.stages, pipelines + draw(3));
      std::ranges::shuffle(plan.homes.of, *random);
    }
    log.push_back({plan});
    std::uint64_t from = steps;
    for (std::uint32_t part = 0; part < 5; ++part) {
      PipelinesCount count{from = std::max(from, steps) + draw(4), {}};
      for (std::uint32_t p = 0; p < pipelines; ++p) {
        if (draw(1) == 1 && !LacksAHost(plan, p)) count.pipelines.push_back(p);
      }
      if (!count.pipelines.empty()) log.push_back({count});
      const std::uint32_t made = draw(6);
      log.push_back({Losses(steps, made)});
      steps += made;
    }
  }
  return log;
}

TEST(RunAudit, EqualsALedgerThatIsWrittenOut) {
  const auto deal = MakeSampleDeal(kOrder);
  ASSERT_TRUE(deal.ok());
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const auto log = RandomLog(&random);
    const auto ledger = ReplayLedger(log, kOrder.stages);
    ASSERT_TRUE(ledger.ok()) << ledger.status().ToString();
    const auto audit = AuditLedger(*ledger, *deal, kOrder.stages, 17);
    ASSERT_TRUE(audit.ok()) << audit.status().ToString();
    const SlowAudit slow = Slowly(log);
    EXPECT_EQ(audit->samples, slow.counted.size());
    for (const auto& [sample, count] : slow.counted) EXPECT_EQ(count, 1);
    std::map<PeerId, std::uint64_t> work, thrown_away;
    for (const MemberWork& member : audit->members) {
      if (member.counted > 0) work[member.peer] = member.counted;
      if (member.thrown_away > 0) thrown_away[member.peer] = member.thrown_away;
    }
    EXPECT_EQ(work, slow.work);
    EXPECT_EQ(thrown_away, slow.thrown_away);
    std::map<std::uint64_t, std::uint64_t> step_of, pipeline_of;
    for (const SampleVisit& visit : audit->visits) {
      step_of[visit.epoch] = visit.step;
      pipeline_of[visit.epoch] = visit.pipeline.value();
      EXPECT_EQ(visit.micro_batch, 17 % kOrder.micro_batches);
      EXPECT_LE(ledger->history[visit.steps].first, visit.step);
      EXPECT_GT(ledger->history[visit.steps].end, visit.step);
    }
    EXPECT_EQ(step_of, slow.step_of);
    EXPECT_EQ(pipeline_of, slow.pipeline_of);
  }
}

RunLedger SomeSteps(std::uint64_t steps) {
  const auto ledger =
      ReplayLedger(Log({PlanMade{1, 0, Hosts({1, 2, 3, 4})}, Losses(0, steps)}), kOrder.stages);
  EXPECT_TRUE(ledger.ok());
  return *ledger;
}

TEST(RunAudit, NamesTheSampleThatIsCountedTwiceOrNever) {
  SampleDeal deal = *MakeSampleDeal(kOrder);
  const RunLedger ledger = SomeSteps(12);
  EXPECT_TRUE(AuditLedger(ledger, deal, kOrder.stages).ok());
  const auto verdict = [&](auto change) {
    SampleDeal wrong = deal;
    wrong.of_epoch = [&](std::uint64_t epoch, std::uint32_t j) {
      auto samples = deal.of_epoch(epoch, j);
      if (epoch == 1 && j == 4) change(&samples);  // of the steps 5 to 9
      return samples;
    };
    const auto audit = AuditLedger(ledger, wrong, kOrder.stages);
    EXPECT_EQ(audit.status().code(), StatusCode::kDataLoss);
    return audit.status().message();
  };
  const auto row = std::to_string(deal.of_epoch(1, 4)[0].value);
  EXPECT_EQ(verdict([](auto* samples) { (*samples)[5] = (*samples)[0]; }),
            "sample " + row + " is counted a second time in micro-batch 4 of step 7, epoch 1");
  EXPECT_THAT(verdict([&](auto* samples) { (*samples)[2] = deal.of_epoch(1, 3)[0]; }),
              HasSubstr("a second time in micro-batch 4 of step 6"));
  EXPECT_THAT(verdict([](auto* samples) { (*samples)[8] = SampleId{61}; }),
              HasSubstr("sample 61 of micro-batch 4 of step 9, epoch 1 does not exist"));
  EXPECT_EQ(verdict([](auto* samples) { samples->resize(7); }),
            "a sample of micro-batch 4 of step 8 is never counted");
}

TEST(RunAudit, NamesTheStepOfALedgerThatIsNotWhole) {
  const SampleDeal deal = *MakeSampleDeal(kOrder);
  const auto verdict = [&](auto change) {
    RunLedger ledger = SomeSteps(4);
    ledger.history.push_back({4, 9, 0, {{}, {{0, 1}}}});
    EXPECT_TRUE(AuditLedger(ledger, deal, kOrder.stages).ok());
    change(&ledger);
    const auto audit = AuditLedger(ledger, deal, kOrder.stages);
    EXPECT_EQ(audit.status().code(), StatusCode::kDataLoss);
    return audit.status().message();
  };
  EXPECT_EQ(verdict([](RunLedger* l) { l->history[1].first = 5; }), "step 4 is missing");
  EXPECT_EQ(verdict([](RunLedger* l) { l->history[1].first = 3; }), "step 3 is counted twice");
  EXPECT_EQ(verdict([](RunLedger* l) {
              l->history[1].dealing.turns = {{0, 2}};
            }),
            "micro-batch 1 of step 4 went to no pipeline of the plan of generation 1");
  EXPECT_EQ(verdict([](RunLedger* l) { l->history[1].dealing.turns.clear(); }),
            "micro-batch 0 of step 4 went to no pipeline of the plan of generation 1");
}

TEST(RunAudit, HostsThatAreNotKnownHaveNoWork) {
  const auto ledger = ReplayLedger(Log({PlanMade{1, 0}, Losses(0, 7)}), kOrder.stages);
  const auto audit = AuditLedger(*ledger, *MakeSampleDeal(kOrder), kOrder.stages, 17);
  ASSERT_TRUE(audit.ok()) << audit.status().ToString();
  EXPECT_TRUE(audit->members.empty());
  EXPECT_EQ(audit->samples, 7u * 12);
}

TEST(RunAudit, ARunOfAMillionStepsDoesNotShuffleForEach) {
  // 125 epochs of 8000 steps: a shuffle for each step would take hours.
  const SampleOrder order{1, 128'000, 8, 2, 2};
  std::vector<TimedEvent> log = Log({PlanMade{1, 0, Hosts({1, 2, 3, 4})}});
  for (std::uint64_t step = 0; step < 1'000'000; step += 64) log.push_back({Losses(step, 64)});
  const auto ledger = ReplayLedger(log, order.stages);
  ASSERT_TRUE(ledger.ok());
  EXPECT_EQ(ledger->history.size(), 1u);
  const auto audit = AuditLedger(*ledger, *MakeSampleDeal(order), order.stages);
  ASSERT_TRUE(audit.ok());
  EXPECT_EQ(audit->samples, 16'000'000u);
  EXPECT_EQ(audit->members.at(0).counted, 4'000'000u);
}

TEST(RunAudit, AnOrderOfNothingIsAnError) {
  EXPECT_FALSE(MakeSampleDeal(SampleOrder{}).ok());
  EXPECT_FALSE(MakeSampleDeal(SampleOrder{1, 3, 2, 2, 1}).ok());
}

}  // namespace
}  // namespace shoal::scheduler
