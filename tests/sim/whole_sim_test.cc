// The real scheduler and real peers, and everything that can happen to them. By hand as long as one
// likes: SHOAL_SEEDS and SHOAL_PEERS in the environment.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <variant>
#include <vector>

#include "common/log.h"
#include "dataset/sampler.h"
#include "scheduler/history/run_audit.h"
#include "tests/support/whole_swarm.h"

namespace shoal::test_support {
namespace {

using scheduler::RunState;

const WholeInput& Input() {
  if (Environment("SHOAL_LOG").empty()) SetLogLevel(LogLevel::kOff);
  static const WholeInput input(4);
  return input;
}

bool Finishes(WholeSwarm* swarm, Duration limit) {
  return swarm->RunUntil(
      [&] { return swarm->scheduler_lives() && swarm->state() == RunState::kFinished; }, limit);
}

// Losses of a run to which nothing happens.
const std::vector<double>& Undisturbed() {
  static const std::vector<double> losses = [] {
    WholeSwarm swarm({}, Input());
    for (int i = 0; i < 4; ++i) swarm.AddPeer();
    EXPECT_TRUE(Finishes(&swarm, std::chrono::minutes(10))) << swarm.View().reason;
    return swarm.View().losses;
  }();
  return losses;
}

// Each sample was counted exactly once.
void ExpectLedgerRight(const WholeSwarm& swarm) {
  const auto events = swarm.Events();
  const auto order = scheduler::FindSampleOrder(events);
  ASSERT_TRUE(order);
  const auto ledger = scheduler::ReplayLedger(events, order->stages);
  ASSERT_TRUE(ledger.ok()) << ledger.status().ToString();
  EXPECT_EQ(ledger->steps(), swarm.config().steps);
  const auto audit =
      scheduler::AuditLedger(*ledger, *scheduler::MakeSampleDeal(*order), order->stages);
  ASSERT_TRUE(audit.ok()) << audit.status().ToString();
  std::uint64_t counted = 0;
  for (const auto& member : audit->members) counted += member.counted;
  EXPECT_EQ(counted, swarm.config().steps * swarm.config().micro_batches * swarm.config().stages);
}

std::uint64_t StepsLost(const WholeSwarm& swarm) {
  std::uint64_t lost = 0;
  const auto ledger = scheduler::ReplayLedger(swarm.Events(), swarm.config().stages);
  for (const auto& gone : ledger->thrown_away) lost += gone.steps.size();
  return lost;
}

// With fp32 between stages only the order of sums may differ.
void ExpectLossesOf(const std::vector<double>& expected, const std::vector<double>& losses) {
  ASSERT_LE(losses.size(), expected.size());
  for (std::size_t step = 0; step < losses.size(); ++step) {
    ASSERT_NEAR(losses[step], expected[step], 1e-6 * expected[step]) << "step " << step;
  }
}

TEST(WholeSim, TrainsToTheEnd) {
  const std::vector<double>& losses = Undisturbed();
  ASSERT_EQ(losses.size(), 200u);
  EXPECT_LT(losses.back(), losses.front() - 0.1);
}

// The last scheduler put a peer into quarantine: the next one says so to it, and it to its owner.
TEST(WholeSim, APeerInQuarantineSaysSoAndTrainsAgainAfterwards) {
  WholeSwarm swarm({}, Input());
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.step() > 3; }));
  PeerId ill;
  for (const scheduler::MemberView& member : swarm.View().members) {
    if (member.pipeline == 1 && member.stage == 0) ill = member.peer;
  }
  const auto says = [&](const std::string& text) {
    for (const scheduler::MemberView& member : swarm.View().members) {
      if (member.peer == ill) return member.status_json.find(text) != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(swarm.RunUntil([&] { return says("\"quarantine\":null"); }));
  swarm.KillScheduler();
  swarm.Remember(scheduler::MemberFault{ill, scheduler::FaultKind::kWeights, "why", 120'000});
  swarm.StartScheduler();
  EXPECT_TRUE(swarm.RunUntil([&] { return says("\"kind\":\"weights\",\"faults\":1"); }));
  EXPECT_TRUE(says("\"code\":\"quarantine\""));
  EXPECT_TRUE(says("without a stage: its weights differ from those of its group (1 time)"));
  // The generation does not go on with it.
  EXPECT_TRUE(swarm.RunUntil([&] {
    const auto members = swarm.View().members;
    return std::ranges::all_of(
        members, [&](const auto& member) { return member.peer != ill || member.stage < 0; });
  }));
  EXPECT_TRUE(says("\"kind\":\"weights\""));
  const std::vector<scheduler::TimedEvent> events = swarm.Events();
  EXPECT_TRUE(std::ranges::none_of(events, [](const scheduler::TimedEvent& timed) {
    return std::holds_alternative<scheduler::GenerationGoesOn>(timed.event);
  }));
  EXPECT_TRUE(swarm.RunUntil([&] { return says("\"quarantine\":null"); }));
  EXPECT_TRUE(Finishes(&swarm, std::chrono::minutes(10))) << swarm.View().reason;
}

// Its process ends, which finds no card any more; a new one takes part again.
TEST(WholeSim, APeerWhoseCardIsLostEndsAndTrainsAgainWhenItIsBack) {
  WholeOptions options;
  options.terms = true;
  WholeSwarm swarm(options, Input());
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.step() > 3; }));
  swarm.LoseGpu(2, true);
  ASSERT_TRUE(swarm.RunUntil([&] { return !swarm.Lives(2); }, std::chrono::seconds(30)));
  EXPECT_EQ(swarm.ended(2).code(), StatusCode::kAborted);
  EXPECT_NE(swarm.ended(2).message().find("the driver says: GPU is lost"), std::string::npos);
  swarm.LoseGpu(2, false);
  swarm.Start(2);
  EXPECT_TRUE(Finishes(&swarm, std::chrono::minutes(10))) << swarm.View().reason;
  EXPECT_TRUE(swarm.Lives(2));
}

void ExpectCopiesEqual(const WholeSwarm& swarm) {
  const auto view = swarm.View();
  EXPECT_EQ(view.m_mismatches, 0u);
  EXPECT_EQ(view.weight_mismatches, 0u);
  EXPECT_EQ(view.refused_values, 0u) << view.last_refused;
}

// Something goes wrong, and is mended after a while.
class Mishaps {
 public:
  Mishaps(WholeSwarm* swarm, std::uint64_t seed) : swarm_(*swarm), random_(seed) {}

  void Next() {
    Wait(4000);
    const std::size_t victim = random_() % swarm_.size();
    const auto kind = random_() % 8;
    SHOAL_LOG(kInfo, "test", "mishap", {"kind", kind}, {"peer", victim}, {"step", swarm_.step()});
    switch (kind) {
      case 0:
        swarm_.KillScheduler();
        Wait(3000);
        swarm_.StartScheduler();
        break;
      case 1:
        swarm_.Stall(victim);
        Wait(12'000);
        swarm_.GoOn(victim);
        break;
      case 2:
        swarm_.Cut(victim, static_cast<WholeSwarm::Lost>(random_() % 3));
        Wait(30'000);
        swarm_.Mend(victim);
        break;
      case 3:
        swarm_.Order(victim, "pause");
        Wait(5000);
        swarm_.Order(victim, "resume");
        break;
      case 4:
        swarm_.FillDisk(victim, true);
        Wait(10'000);
        swarm_.FillDisk(victim, false);
        break;
      default:
        swarm_.Kill(victim);
        Wait(8000);
        swarm_.Start(victim);
    }
    if (swarm_.state() != RunState::kPaused) return;
    swarm_.OrderRun(scheduler::AdminCommand::Kind::kResume);
  }

 private:
  void Wait(std::uint64_t ms_max) { swarm_.RunFor(std::chrono::milliseconds(random_() % ms_max)); }

  WholeSwarm& swarm_;
  std::mt19937_64 random_;
};

// Steps of some ten seconds: they go on without a pipeline that lost a member.
void Slow(WholeOptions* options) {
  options->compute_ms = 600;
  options->steps = 30;
}

class WholeSimFaults : public testing::TestWithParam<std::size_t> {
 protected:
  // Peers for all pipelines and a spare.
  static std::unique_ptr<WholeSwarm> Swarm(const WholeOptions& options) {
    auto swarm = std::make_unique<WholeSwarm>(options, Input());
    const std::uint32_t peers = options.stages * options.pipelines + 1;
    for (std::uint32_t i = 0; i < peers; ++i) swarm->AddPeer();
    return swarm;
  }
};

TEST_P(WholeSimFaults, EverySampleCountsOnceWhateverHappens) {
  WholeOptions options;
  options.seed = static_cast<unsigned>(GetParam());
  options.late = options.seed % 2 == 0;
  options.slow_lines = options.seed % 3 == 0;
  if (options.seed % 4 < 2) Slow(&options);
  const auto swarm = Swarm(options);
  Mishaps mishaps(swarm.get(), options.seed);
  for (int i = 0; i < 200 && !Finishes(swarm.get(), Duration::zero()); ++i) mishaps.Next();
  ASSERT_TRUE(Finishes(swarm.get(), std::chrono::hours(4)))
      << swarm->View().reason << ", step " << swarm->step();
  ExpectLedgerRight(*swarm);
  ExpectCopiesEqual(*swarm);
  ExpectLossesOf(Undisturbed(), swarm->View().losses);
}

// Where all pipelines train again before the next mishap, nothing is lost at all.
TEST_P(WholeSimFaults, OneMishapAtATimeLosesNoStep) {
  WholeOptions options;
  options.seed = static_cast<unsigned>(1000 + GetParam());
  if (options.seed % 2 == 0) Slow(&options);
  const auto swarm = Swarm(options);
  Mishaps mishaps(swarm.get(), options.seed);
  const auto whole = [&] {
    const auto view = swarm->View();
    return view.state == RunState::kFinished ||
           (view.state == RunState::kTraining && view.reason.empty());
  };
  while (swarm->state() != RunState::kFinished) {
    // Until all know of the last one, and what it began has come about.
    const std::uint64_t before = swarm->step();
    const auto known = [&] { return swarm->step() >= before + 3 || Finishes(swarm.get(), {}); };
    swarm->RunFor(std::chrono::seconds(2));
    ASSERT_TRUE(swarm->RunUntil(known)) << swarm->View().reason;
    ASSERT_TRUE(swarm->RunUntil(whole)) << swarm->View().reason;
    mishaps.Next();
  }
  ExpectLedgerRight(*swarm);
  ExpectCopiesEqual(*swarm);
  ExpectLossesOf(Undisturbed(), swarm->View().losses);
  EXPECT_EQ(StepsLost(*swarm), 0u);
}

// Owners begin and end programs beside which their peers pause, and their machines sleep.
TEST_P(WholeSimFaults, OwnersThatComeAndGoLoseNoSample) {
  WholeOptions options;
  options.seed = static_cast<unsigned>(2000 + GetParam());
  options.terms = true;
  options.late = options.seed % 2 == 0;
  if (options.seed % 4 < 2) Slow(&options);
  const auto swarm = Swarm(options);
  std::mt19937_64 random(options.seed);
  Mishaps mishaps(swarm.get(), options.seed);
  const auto wait = [&](std::uint64_t ms_max) {
    swarm->RunFor(std::chrono::milliseconds(random() % ms_max));
  };
  for (int i = 0; i < 100 && !Finishes(swarm.get(), Duration::zero()); ++i) {
    const std::size_t peer = random() % swarm->size();
    wait(4000);
    if (random() % 4 == 0) mishaps.Next();
    if (random() % 3 == 0) {
      swarm->Stall(peer);
      wait(12'000);
      swarm->Slept(peer, std::chrono::milliseconds(random() % 100'000));
      swarm->GoOn(peer);
    } else {
      swarm->Occupy(peer, true);
      wait(20'000);
      if (random() % 2 == 0) swarm->Order(peer, "pause");
      wait(2000);
      swarm->Order(peer, "resume");
      swarm->Occupy(peer, false);
    }
  }
  ASSERT_TRUE(Finishes(swarm.get(), std::chrono::hours(4)))
      << swarm->View().reason << ", step " << swarm->step();
  ExpectLedgerRight(*swarm);
  ExpectCopiesEqual(*swarm);
  ExpectLossesOf(Undisturbed(), swarm->View().losses);
}

// Other shapes, codecs and ways to keep replicas equal.
TEST_P(WholeSimFaults, OtherRunsEndWithTheirLedgerRight) {
  std::mt19937_64 random(GetParam() + 1);
  const auto one_of = [&](std::vector<std::string> of) { return of[random() % of.size()]; };
  WholeOptions options;
  options.seed = static_cast<unsigned>(2000 + GetParam());
  options.stages = 1 + random() % 4;
  options.pipelines = 1 + random() % 3;
  options.micro_batches = static_cast<std::uint32_t>(options.pipelines * (1 + random() % 3));
  options.steps = 100;
  options.checkpoint_every = random() % 2 == 0 ? 0 : 1 + random() % 20;
  options.forward =
      one_of({"raw:dtype=fp32", "aqsgd:bits=4",
              "aqsgd:delta=dithered:step=0.6,first_visit=direct:bits=8", "direct:bits=8"});
  options.backward = one_of({"raw:dtype=fp32", "direct:bits=8", "dithered:step=0.5"});
  options.replica = one_of({"average", "average:codec=topk:ratio=0.25/bits=2", "qadam:bits=4",
                            "onebit", "powersgd:rank=2,start=4", "marsit", "average:local_steps=3",
                            "qsdp:bucket=16,raw_below=100,shard_parameters=true"});
  options.late = random() % 2 == 0;
  if (random() % 2 == 0) Slow(&options);
  options.slow_lines = random() % 2 == 0;
  SCOPED_TRACE(std::to_string(options.stages) + " x " + std::to_string(options.pipelines) + ", " +
               options.forward + " | " + options.backward + ", " + options.replica);
  const auto swarm = Swarm(options);
  Mishaps mishaps(swarm.get(), options.seed);
  for (int i = 0; i < 200 && !Finishes(swarm.get(), Duration::zero()); ++i) mishaps.Next();
  ASSERT_TRUE(Finishes(swarm.get(), std::chrono::hours(4)))
      << swarm->View().reason << ", step " << swarm->step();
  ExpectLedgerRight(*swarm);
  ExpectCopiesEqual(*swarm);
}

// Without the variable what suits a machine with two cores.
std::size_t FromEnvironment(const char* name, std::size_t otherwise) {
  const std::string value = Environment(name);
  return value.empty() ? otherwise : std::stoul(value);
}

// Who computes when the scheduler dies knows only later which steps it holds, and said hello
// before. A spare, which holds nothing, is back first.
TEST(WholeSim, SlowStagesKeepTheirStepsWhenTheSchedulerIsStartedAgain) {
  WholeOptions options;
  options.compute_ms = 3000;
  options.steps = 12;
  options.checkpoint_every = 100;
  WholeSwarm swarm(options, Input());
  for (int i = 0; i < 5; ++i) swarm.AddPeer();
  for (const std::uint64_t step : {3, 6, 9}) {
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.step() == step; }, std::chrono::hours(1)));
    swarm.RunFor(std::chrono::seconds(5));
    swarm.KillScheduler();
    swarm.RunFor(std::chrono::milliseconds(100));
    swarm.StartScheduler();
  }
  ASSERT_TRUE(Finishes(&swarm, std::chrono::hours(1))) << swarm.View().reason;
  EXPECT_EQ(StepsLost(swarm), 0u);
  ExpectLedgerRight(swarm);
}

// What a member has not sent yet stays with its stage where a plan goes on in place.
TEST(WholeSim, ErrorsOfGradientsOutliveAPlan) {
  WholeOptions options;
  options.steps = 24;
  options.checkpoint_every = 100;
  options.replica = "average:codec=direct:bits=2/bucket=64,feedback=true";
  const auto losses = [&](bool interrupted) {
    WholeSwarm swarm(options, Input());
    for (int i = 0; i < 4; ++i) swarm.AddPeer();
    for (const std::uint64_t step : {7, 15}) {
      if (!interrupted) continue;
      EXPECT_TRUE(swarm.RunUntil([&] { return swarm.step() == step; }, std::chrono::hours(1)));
      const std::size_t end = swarm.PeerAt(0, 0);
      swarm.Cut(end, WholeSwarm::Lost::kBoth);
      swarm.RunFor(std::chrono::seconds(1));
      swarm.Mend(end);
    }
    EXPECT_TRUE(Finishes(&swarm, std::chrono::hours(1))) << swarm.View().reason;
    ExpectCopiesEqual(swarm);
    EXPECT_EQ(StepsLost(swarm), 0u);
    EXPECT_EQ(swarm.View().generation > 1, interrupted);
    return swarm.View().losses;
  };
  ExpectLossesOf(losses(false), losses(true));
}

// What the peers have plans for they compute while nobody leads, and the next scheduler goes on
// with it, whatever the replica method: nothing of the step is done twice.
TEST(WholeSim, AStepGoesOnWhileNobodyLeads) {
  for (const char* const method : {"average", "qadam:bits=4", "marsit", "average:local_steps=4"}) {
    SCOPED_TRACE(method);
    WholeOptions options;
    options.compute_ms = 3000;
    options.steps = 9;
    options.checkpoint_every = 100;
    options.replica = method;
    WholeSwarm swarm(options, Input());
    for (int i = 0; i < 4; ++i) swarm.AddPeer();
    std::vector<Duration> took;
    TimePoint since{};
    for (std::uint64_t step = 3; step < 7; ++step) {
      ASSERT_TRUE(swarm.RunUntil([&] { return swarm.step() == step; }, std::chrono::hours(1)));
      if (step > 3) took.push_back(swarm.now() - since);
      since = swarm.now();
      if (step != 5) continue;
      swarm.RunFor(took.front() / 4);
      swarm.KillScheduler();
      swarm.RunFor(std::chrono::seconds(2));
      swarm.StartScheduler();
    }
    EXPECT_LT(took.back(), took.front() + std::chrono::seconds(1));
    EXPECT_EQ(swarm.View().generation, 1u);
    ASSERT_TRUE(Finishes(&swarm, std::chrono::hours(1))) << swarm.View().reason;
    ExpectLedgerRight(swarm);
    ExpectCopiesEqual(swarm);
  }
}

// The plan without the peer came between its farewell and its new hello, which then never went.
TEST(WholeSim, APauseThatIsTakenBackAtOnceIsForgotten) {
  for (int ms = 0; ms < 400; ms += 20) {
    WholeOptions options;
    options.seed = static_cast<unsigned>(100 + ms);
    WholeSwarm swarm(options, Input());
    for (int i = 0; i < 4; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.step() == 3; }));
    const std::size_t peer = swarm.PeerAt(0, 0);
    swarm.Order(peer, "pause");
    swarm.RunFor(std::chrono::milliseconds(ms));
    swarm.Order(peer, "resume");
    swarm.RunFor(std::chrono::seconds(10));
    ASSERT_EQ(swarm.View().reason, "") << ms << " ms";
    ASSERT_LT(swarm.PeerAt(1, 1), 4u) << ms << " ms";
  }
}

// Who leaves does so where its owner pauses it, too, before it has gone.
TEST(WholeSim, APauseDoesNotKeepAPeerThatLeaves) {
  for (int ms = 0; ms < 400; ms += 40) {
    WholeOptions options;
    options.seed = static_cast<unsigned>(200 + ms);
    WholeSwarm swarm(options, Input());
    for (int i = 0; i < 4; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.step() == 3; }));
    const std::size_t peer = swarm.PeerAt(0, 0);
    swarm.Order(peer, "leave");
    swarm.RunFor(std::chrono::milliseconds(ms));
    swarm.Order(peer, "pause");
    EXPECT_TRUE(swarm.RunUntil([&] { return !swarm.Lives(peer); }, std::chrono::minutes(1))) << ms;
    swarm.Start(peer);  // and joins again: it is not paused
    const auto all_train = [&] {
      return swarm.state() == RunState::kTraining && swarm.PeerAt(0, 0) < 4 &&
             swarm.PeerAt(0, 1) < 4 && swarm.PeerAt(1, 0) < 4 && swarm.PeerAt(1, 1) < 4;
    };
    EXPECT_TRUE(swarm.RunUntil(all_train, std::chrono::minutes(2))) << ms;
  }
}

// Many more than have a stage: they wait, come and go, and disturb nobody.
TEST(WholeSim, ManyPeersWait) {
  WholeOptions options;
  options.stages = 4;
  options.pipelines = 4;
  options.micro_batches = 8;
  options.steps = 40;
  WholeSwarm swarm(options, Input());
  const std::size_t peers = FromEnvironment("SHOAL_PEERS", 1000);
  for (std::size_t i = 0; i < peers; ++i) swarm.AddPeer();
  std::mt19937_64 random(3);
  for (int i = 0; i < 200 && !Finishes(&swarm, Duration::zero()); ++i) {
    for (std::size_t gone = 0; gone < peers / 100; ++gone) swarm.Kill(random() % peers);
    swarm.RunFor(std::chrono::milliseconds(500));
    for (std::size_t peer = 0; peer < peers; ++peer) swarm.Start(peer);
  }
  ASSERT_TRUE(Finishes(&swarm, std::chrono::minutes(30))) << swarm.View().reason;
  ExpectLedgerRight(swarm);
  ExpectCopiesEqual(swarm);
}

INSTANTIATE_TEST_SUITE_P(Seeds, WholeSimFaults,
                         testing::Range(std::size_t{0}, FromEnvironment("SHOAL_SEEDS", 8)));

}  // namespace
}  // namespace shoal::test_support
