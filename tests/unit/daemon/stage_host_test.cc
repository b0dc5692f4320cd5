// One generation of a run with a single stage: model, stores and hub are real, only the scheduler
// is played by the test.

#include <future>

#include "stage_host_fixture.h"

namespace shoal::daemon {
namespace {

TEST_F(StageHostTest, TrainsSavesUploadsAndResumesToTheBit) {
  Start(MakePlan(0));
  ASSERT_EQ(WaitFor(PeerMessage::kPlanReady).plan_ready().generation(), 1u);
  On([this] {
    EXPECT_EQ(owner_.states.front().first, PeerState::kSyncing);
    EXPECT_EQ(owner_.states.back().first, PeerState::kTraining);
    EXPECT_GT(host_->budget().state_bytes, 0u);
    EXPECT_EQ(host_->budget().delta_store_bytes, 0u);  // no boundary
    EXPECT_EQ(host_->device_name(), "cpu, fp32");
  });
  // m of a run without checkpoints here, which this peer took part in once.
  const storage::BoundaryEnd other{RunId{7}, 0, storage::BoundarySide::kSender};
  ASSERT_TRUE(RunOn(store_.get(), [&] {
                storage::DeltaUpdate update{SegmentId{1}, {}};
                update.record.version = 1;
                return deltas_->Commit(other, std::span(&update, 1), nullptr);
              }).ok());
  const std::uint64_t after_first = Step(0);
  const auto first = WaitFor(PeerMessage::kCheckpointDone).checkpoint_done();
  EXPECT_EQ(first.error(), "");
  EXPECT_EQ(first.step(), 1u);
  ASSERT_EQ(first.files_size(), 6);  // embedding, layer.0, head, and their optimizer states
  EXPECT_TRUE(client_.uploads.empty()) << "nobody asked for any";
  for (const auto& file : first.files()) {  // whoever asks for one gets it from the content store
    storage::ContentHash hash;
    std::ranges::copy(file.hash(), hash.digest.begin());
    const auto path = RunOn(store_.get(), [&] { return content_->PathOf(hash); });
    ASSERT_TRUE(path.ok()) << file.name() << ": " << path.status().ToString();
    EXPECT_EQ(fs::file_size(*path), file.size()) << file.name();
  }
  EXPECT_TRUE(fs::exists(At("checkpoints/0000000000000abc/step-000000000001/manifest.json")));
  EXPECT_TRUE(RunOn(store_.get(), [&] { return deltas_->Ends().empty(); }));
  checkpoint_ = false;
  const std::uint64_t after_second = Step(1);
  checkpoint_ = true;
  EXPECT_FALSE(fs::exists(At("checkpoints/0000000000000abc/step-000000000002")))
      << "only the weights were checked";
  EXPECT_NE(after_second, after_first);

  // Again from the first checkpoint: everything is in the content store already.
  const control::v1::ArtefactRef data = offered_.back();
  offered_.assign(first.files().begin(), first.files().end());
  offered_.push_back(data);
  const std::size_t fetches = client_.offsets.size();
  Start(MakePlan(1));
  ASSERT_EQ(WaitFor(PeerMessage::kPlanReady).plan_ready().generation(), 2u);
  EXPECT_EQ(client_.offsets.size(), fetches);
  EXPECT_EQ(Step(1), after_second);
}

TEST_F(StageHostTest, ASkippedStepNeedsNoNormAndSavesTheWeightsBeforeIt) {
  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  const std::uint64_t before = Step(0);
  const auto first = WaitFor(PeerMessage::kCheckpointDone).checkpoint_done();
  skip_ = true;
  EXPECT_EQ(Step(1), before);
  const auto second = WaitFor(PeerMessage::kCheckpointDone).checkpoint_done();
  EXPECT_EQ(second.error(), "");
  EXPECT_EQ(second.step(), 2u);
  ASSERT_EQ(second.files_size(), first.files_size());
  for (int i = 0; i < first.files_size(); ++i) {
    EXPECT_EQ(second.files(i).hash(), first.files(i).hash()) << first.files(i).name();
  }
  skip_ = false;
  EXPECT_NE(Step(2), before);
}

TEST_F(StageHostTest, WhatItHoldsIsSavedWhenTheGenerationEnds) {
  checkpoint_ = false;
  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  Step(0);
  const std::uint64_t after = Step(1);
  int told = 0;
  const auto close = [&](std::uint64_t step) {
    On([&] {
      owner_.told.clear();
      host_->Close(step, [&told] { ++told; });
      EXPECT_TRUE(host_->closing());
    });
    return WaitFor(PeerMessage::kCheckpointDone).checkpoint_done();
  };
  const auto saved = close(2);
  EXPECT_EQ(saved.error(), "");
  EXPECT_EQ(saved.step(), 2u);
  ASSERT_EQ(saved.files_size(), 6);
  EXPECT_TRUE(fs::exists(At("checkpoints/0000000000000abc/step-000000000002/manifest.json")));
  // Asked once more, it says so once more.
  On([&] {
    EXPECT_FALSE(host_->closing());
    owner_.told.clear();
    host_->Close(2, nullptr);
  });
  const auto again = WaitFor(PeerMessage::kCheckpointDone).checkpoint_done();
  EXPECT_EQ(again.SerializeAsString(), saved.SerializeAsString());
  EXPECT_EQ(told, 1);

  const control::v1::ArtefactRef data = offered_.back();
  offered_.assign(saved.files().begin(), saved.files().end());
  offered_.push_back(data);
  const std::size_t fetches = client_.offsets.size();
  Start(MakePlan(2));
  WaitFor(PeerMessage::kPlanReady);
  EXPECT_EQ(client_.offsets.size(), fetches);
  EXPECT_NE(Step(2), after);
  // What it does not hold it does not save.
  EXPECT_THAT(close(2).error(), HasSubstr("its stage is that of 3 steps, not of 2"));
  EXPECT_EQ(told, 2);
}

// Its generation has ended by then, and the scheduler still wants it.
TEST_F(StageHostTest, WhatItIsSavingIsToldWhenItIsGone) {
  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  apply_ = false;
  Step(0);
  std::promise<void> released;
  store_->Post("test.block", [&released] { released.get_future().wait(); });
  On([this] {
    owner_.told.clear();
    host_->OnApply(order_);
  });
  const std::string manifest = At("checkpoints/0000000000000abc/step-000000000001/manifest.json");
  ASSERT_TRUE(WaitUntil(control_.get(), [&] { return fs::exists(manifest); }));
  On([this] {
    EXPECT_EQ(owner_.Told(PeerMessage::kCheckpointDone), nullptr);
    host_.reset();
  });
  released.set_value();
  const auto saved = WaitFor(PeerMessage::kCheckpointDone).checkpoint_done();
  EXPECT_EQ(saved.error(), "");
  EXPECT_EQ(saved.generation(), 1u);
  EXPECT_EQ(saved.step(), 1u);
  EXPECT_EQ(saved.files_size(), 6);
  // A scheduler that has not heard it hears it again, but not of another run.
  On([&] {
    owner_.told.clear();
    saver_->TellAgain(RunId{0xdef});
    EXPECT_TRUE(owner_.told.empty());
    saver_->TellAgain(RunId{0xabc});
    ASSERT_EQ(owner_.told.size(), 1u);
    EXPECT_EQ(owner_.told[0].checkpoint_done().SerializeAsString(), saved.SerializeAsString());
    saver_->Forget();
    saver_->TellAgain(RunId{0xabc});
    EXPECT_EQ(owner_.told.size(), 1u);
  });
}

// Without a scheduler it computes the step at hand, and says to the next one what it said before.
TEST_F(StageHostTest, GoesOnWithItsStepWithoutAScheduler) {
  checkpoint_ = false;
  Start(MakePlan(0));
  On([&] { EXPECT_FALSE(host_->goes_on()) << "it is being loaded"; });
  WaitFor(PeerMessage::kPlanReady);
  Step(0);
  On([&] {
    EXPECT_TRUE(host_->goes_on());
    EXPECT_EQ(host_->in_progress()->applied, 1u);
    EXPECT_EQ(host_->in_progress()->planned, 1u);
    owner_.told.clear();
    host_->TellAgain();
    EXPECT_TRUE(owner_.told.empty()) << "of the step before nothing is left to say";
    host_->OnDisconnected();
    host_->OnStepPlan(MakeStepPlan(1));
  });
  const std::string ready = WaitFor(PeerMessage::kStepReady).SerializeAsString();
  On([&] {
    EXPECT_EQ(host_->in_progress()->applied, 1u);
    EXPECT_EQ(host_->in_progress()->planned, 2u);
    owner_.told.clear();
    host_->TellAgain();
    ASSERT_EQ(owner_.told.size(), 1u);
    EXPECT_EQ(owner_.told.front().SerializeAsString(), ready);
    EXPECT_FALSE(host_->last_reduce());
    host_->OnReduce(MakeReduce(1));
    EXPECT_EQ(host_->last_reduce()->SerializeAsString(), MakeReduce(1).SerializeAsString());
  });
  const std::string synced = WaitFor(PeerMessage::kSyncDone).SerializeAsString();
  On([&] {
    EXPECT_TRUE(host_->goes_on());
    EXPECT_TRUE(host_->synced());
    EXPECT_EQ(host_->in_progress()->applied, 1u);
    owner_.told.clear();
    host_->OnReduce(MakeReduce(1));
    ASSERT_EQ(owner_.told.size(), 1u);
    EXPECT_EQ(owner_.told.front().SerializeAsString(), synced);
    // The scheduler does not go on with it after all, but somebody has heard its Apply.
    host_->Hold();
    EXPECT_FALSE(host_->goes_on());
    control::v1::Apply apply = order_;
    apply.set_step(1);
    host_->ApplyHeld(apply);
  });
  EXPECT_TRUE(WaitUntil(control_.get(), [this] { return host_->held() == 2u; }));
}

TEST_F(StageHostTest, AStageThatIsNotLoadedCannotBeSaved) {
  owner_.connected = false;
  On([this] {
    const control::v1::Plan plan = MakePlan(0);
    host_ = std::make_unique<StageHost>(resources_, &owner_, plan, plan.positions(0));
    host_->Close(3, [] {});
  });
  EXPECT_THAT(WaitFor(PeerMessage::kCheckpointDone).checkpoint_done().error(),
              HasSubstr("not loaded"));
}

TEST_F(StageHostTest, SaysWhyAPlanFails) {
  control::v1::Plan plan = MakePlan(0);
  plan.mutable_artefacts(0)->set_hash("short");
  EXPECT_THAT(FailureOf(plan), HasSubstr("embedding has a hash of a wrong length"));

  plan = MakePlan(0);
  plan.mutable_artefacts()->RemoveLast();
  EXPECT_THAT(FailureOf(plan), HasSubstr("no data"));

  plan = MakePlan(0);
  plan.mutable_artefacts()->erase(plan.mutable_artefacts()->begin());
  EXPECT_THAT(FailureOf(plan), HasSubstr("embedding"));

  plan = MakePlan(0);
  plan.mutable_config()->set_row_tokens(7);
  EXPECT_THAT(FailureOf(plan), HasSubstr("rows"));

  plan = MakePlan(0);
  plan.mutable_config()->set_forward_codec("magic");
  EXPECT_THAT(FailureOf(plan), HasSubstr("magic"));

  plan = MakePlan(0);
  plan.mutable_config()->set_model_config_json("{}");
  EXPECT_THAT(FailureOf(plan), HasSubstr("config.json"));

  plan = MakePlan(0);
  plan.mutable_positions(0)->set_last_layer(9);
  EXPECT_THAT(FailureOf(plan), HasSubstr("layer"));

  plan = MakePlan(0);
  plan.mutable_config()->set_stages(0);
  EXPECT_THAT(FailureOf(plan), HasSubstr("number of stages is 0"));

  plan = MakePlan(0);
  std::string small = kConfig;
  small.replace(small.find("1024"), 4, "1000");
  plan.mutable_config()->set_model_config_json(small);
  EXPECT_NE(FailureOf(plan), "it did not fail");

  On([this] { owner_.connected = false; });
  EXPECT_THAT(FailureOf(MakePlan(0)), HasSubstr("not connected"));
}

// Too little for the stage, then for its first forward, then enough: each plan ends with one reason
// and leaves nothing behind that the next one lacks.
TEST_F(StageHostTest, OutOfMemoryEndsAPlanAndTheNextOneTrains) {
  const model::TorchDevice cpu = model::ChooseDevice("cpu").value();
  const auto limit = [&](std::uint64_t bytes) {
    RunOn(compute_.get(), [] { return 0; });  // the memory of the stage before is free
    ASSERT_TRUE(model::LimitDeviceMemory(cpu, bytes).ok());
  };
  const auto failure = [&] {
    const std::string error = WaitFor(PeerMessage::kPlanFailed).plan_failed().error();
    EXPECT_THAT(error, HasSubstr("out of memory"));
    EXPECT_THAT(error, HasSubstr("the largest item: weights, gradients and moments"));
    EXPECT_THAT(error, HasSubstr("limits.device_memory"));
    On([&] {
      EXPECT_EQ(owner_.states.back(), std::pair(PeerState::kWaiting, error));
      host_.reset();
    });
    return error;
  };
  limit(64 << 10);
  Start(MakePlan(0));
  EXPECT_THAT(failure(), HasSubstr("loading the stage"));
  limit(0);
  Start(MakePlan(1));
  WaitFor(PeerMessage::kPlanReady);
  // All that it has, and a little.
  limit(RunOn(control_.get(), [this] { return host_->budget().state_bytes; }) + (40 << 10));
  On([this] {
    control::v1::StepPlan plan;
    plan.set_generation(2);
    plan.set_step(1);
    auto* micro_batch = plan.add_pipelines()->add_micro_batches();
    for (const std::uint64_t sample : {0, 1}) micro_batch->add_samples(sample);
    host_->OnStepPlan(plan);
  });
  EXPECT_THAT(failure(), HasSubstr("forward failed"));
  limit(0);
  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  EXPECT_NE(Step(0), 0u);
}

TEST_F(StageHostTest, WrongStepPlansFailThePlanOnce) {
  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  On([this] {
    control::v1::StepPlan plan;
    plan.set_step(7);
    plan.add_pipelines();
    host_->OnStepPlan(plan);
    host_->OnStepPlan(plan);
  });
  EXPECT_THAT(WaitFor(PeerMessage::kPlanFailed).plan_failed().error(), HasSubstr("step 7"));
  On([this] {
    EXPECT_EQ(std::count_if(owner_.told.begin(), owner_.told.end(),
                            [](const PeerMessage& m) { return m.has_plan_failed(); }),
              1);
  });
}

TEST_F(StageHostTest, DestroyedWhileLoadingItSaysNothingMore) {
  // Posted before the artefact comes, so that a fast machine cannot load it first.
  client_.on_first_fetch = [this] { control_->Post("destroy", [this] { host_.reset(); }); };
  Start(MakePlan(0));
  ASSERT_TRUE(WaitUntil(control_.get(), [this] { return client_.offsets.size() > 0 && !host_; }));
  RunOn(store_.get(), [] { return 0; });
  RunOn(compute_.get(), [] { return 0; });
  On([this] { EXPECT_TRUE(owner_.told.empty()); });
}

}  // namespace
}  // namespace shoal::daemon
