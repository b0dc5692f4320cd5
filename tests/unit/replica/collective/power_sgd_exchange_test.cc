#include "replica/collective/power_sgd_exchange.h"

#include <gtest/gtest.h>

#include <cmath>

#include "replica/collective/power_sgd_vector.h"
#include "tests/unit/replica/collective/exchange_group.h"

namespace shoal::collective {
namespace {

const std::vector<std::vector<std::size_t>> kTensors{{5}, {24, 40}, {20, 30}};
constexpr std::size_t kValues = 5 + 960 + 600;

// An ExchangeGroup whose members have factors before their exact exchanges.
class FactorGroup : public ExchangeGroup {
 public:
  using Tensors = std::vector<std::vector<std::size_t>>;

  FactorGroup(std::size_t size, unsigned seed, const Tensors& tensors = kTensors,
              bool reuse_memory = false)
      : ExchangeGroup(size, seed, Exact(tensors)) {
    for (std::size_t r = 0; r < size; ++r) {
      PowerSgdExchangeConfig config;
      config.options.rank = 3;
      config.options.start = 2;
      config.seed = 9;
      config.generation = 1;
      config.rank = r;
      config.tensors = tensors;
      config.reuse_memory = reuse_memory;
      exchange_[r] =
          NewPowerSgdExchange(config, std::move(exchange_[r]), control_.get(), compute_[r].get());
    }
  }
  static ExchangeConfig Exact(const Tensors& tensors) {
    ExchangeConfig config;
    if (tensors != kTensors) return config;
    config.row = 16;
    config.chunk_values = 48;
    return config;
  }
  Values Step(std::uint64_t step, const std::vector<std::uint64_t>& weights,
              const std::vector<Values>& values) {
    Round(step + 1, weights, values);
    return Agreed();
  }
};

Values Sum(const std::vector<Values>& values, const std::vector<std::uint64_t>& weights) {
  Values sum(values[0].size());
  for (std::size_t r = 0; r < values.size(); ++r) {
    for (std::size_t i = 0; i < sum.size() && weights[r] != 0; ++i) sum[i] += values[r][i];
  }
  return sum;
}

double RelativeError(const Values& got, const Values& want) {
  double error = 0, all = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    all += want[i] * want[i];
  }
  return std::sqrt(error / all);
}

TEST(PowerSgdExchange, IsExactInTheWarmUpAndThenSendsFactors) {
  FactorGroup group(3, 11);
  const std::vector<std::uint64_t> weights{1, 1, 1};
  for (std::uint64_t step = 0; step < 4; ++step) {
    const std::vector<Values> values = group.RandomOfAll(kValues);
    const Values sum = group.Step(step, weights, values);
    const double error = RelativeError(sum, Sum(values, weights));
    const std::uint64_t bytes = group.exchange_[0]->traffic().sent_bytes;
    if (step < 2) {
      EXPECT_LT(error, 1e-6);
      EXPECT_GT(bytes, 2 * 2 * kValues * sizeof(float) / 3);
    } else {
      EXPECT_GT(error, 0.1);
      EXPECT_LT(bytes, kValues * sizeof(float) / 2);
    }
    group.Commit();
  }
}

// The same gradient again and again: what is not sent now is sent later, and the mean of all steps
// comes to the gradient.
TEST(PowerSgdExchange, FeedsBackWhatFactorsDidNotSay) {
  FactorGroup group(2, 12);
  const std::vector<std::uint64_t> weights{1, 1};
  const std::vector<Values> values = group.RandomOfAll(kValues);
  Values mean(kValues);
  constexpr std::uint64_t kSteps = 60;
  for (std::uint64_t step = 2; step < 2 + kSteps; ++step) {
    const Values sum = group.Step(step, weights, values);
    group.Commit();
    for (std::size_t i = 0; i < kValues; ++i) mean[i] += sum[i] / kSteps;
  }
  EXPECT_LT(RelativeError(mean, Sum(values, weights)), 0.25);
}

TEST(PowerSgdExchange, AbortedRoundsLeaveNoTraceAndARetryMayHaveAMemberLess) {
  const std::vector<std::uint64_t> all{1, 1, 1}, fewer{1, 0, 1};
  const auto history = [&](FactorGroup* group, std::vector<Values>* values) {
    for (std::uint64_t step = 2; step < 4; ++step) {
      group->Step(step, all, group->RandomOfAll(kValues));
      group->Commit();
    }
    *values = group->RandomOfAll(kValues);
  };
  std::vector<Values> values;
  FactorGroup fresh(3, 13);
  history(&fresh, &values);
  const Values expected = fresh.Step(5, fewer, values);
  for (int lost = 0; lost < 30; ++lost) {
    FactorGroup group(3, 13);
    history(&group, &values);
    int seen = 0;
    group.links_->tap = [&](test_support::MemoryGroup::Message*) { return seen++ != lost; };
    group.Round(5, all, values);
    for (auto& exchange : group.exchange_) exchange->Rollback();
    group.Drain();
    group.links_->tap = nullptr;
    EXPECT_TRUE(SameBits(group.Step(5, fewer, values), expected)) << "message " << lost;
  }
}

// Tensor after tensor on one thread, sums in rank order.
Values InOnePlace(const PowerSgdLayout& layout, std::uint64_t step,
                  const std::vector<Values>& values, std::vector<PowerSgdMemory>* memories) {
  std::vector<PowerSgdRound> rounds;
  Values first(layout.first_values()), second(layout.second_values()), decoded(layout.values());
  const auto add = [](const Buffer& part, bool is_first, Values* sum) {
    for (std::size_t i = 0; i < sum->size(); ++i) {
      (*sum)[i] = is_first ? part.floats()[i] : (*sum)[i] + part.floats()[i];
    }
  };
  for (std::size_t r = 0; r < values.size(); ++r) {
    rounds.emplace_back(layout, PowerSgdStepKey{9, 1, step});
    for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
      EXPECT_TRUE(rounds[r].Begin(t, values[r], (*memories)[r]).ok());
    }
    add(rounds[r].TakeFirst(), r == 0, &first);
  }
  for (std::size_t r = 0; r < values.size(); ++r) {
    for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
      EXPECT_TRUE(rounds[r].Continue(t, first).ok());
    }
    add(rounds[r].TakeSecond(), r == 0, &second);
  }
  for (std::size_t r = 0; r < values.size(); ++r) {
    for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
      EXPECT_TRUE(rounds[r].Finish(t, first, second, decoded).ok());
    }
    (*memories)[r] = rounds[r].TakeMemory();
  }
  return decoded;
}

TEST(PowerSgdExchange, ManyTasksAndMemoryUsedAgainMakeTheBitsOfOnePlace) {
  const FactorGroup::Tensors tensors{{1024, 1100}, {300}, {1100, 1000}, {64, 64}};
  replica::PowerSgdOptions options;
  options.rank = 3;
  options.start = 2;
  const PowerSgdLayout layout(options, tensors);
  for (const bool reuse : {false, true}) {
    FactorGroup group(2, 15, tensors, reuse);
    std::vector<PowerSgdMemory> memories(2);
    for (std::uint64_t step = 2; step < 6; ++step) {
      const std::vector<Values> values = group.RandomOfAll(layout.values());
      if (step == 4) {  // for nothing
        group.Step(50, {1, 1}, group.RandomOfAll(layout.values()));
        for (auto& exchange : group.exchange_) exchange->Rollback();
      }
      const std::uint64_t shown = step < 4 ? step : step + 50;
      const Values agreed = group.Step(shown, {1, 1}, values);
      EXPECT_TRUE(SameBits(agreed, InOnePlace(layout, shown, values, &memories))) << step;
      group.Commit();
      for (std::size_t r = 0; r < 2; ++r) {
        group.exchange_[r]->Recycle(std::move(**group.results_[r]));
      }
    }
  }
}

// Whoever asked is gone, too: the answer to an abort, or to a wrong request, must not come then.
TEST(PowerSgdExchange, AnExchangeThatIsGoneDoesNotAnswer) {
  FactorGroup group(2, 14);
  int answers = 0;
  const auto start = [&](std::size_t rank, std::uint64_t round) {
    ExchangeRequest request;
    request.round = round;
    request.weights = {1, 1};
    request.values = Shared(group.Random(kValues));
    group.exchange_[rank]->Start(std::move(request), [&](const Result<Buffer>&) { ++answers; });
  };
  group.control_->Post("gone", [&] {
    start(0, 1);
    group.exchange_[0]->Abort();
    group.exchange_[0].reset();
    start(1, 0);
    group.exchange_[1].reset();
  });
  group.Drain();
  EXPECT_EQ(answers, 0);
}

}  // namespace
}  // namespace shoal::collective
