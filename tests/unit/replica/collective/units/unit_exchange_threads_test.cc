// Units of parameters with the threads of a real peer: control, compute and a codec pool per
// member; owners change their shards between steps.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <vector>

#include "replica/collective/units/unit_exchange.h"
#include "tests/support/executor_group.h"
#include "tests/support/on_executor.h"

namespace shoal::collective {
namespace {

using test_support::RunOn;
using test_support::WaitUntil;

constexpr std::size_t kMembers = 3;
constexpr std::uint64_t kSteps = 20;
constexpr std::uint32_t kMicroBatches = 3;
const std::vector<UnitPiece> kPieces = {{1000, true}, {40, false}};

// Nothing in it has a lock: what may not be shared is seen by the thread sanitizer.
class PlainOwner final : public UnitOwner {
 public:
  PlainOwner() {
    for (const UnitPiece& piece : kPieces) {
      weights.emplace_back(piece.values, 0.0F);
      sums.emplace_back(piece.values, 0.0);
    }
  }
  Status Read(UnitVector, std::size_t piece, std::size_t first, std::span<float> values) override {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = weights[piece][first + i];
    return Status::Ok();
  }
  Status Add(std::size_t piece, std::size_t first, std::span<const float> gradients) override {
    for (std::size_t i = 0; i < gradients.size(); ++i) sums[piece][first + i] += gradients[i];
    return Status::Ok();
  }
  void Apply() {
    for (std::size_t piece = 0; piece < sums.size(); ++piece) {
      for (std::size_t i = 0; i < sums[piece].size(); ++i) {
        weights[piece][i] += static_cast<float>(sums[piece][i]);
        sums[piece][i] = 0;
      }
    }
  }
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<double>> sums;
};

struct Member {
  // Gathers, scatters the ones that it got plus one, and ends the step.
  void Step() {
    pulls = kMicroBatches * kPieces.size();
    Next();
  }
  void Next() {
    const std::size_t piece = pulls % kPieces.size();
    exchange->Pull(UnitVector::kWeights, piece, [this, piece](Buffer values) {
      // All weights of a step are the same number, but for what coding loses.
      const float first = values.floats()[0];
      for (const float value : values.floats()) {
        wrong += std::abs(value - first) <= 0.02F * std::abs(first) ? 0 : 1;
      }
      std::ranges::fill(values.floats(), 1.0F);
      --pulls;
      exchange->Push(static_cast<std::uint32_t>(pulls / kPieces.size()), 0, piece,
                     std::make_shared<const Buffer>(std::move(values)));
      pulls > 0 ? Next() : exchange->End();
    });
  }
  void Complete() {
    compute->Post("apply", [this] {
      owner->Apply();
      control->Post("applied", [this] {
        if (!exchange) return;
        exchange->SetStep(++step);
        ++steps_done;
        if (step < kSteps) Step();
      });
    });
  }

  std::size_t rank = 0, pulls = 0;
  std::uint64_t step = 0;
  std::atomic<std::uint64_t> steps_done = 0, wrong = 0, errors = 0;
  std::shared_ptr<PlainOwner> owner = std::make_shared<PlainOwner>();
  std::unique_ptr<UnitExchange> exchange;
  std::unique_ptr<Executor> control, compute, codec;  // the last ones post to the first
};

class Members {
 public:
  Members() {
    for (std::size_t r = 0; r < kMembers; ++r) {
      auto member = std::make_unique<Member>();
      member->rank = r;
      member->control = NewThreadExecutor("control");
      links.Add(member->control.get());
      member->compute = NewThreadExecutor("compute");
      member->codec = NewThreadPool("codec", 2);
      members.push_back(std::move(member));
    }
    UnitExchangeConfig config;
    config.weight_codec = "shifted:bits=8,bucket=16";
    config.gradient_codec = "direct:bits=8,bucket=16,levels=midtread,rounding=stochastic";
    config.row = 16;
    config.chunk_values = 64;
    for (auto& member : members) {
      RunOn(member->control.get(), [&] {
        UnitExchange::Handlers handlers;
        handlers.on_complete = [at = member.get()] { at->Complete(); };
        handlers.on_room = [] {};
        handlers.on_error = [at = member.get()](const Status&) { ++at->errors; };
        member->exchange =
            UnitExchange::Make(config, kPieces, links.member(member->rank), member->control.get(),
                               member->compute.get(), member->codec.get(), member->owner, handlers)
                .value();
        return 0;
      });
    }
    for (auto& member : members) {
      RunOn(member->control.get(), [&] { return member->exchange->SetStep(0), member->Step(), 0; });
    }
  }
  ~Members() {
    for (auto& member : members) {
      RunOn(member->control.get(), [&] { return member->exchange.reset(), 0; });
    }
    for (auto& member : members) {
      member->codec.reset();
      member->compute.reset();
    }
    for (auto& member : members) RunOn(member->control.get(), [] { return 0; });
  }
  test_support::ExecutorGroup links;
  std::vector<std::unique_ptr<Member>> members;
};

TEST(UnitExchangeThreads, AllSeeTheSameWeightsInEveryStep) {
  Members group;
  for (auto& member : group.members) {
    EXPECT_TRUE(WaitUntil(member->control.get(),
                          [&] { return member->steps_done == kSteps || member->errors > 0; }));
    EXPECT_EQ(member->errors, 0u);
    EXPECT_EQ(member->wrong, 0u);
  }
  for (auto& member : group.members) {
    const ValueRange own = RunOn(member->control.get(),
                                 [&] { return member->exchange->layout(0).shard(member->rank); });
    const float weight =
        RunOn(member->compute.get(), [&] { return member->owner->weights[0][own.begin]; });
    // Every member's ones, of every micro-batch.
    EXPECT_NEAR(weight, kSteps * kMembers * kMicroBatches,
                0.01 * kSteps * kMembers * kMicroBatches);
  }
}

TEST(UnitExchangeThreads, DestructionInTheMidstIsSafe) {
  for (std::uint64_t steps = 0; steps < 5; ++steps) {
    Members group;
    EXPECT_TRUE(WaitUntil(group.members[1]->control.get(),
                          [&] { return group.members[1]->steps_done >= steps; }));
  }
}

}  // namespace
}  // namespace shoal::collective
