// Swarms in virtual time to which something happens: lost state, dead peers, bad frames, silence.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::Place;
using test_support::Quantised;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

using net::Frame;
using net::FrameKind;

// The status of the failure at a place; kOk and "" if there is none.
Status FailureAt(SimSwarm& swarm, std::uint32_t stage, std::uint32_t pipeline) {
  const auto& failure = swarm.at(stage, pipeline).failure_;
  return failure ? failure->status : Status::Ok();
}

// ---- lost and wrong m ----

class LostState : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(LostState, IsSentInFullOnceAndChecksumsAgreeAgain) {
  const auto [at_receiver, wrong_image] = GetParam();
  SimSwarm swarm(Quantised(2, 1));
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);  // an epoch: all samples have m
  SimSwarm::Peer& victim = swarm.at(at_receiver ? 1 : 0, 0);
  const storage::BoundaryEnd end =
      Place(0, at_receiver ? storage::BoundarySide::kReceiver : storage::BoundarySide::kSender);
  const SegmentId sample{3};
  auto record = victim.store_->Get(end, sample);
  ASSERT_TRUE(record.ok() && record->has_value());
  if (wrong_image) {
    // Another version, as after a crash that lost the tail: valid in itself, not the other's.
    ++(*record)->version;
    std::vector<storage::DeltaUpdate> updates;
    updates.push_back({sample, std::move(**record)});
    std::vector<SegmentId> evicted;
    ASSERT_TRUE(victim.store_->Commit(end, updates, &evicted).ok());
  } else {
    ASSERT_TRUE(victim.store_->Drop(end, std::vector{sample}, UINT64_MAX).ok());
  }
  const std::uint64_t first_visits = victim.runner_->stats().first_visits;
  swarm.checksum_mismatches_.clear();
  ASSERT_TRUE(swarm.TrainTo(9)) << Why(swarm);
  const RunnerStats stats = victim.runner_->stats();
  // A lost record at the sender is a first visit at once; anything else is found by the receiver.
  const bool resent = at_receiver || wrong_image;
  EXPECT_EQ(stats.resends, resent ? 1u : 0u);
  EXPECT_EQ(stats.first_visits, first_visits + 1);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

INSTANTIATE_TEST_SUITE_P(All, LostState, testing::Combine(testing::Bool(), testing::Bool()));

TEST(FailureSimTest, RandomLossOfStateNeverStopsTraining) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimSwarm swarm(Quantised(3, 2, seed));
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    for (std::uint64_t step = 3; step <= 12; step += 3) {
      ASSERT_TRUE(swarm.TrainTo(step)) << Why(swarm);
      for (const auto& peer : swarm.peers()) {
        for (std::uint32_t boundary = 0; boundary < 2; ++boundary) {
          const auto side = peer->stage_ == boundary ? storage::BoundarySide::kSender
                                                     : storage::BoundarySide::kReceiver;
          const std::vector<SegmentId> lost{{swarm.random_() % 36}, {swarm.random_() % 36}};
          ASSERT_TRUE(peer->store_->Drop(Place(boundary, side), lost, UINT64_MAX).ok());
        }
      }
      swarm.checksum_mismatches_.clear();
      ASSERT_TRUE(swarm.TrainTo(step + 2)) << Why(swarm);
    }
    // A whole epoch without accident heals everything.
    ASSERT_TRUE(swarm.TrainTo(17)) << Why(swarm);
    swarm.checksum_mismatches_.clear();
    ASSERT_TRUE(swarm.TrainTo(20)) << Why(swarm);
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  }
}

// ---- restart ----

TEST(FailureSimTest, ARestartDropsNewerMOnBothEnds) {
  SimSwarm swarm(Quantised(2, 1));
  ASSERT_TRUE(swarm.Open(0));
  ASSERT_TRUE(swarm.TrainTo(2)) << Why(swarm);
  const auto weights = swarm.SaveWeights();
  ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  swarm.LoadWeights(weights);
  ASSERT_TRUE(swarm.Open(2)) << Why(swarm);
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    const auto inventory = swarm.at(stage, 0).store_->Inventory(
        Place(0, stage == 0 ? storage::BoundarySide::kSender : storage::BoundarySide::kReceiver));
    ASSERT_TRUE(inventory.ok());
    EXPECT_TRUE(inventory->empty());  // all were rewritten by steps 3 to 6
  }
  swarm.checksum_mismatches_.clear();
  ASSERT_TRUE(swarm.TrainTo(8)) << Why(swarm);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

TEST(FailureSimTest, LinkUpKeepsWhatBothEndsHaveAndDropsTheRest) {
  SimSwarm swarm(Quantised(2, 1));
  ASSERT_TRUE(swarm.Open(0));
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  const storage::BoundaryEnd sender = Place(0, storage::BoundarySide::kSender);
  const storage::BoundaryEnd receiver = Place(0, storage::BoundarySide::kReceiver);
  ASSERT_TRUE(
      swarm.at(0, 0).store_->Drop(sender, std::vector<SegmentId>{{1}, {7}}, UINT64_MAX).ok());
  ASSERT_TRUE(
      swarm.at(1, 0).store_->Drop(receiver, std::vector<SegmentId>{{7}, {9}}, UINT64_MAX).ok());
  ASSERT_TRUE(swarm.Open(3)) << Why(swarm);
  for (const auto& [peer, end] : {std::pair(0, sender), std::pair(1, receiver)}) {
    const auto inventory = swarm.at(peer, 0).store_->Inventory(end);
    ASSERT_TRUE(inventory.ok());
    EXPECT_EQ(inventory->size(), 36u - 3);
    for (const auto& entry : *inventory) {
      EXPECT_TRUE(entry.segment.value != 1 && entry.segment.value != 7 && entry.segment.value != 9);
    }
  }
  ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);
  EXPECT_EQ(swarm.at(0, 0).runner_->stats().first_visits, 3u);
  EXPECT_EQ(swarm.at(0, 0).runner_->stats().resends, 0u);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

// ---- death ----

TEST(FailureSimTest, ADeadPeerAtAnyMomentIsReportedAndTheRunContinuesFromTheCheckpoint) {
  SwarmOptions options;
  options.stages = 3;
  options.pipelines = 2;
  SimSwarm undisturbed(options);
  ASSERT_TRUE(undisturbed.Open(0));
  ASSERT_TRUE(undisturbed.TrainTo(6));
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    options.seed = seed;
    SimSwarm swarm(options);
    ASSERT_TRUE(swarm.Open(0));
    ASSERT_TRUE(swarm.TrainTo(2));
    const auto weights = swarm.SaveWeights();
    SimSwarm::Peer& victim = *swarm.peers()[swarm.random_() % swarm.peers().size()];
    swarm.world_.At(swarm.world_.Now() + std::chrono::milliseconds(1 + swarm.random_() % 300),
                    [&] { swarm.network_.Kill(victim.id_); });
    swarm.Begin(1000);
    swarm.Run(std::chrono::seconds(2));
    EXPECT_LT(swarm.losses_.size(), 1000u);
    for (const auto& peer : swarm.peers()) {
      const bool neighbour =
          peer->pipeline_ == victim.pipeline_
              ? peer->stage_ + 1 == victim.stage_ || victim.stage_ + 1 == peer->stage_
              : peer->stage_ == victim.stage_;
      if (!neighbour) continue;
      EXPECT_FALSE(peer->failure_.has_value()) << "others may go on, and it with them";
      ASSERT_TRUE(peer->trouble().has_value());
      EXPECT_EQ(peer->trouble()->status.code(), StatusCode::kUnavailable);
      ASSERT_TRUE(peer->trouble()->peer.has_value());
      EXPECT_EQ(*peer->trouble()->peer, victim.id_);
    }
    swarm.Close();
    swarm.LoadWeights(weights);
    ASSERT_TRUE(swarm.Open(2)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);
    EXPECT_EQ(swarm.SaveWeights(), undisturbed.SaveWeights());
  }
}

// The steps that each peer but one holds once they have settled.
std::vector<std::uint64_t> HeldBySurvivors(SimSwarm* swarm, const SimSwarm::Peer* victim) {
  std::vector<std::uint64_t> held;
  for (const auto& peer : swarm->peers()) {
    if (peer.get() == victim) continue;
    peer->control_->Post("test.settle", [&held, runner = peer->runner_.get()] {
      runner->Settle([&held](const Result<std::uint64_t>& steps) {
        ASSERT_TRUE(steps.ok()) << steps.status().ToString();
        held.push_back(*steps);
      });
    });
  }
  swarm->Run(std::chrono::seconds(1));
  return held;
}

// At any moment: whoever is left of a stage group holds every step that was ordered to be applied,
// and the run goes on from there as if nothing had happened.
TEST(FailureSimTest, ADeadPeerAtAnyMomentCostsNoStepWhereItsStageHasAnother) {
  for (const char* replica :
       {"average", "powersgd:rank=2,start=2", "qadam:bits=4,bucket=16,start=3"}) {
    SwarmOptions options;
    options.stages = 3;
    options.pipelines = 2;
    options.adamw = true;
    options.replica = replica;
    const bool exact = options.replica == "average";  // others forget errors and factors
    SimSwarm undisturbed(options);
    ASSERT_TRUE(undisturbed.Open(0));
    ASSERT_TRUE(undisturbed.TrainTo(8));
    for (unsigned seed = 1; seed <= 40; ++seed) {
      SCOPED_TRACE(std::string(replica) + ", seed " + std::to_string(seed));
      options.seed = seed;
      SimSwarm swarm(options);
      ASSERT_TRUE(swarm.Open(0));
      ASSERT_TRUE(swarm.TrainTo(2));
      SimSwarm::Peer& victim = *swarm.peers()[swarm.random_() % swarm.peers().size()];
      swarm.world_.At(swarm.world_.Now() + std::chrono::milliseconds(1 + swarm.random_() % 300),
                      [&] { swarm.network_.Kill(victim.id_); });
      swarm.Begin(1000);
      swarm.Run(std::chrono::seconds(2));  // those who are left wait for the scheduler's word
      EXPECT_LT(swarm.losses_.size(), 1000u);
      const std::vector<std::uint64_t> held = HeldBySurvivors(&swarm, &victim);
      ASSERT_EQ(held.size(), 5u);
      const std::uint64_t steps = swarm.losses_.size();
      for (const std::uint64_t one : held) EXPECT_EQ(one, steps);
      swarm.Close();
      for (std::uint32_t stage = 0; stage < 3; ++stage) {
        const std::uint32_t alive = victim.pipeline_ == 0 ? 1 : 0;
        if (stage != victim.stage_) {
          EXPECT_EQ(swarm.SaveStage(stage, 0), swarm.SaveStage(stage, 1)) << "stage " << stage;
        }
        swarm.LoadStage(stage, swarm.SaveStage(stage, alive));
      }
      ASSERT_TRUE(swarm.Open(steps)) << Why(swarm);
      if (!exact || steps > 8) continue;
      ASSERT_TRUE(swarm.TrainTo(8)) << Why(swarm);
      EXPECT_EQ(swarm.SaveWeights(), undisturbed.SaveWeights());
    }
  }
}

// A generation that ends at any moment, and one that goes on in place: m of every sample is kept,
// so that nothing is sent in full again and the losses are those of an undisturbed run.
TEST(FailureSimTest, NoMIsLostWhereAGenerationGoesOnInPlace) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SwarmOptions options = Quantised(3, 1, seed);
    options.forward += ",guard=off";  // whose memory ends with a generation
    SimSwarm undisturbed(options);
    ASSERT_TRUE(undisturbed.Open(0));
    ASSERT_TRUE(undisturbed.TrainTo(12));
    SimSwarm swarm(options);
    ASSERT_TRUE(swarm.Open(0));
    ASSERT_TRUE(swarm.TrainTo(4));
    swarm.Begin(9);
    if (seed % 2 == 0) {
      const unsigned events = swarm.random_() % 3000;
      for (unsigned i = 0; i < events; ++i) swarm.world_.Step();
    } else {  // just as a step is ordered to be applied
      while (swarm.losses_.size() < 5 + seed % 3) swarm.world_.Step();
      for (unsigned i = 0; i < swarm.random_() % 60; ++i) swarm.world_.Step();
    }
    HeldBySurvivors(&swarm, nullptr);
    // Again: to some the order to apply comes only now.
    const std::uint64_t steps = swarm.losses_.size();
    for (const std::uint64_t held : HeldBySurvivors(&swarm, nullptr)) ASSERT_EQ(held, steps);
    swarm.Close();
    ASSERT_TRUE(swarm.Open(steps)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(12)) << Why(swarm);
    for (const auto& peer : swarm.peers()) {
      EXPECT_EQ(peer->runner_->stats().first_visits, 0u) << "stage " << peer->stage_;
    }
    EXPECT_EQ(swarm.losses_, undisturbed.losses_);
  }
}

TEST(FailureSimTest, DestructionAtAnyMomentIsSilentAndTheNextGenerationTrains) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimSwarm swarm(Quantised(3, 2, seed));
    ASSERT_TRUE(swarm.Open(0));
    const auto weights = swarm.SaveWeights();
    swarm.Begin(4);
    const unsigned events = swarm.random_() % 3000;
    for (unsigned i = 0; i < events; ++i) swarm.world_.Step();
    swarm.Close();
    EXPECT_FALSE(swarm.AnyFailed());
    swarm.LoadWeights(weights);
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  }
}

TEST(FailureSimTest, AfterTheEndOfTheRunClosedLinksAreNoFailure) {
  SimSwarm swarm(Quantised(3, 2));
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(2)) << Why(swarm);
  for (const auto& peer : swarm.peers()) peer->runner_->OnFinished();
  swarm.at(1, 0).runner_.reset();  // its four neighbours see closed links
  swarm.Run(std::chrono::seconds(300));
  EXPECT_FALSE(swarm.AnyFailed()) << Why(swarm);
}

TEST(FailureSimTest, SilenceEndsTheGenerationAndNamesWhatIsAwaited) {
  SimSwarm swarm(Quantised(2, 1));
  ASSERT_TRUE(swarm.Open(0));
  swarm.network_.tap = [](const PeerId&, const PeerId&, Frame* frame) {
    return frame->kind == FrameKind::kGradient && frame->micro_batch == MicroBatchId{1, 3} ? 0 : 1;
  };
  EXPECT_FALSE(swarm.TrainTo(5));
  swarm.Run(std::chrono::minutes(2));
  const Status status = FailureAt(swarm, 0, 0);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
  EXPECT_NE(status.message().find("the gradient of micro-batch 3 of step 1 from peer"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(*swarm.at(0, 0).failure_->peer, swarm.at(1, 0).id_);
}

// By the times of the frames before it, long before nothing at all has happened for a minute.
TEST(FailureSimTest, AFrameThatIsLateByItsUsualTimeNamesTheNeighbour) {
  SimSwarm swarm(Quantised(2, 1));
  ASSERT_TRUE(swarm.Open(0));
  ASSERT_TRUE(swarm.TrainTo(60)) << Why(swarm);
  swarm.network_.tap = [](const PeerId&, const PeerId&, Frame* frame) {
    return frame->kind == FrameKind::kGradient && frame->micro_batch == MicroBatchId{60, 3} ? 0 : 1;
  };
  const TimePoint before = swarm.world_.Now();
  EXPECT_FALSE(swarm.TrainTo(62));
  EXPECT_LT(swarm.world_.Now() - before, TimeoutsOf(kPeerTimeoutDefault).frame_stall);
  const Status status = FailureAt(swarm, 0, 0);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
  EXPECT_NE(status.message().find("the gradient of micro-batch 3 of step 60 did not come for"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(*swarm.at(0, 0).failure_->peer, swarm.at(1, 0).id_);
}

TEST(FailureSimTest, SilenceInsideTheStageGroupNamesTheMember) {
  SimSwarm swarm(Quantised(2, 2));
  ASSERT_TRUE(swarm.Open(0));
  swarm.network_.tap = [&](const PeerId& from, const PeerId&, Frame* frame) {
    return frame->kind == FrameKind::kGroup && from == swarm.at(1, 1).id_ ? 0 : 1;
  };
  EXPECT_FALSE(swarm.TrainTo(5));
  swarm.Run(std::chrono::minutes(2));
  const Status status = FailureAt(swarm, 1, 0);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
  EXPECT_NE(status.message().find(swarm.at(1, 1).id_.ToShort()), std::string::npos)
      << status.message();
  EXPECT_EQ(*swarm.at(1, 0).failure_->peer, swarm.at(1, 1).id_);
}

// ---- bad frames ----

struct Forgery {
  const char* name;
  FrameKind kind;
  std::function<int(Frame*)> change;
  const char* expected;  // part of the message
};

class Forged : public testing::TestWithParam<Forgery> {};

TEST_P(Forged, EndsTheGenerationWithCauseAndPeer) {
  SimSwarm swarm(Quantised(2, 2));
  ASSERT_TRUE(swarm.Open(0));
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  bool done = false;
  PeerId forger, victim;
  swarm.network_.tap = [&](const PeerId& from, const PeerId& to, Frame* frame) {
    if (done || frame->kind != GetParam().kind) return 1;
    done = true;
    forger = from;
    victim = to;
    return GetParam().change(frame);
  };
  EXPECT_FALSE(swarm.TrainTo(9));
  EXPECT_TRUE(done);
  for (const auto& peer : swarm.peers()) {
    if (peer->id_ != victim) continue;
    ASSERT_TRUE(peer->failure_.has_value());
    const std::string text = peer->failure_->status.ToString();
    EXPECT_NE(text.find(GetParam().expected), std::string::npos) << text;
    if (peer->failure_->peer) {
      EXPECT_EQ(*peer->failure_->peer, forger);
    }
  }
}

std::vector<Forgery> HeaderForgeries() {
  const auto act = [](const char* name, std::function<void(Frame*)> change, const char* expected) {
    const auto once = [change](Frame* frame) {
      change(frame);
      return 1;
    };
    return Forgery{name, FrameKind::kActivation, once, expected};
  };
  return {
      {"Twice", FrameKind::kActivation, [](Frame*) { return 2; }, "a second time"},
      {"GradientTwice", FrameKind::kGradient, [](Frame*) { return 2; }, "a second time"},
      act(
          "Run", [](Frame* f) { f->run.value ^= 1; }, "names run"),
      act(
          "Generation", [](Frame* f) { ++f->generation; }, "generation"),
      act(
          "PastStep", [](Frame* f) { --f->micro_batch.step; }, "is next"),
      act(
          "FarStep", [](Frame* f) { f->micro_batch.step += 9; }, "is next"),
      act(
          "Index", [](Frame* f) { f->micro_batch.index = 4000000000u; }, "not in the plan"),
      act(
          "Codec", [](Frame* f) { f->codec = "raw:dtype=fp32"; }, "was coded by"),
      act(
          "Tokens", [](Frame* f) { ++f->tokens; }, "values instead of"),
      act(
          "Hidden", [](Frame* f) { f->hidden = 0; }, "values instead of"),
      act(
          "Kind", [](Frame* f) { f->kind = static_cast<FrameKind>(77); }, "does not belong"),
      act(
          "Samples", [](Frame* f) { f->samples.pop_back(); }, "samples instead of"),
      act(
          "OtherSample", [](Frame* f) { ++f->samples[0].sample.value; }, "where the plan has"),
      act(
          "TooLong", [](Frame* f) { f->payload = Buffer(1 << 20); }, "at most"),
      act(
          "Truncated", [](Frame* f) { f->payload.Truncate(3); }, "cannot decode"),
  };
}

std::vector<Forgery> OtherForgeries() {
  const auto noise = [](Frame* frame) {
    std::memset(frame->payload.data(), 0xff, frame->payload.size());
    return 1;
  };
  const auto on_m = [](Frame* frame) {
    frame->samples[0].base_version = 3;
    return 1;
  };
  const auto longer = [](Frame* frame) {
    Buffer payload(frame->payload.size() + 4);
    std::memcpy(payload.data(), frame->payload.data(), frame->payload.size());
    frame->payload = std::move(payload);
    return 1;
  };
  const auto other_kind = [](Frame* frame) {
    frame->kind = FrameKind::kEvicted;
    return 1;
  };
  return {{"Payload", FrameKind::kActivation, noise, "cannot decode"},
          {"GradientOnM", FrameKind::kGradient, on_m, "its codec cannot"},
          {"Group", FrameKind::kGroup, longer, "bytes"},
          {"GroupKind", FrameKind::kGroup, other_kind, "does not belong"}};
}

std::string ForgeryName(const testing::TestParamInfo<Forgery>& forgery) {
  return forgery.param.name;
}

INSTANTIATE_TEST_SUITE_P(Header, Forged, testing::ValuesIn(HeaderForgeries()), ForgeryName);
INSTANTIATE_TEST_SUITE_P(Payload, Forged, testing::ValuesIn(OtherForgeries()), ForgeryName);

TEST(FailureSimTest, AForgedInventoryIsRefused) {
  SimSwarm swarm(Quantised(2, 1));
  swarm.network_.tap = [](const PeerId&, const PeerId&, Frame* frame) {
    if (frame->kind == FrameKind::kInventory) frame->payload = Buffer::CopyOf({});
    return 1;
  };
  EXPECT_FALSE(swarm.Open(0));
  EXPECT_NE(Why(swarm).find("too short"), std::string::npos) << Why(swarm);
}

TEST(FailureSimTest, RandomlyBrokenFramesNeverCrash) {
  int failed = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimSwarm swarm(Quantised(2, seed % 2 + 1, seed));
    std::mt19937 random(seed);
    swarm.network_.tap = [&](const PeerId&, const PeerId&, Frame* frame) {
      if (random() % 40 != 0) return 1;
      const std::uint64_t some[] = {0, 1, 2, 255, 65536, 1ull << 32, ~0ull, random()};
      const std::uint64_t value = some[random() % 8];
      switch (random() % 10) {
        case 0: frame->kind = static_cast<FrameKind>(random() % 8); break;
        case 1: frame->generation = value; break;
        case 2: frame->micro_batch.step = value; break;
        case 3: frame->micro_batch.index = static_cast<std::uint32_t>(value); break;
        case 4: frame->tag = value; break;
        case 5: frame->tokens = static_cast<std::uint32_t>(value); break;
        case 6: frame->samples.resize(value % 70000); break;
        case 7:
          if (!frame->samples.empty()) {
            net::FrameSample& sample = frame->samples[random() % frame->samples.size()];
            sample.base_version = value;
          }
          break;
        case 8:
          frame->payload =
              Buffer::CopyOf(frame->payload.bytes().first(value % (frame->payload.size() + 1)));
          break;
        default:
          for (int i = 0; i < 20 && !frame->payload.empty(); ++i) {
            frame->payload.data()[random() % frame->payload.size()] = std::byte(random());
          }
      }
      return static_cast<int>(random() % 3);
    };
    if (!swarm.Open(0) || !swarm.TrainTo(6)) ++failed;
  }
  EXPECT_GT(failed, 200);
}

// ---- wrong orders ----

TEST(FailureSimTest, OrdersOutOfPlaceEndTheGenerationWithAMessage) {
  const std::vector<std::function<void(StageRunner*)>> orders = {
      [](StageRunner* runner) {
        runner->OnReduce({0, {0}});
      },
      [](StageRunner* runner) {
        runner->OnReduce({7, {0}});
      },
      [](StageRunner* runner) {
        runner->OnReduce({0, {}});
      },
      [](StageRunner* runner) {
        runner->OnReduce({0, {5}});
      },
      [](StageRunner* runner) {
        runner->OnApply({0, 1.0, 0.1, 10});
      },
      [](StageRunner* runner) {
        runner->OnApply({0, 1.0, 0.1, 0});
      },
      [](StageRunner* runner) {
        runner->OnStepPlan({.step = 3, .micro_batches = {}, .timings = {}});
      },
      [](StageRunner* runner) {
        runner->OnStepPlan({.step = 0, .micro_batches = {{0, {}}}, .timings = {}});
      },
      [](StageRunner* runner) { runner->Start({}); },
  };
  for (std::size_t i = 0; i < orders.size(); ++i) {
    SimSwarm swarm(Quantised(2, 1));
    ASSERT_TRUE(swarm.Open(0));
    swarm.at(0, 0).control_->Post("order", [&] { orders[i](swarm.at(0, 0).runner_.get()); });
    swarm.Run(std::chrono::seconds(1));
    EXPECT_FALSE(FailureAt(swarm, 0, 0).ok()) << "order " << i;
  }
}

}  // namespace
}  // namespace shoal::pipeline
