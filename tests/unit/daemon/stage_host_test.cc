// One generation of a run with a single stage: model, stores and hub are real, only the scheduler
// is played by the test.

#include "daemon/stage_host.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include "common/file.h"
#include "daemon_test_util.h"
#include "dataset/prepare/prepare_data.h"
#include "model/families/open_model.h"
#include "model/init_weights.h"
#include "model/torch_device.h"
#include "net/links/grpc_link_hub.h"
#include "storage/models/model_directory.h"
#include "tests/support/fake_control_client.h"

namespace shoal::daemon {
namespace {

namespace fs = std::filesystem;
using control::v1::PeerMessage;
using test_support::FakeControlClient;
using testing::HasSubstr;

constexpr std::uint32_t kRowTokens = 8;
constexpr std::uint32_t kVocabulary = 1024;
constexpr const char* kConfig =
    R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"n_layer":1,"n_embd":16,)"
    R"("n_head":2,"n_positions":8,"vocab_size":1024,"activation_function":"gelu_new"})";

struct FakeOwner final : StageHost::Owner {
  net::ControlClient* client() override { return connected ? &*fake : nullptr; }
  void Tell(PeerMessage message) override { told.push_back(std::move(message)); }
  void OnStageState(PeerState state, const std::string& reason) override {
    states.emplace_back(state, reason);
  }
  // The newest message of a kind.
  const PeerMessage* Told(PeerMessage::KindCase kind) const {
    for (auto message = told.rbegin(); message != told.rend(); ++message) {
      if (message->kind_case() == kind) return &*message;
    }
    return nullptr;
  }

  FakeControlClient* fake = nullptr;
  bool connected = true;
  std::vector<PeerMessage> told;
  std::vector<std::pair<PeerState, std::string>> states;
};

class StageHostTest : public testing::Test {
 protected:
  StageHostTest() {
    Prepare();
    owner_.fake = &client_;
    resources_.control = control_.get();
    resources_.compute = compute_.get();
    resources_.codec = codec_.get();
    resources_.store = store_.get();
    content_ = storage::OpenFileContentStore(At("content")).value();
    checkpoints_ = storage::OpenCheckpointStore(At("checkpoints")).value();
    deltas_ = storage::OpenRocksDeltaStore({.path = At("deltas")}).value();
    resources_.content = content_.get();
    resources_.checkpoints = checkpoints_.get();
    resources_.delta_store = deltas_.get();
    config_.device = "cpu";
    config_.threads = 1;
    resources_.config = &config_;
    identity_ = net::LoadOrCreateIdentity(folder_.path()).value();
    net::LinkHubOptions options;
    options.listen = "127.0.0.1:0";
    options.identity = identity_;
    options.upload = options.download = std::make_shared<net::RateLimiter>(&SystemClock());
    hub_ =
        RunOn(control_.get(), [&] { return net::NewGrpcLinkHub(options, control_.get()).value(); });
    resources_.hub = hub_.get();
  }
  ~StageHostTest() override {
    On([this] {
      host_.reset();
      hub_.reset();
    });
    compute_.reset();
    codec_.reset();
    store_.reset();
  }

  std::string At(const std::string& name) const { return folder_.path() + "/" + name; }
  template <typename Task>
  void On(Task task) {
    RunOn(control_.get(), [&task] {
      task();
      return 0;
    });
  }

  // Fresh weights by parts, and rows of a text, as the scheduler would offer them.
  void Prepare() {
    fs::create_directories(At("source"));
    for (const char* file : {"tokenizer.json", "vocab.json", "merges.txt"}) {
      fs::copy_file(SourceFile(std::string("examples/tiny-gpt2/") + file), At("source/") + file);
    }
    ASSERT_TRUE(WriteFileAtomic(At("source/config.json"), kConfig).ok());
    Status status = model::InitModelDirectory(At("source/config.json"), At("model"), 5);
    ASSERT_TRUE(status.ok()) << status.ToString();
    const auto opened = model::OpenModel(At("model")).value();
    for (const std::string& part : opened.spec.PartNames()) {
      status = storage::WritePart(At(part), opened.directory->Part(part).value());
      ASSERT_TRUE(status.ok()) << status.ToString();
      Offer(part, At(part));
    }
    std::string text;
    for (int i = 0; i < 100; ++i) text += "the ship and the sea, line " + std::to_string(i) + "\n";
    ASSERT_TRUE(WriteFileAtomic(At("text.txt"), text).ok());
    dataset::PrepareOptions options;
    options.tokenizer_directory = At("model");
    options.text_files = {At("text.txt")};
    options.row_tokens = kRowTokens;
    options.output = At("data.shoal");
    options.threads = 1;
    const auto report = dataset::PrepareData(options);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    Offer("data", At("data.shoal"));
  }
  void Offer(const std::string& name, const std::string& path) {
    const std::string bytes = ReadFile(path, 64 << 20).value();
    const auto hash = storage::HashOf(std::as_bytes(std::span(bytes.data(), bytes.size()))).digest;
    control::v1::ArtefactRef ref;
    ref.set_name(name);
    ref.set_hash(std::string(hash.begin(), hash.end()));
    ref.set_size(bytes.size());
    offered_.push_back(ref);
    client_.blobs[ref.hash()] = bytes;
  }

  control::v1::Plan MakePlan(std::uint64_t resume_step) {
    control::v1::Plan plan;
    plan.set_generation(1 + resume_step);
    plan.set_resume_step(resume_step);
    control::v1::RunConfig* run = plan.mutable_config();
    run->set_run(0xabc);
    run->set_model_config_json(kConfig);
    run->set_steps(10);
    run->set_seed(1);
    run->set_stages(1);
    run->set_pipelines(1);
    run->set_micro_batches(2);
    run->set_micro_batch_rows(2);
    run->set_row_tokens(kRowTokens);
    run->set_forward_codec("aqsgd:bits=4");
    run->set_backward_codec("direct:bits=8");
    run->set_compute("auto");
    run->set_beta1(0.9);
    run->set_beta2(0.999);
    run->set_epsilon(1e-8);
    run->set_weight_decay(0.01);
    run->set_clip_norm(1);
    run->set_checkpoint_keep(2);
    control::v1::Position* own = plan.add_positions();
    own->set_peer(identity_->id.key.data(), identity_->id.key.size());
    own->set_last_layer(1);
    for (const auto& ref : offered_) *plan.add_artefacts() = ref;
    return plan;
  }
  void Start(const control::v1::Plan& plan) {
    On([&] {
      owner_.told.clear();
      owner_.states.clear();
      host_ = std::make_unique<StageHost>(resources_, &owner_, plan, plan.positions(0));
      host_->Start();
    });
  }
  // A copy of the message once it was told; an empty one, and a failed test, if the plan failed.
  PeerMessage WaitFor(PeerMessage::KindCase kind) {
    EXPECT_TRUE(WaitUntil(control_.get(), [&] {
      return owner_.Told(kind) != nullptr || owner_.Told(PeerMessage::kPlanFailed) != nullptr;
    }));
    return RunOn(control_.get(), [&] {
      const PeerMessage* failed = owner_.Told(PeerMessage::kPlanFailed);
      if (failed != nullptr && kind != PeerMessage::kPlanFailed) {
        ADD_FAILURE() << failed->plan_failed().error();
      }
      const PeerMessage* message = owner_.Told(kind);
      return message == nullptr ? PeerMessage() : *message;
    });
  }
  std::string FailureOf(const control::v1::Plan& plan) {
    Start(plan);
    EXPECT_TRUE(WaitUntil(control_.get(), [this] {
      return owner_.Told(PeerMessage::kPlanFailed) != nullptr ||
             owner_.Told(PeerMessage::kPlanReady) != nullptr;
    }));
    return RunOn(control_.get(), [this]() -> std::string {
      const PeerMessage* failed = owner_.Told(PeerMessage::kPlanFailed);
      if (failed == nullptr) return "it did not fail";
      EXPECT_EQ(owner_.states.back().first, PeerState::kWaiting);
      EXPECT_EQ(failed->plan_failed().generation(), host_->plan().generation());
      return failed->plan_failed().error();
    });
  }

  // One whole step; the checksum of the weights after it.
  std::uint64_t Step(std::uint64_t step) {
    const std::uint64_t generation = RunOn(control_.get(), [this] {
      owner_.told.clear();
      return host_->plan().generation();
    });
    control::v1::StepPlan plan;
    plan.set_generation(generation);
    plan.set_step(step);
    auto* pipeline = plan.add_pipelines();
    for (std::uint32_t index = 0; index < 2; ++index) {
      auto* micro_batch = pipeline->add_micro_batches();
      micro_batch->set_global_index(index);
      micro_batch->add_samples(step * 4 + index * 2);
      micro_batch->add_samples(step * 4 + index * 2 + 1);
    }
    On([&] { host_->OnStepPlan(plan); });
    const control::v1::StepReady ready = WaitFor(PeerMessage::kStepReady).step_ready();
    EXPECT_EQ(ready.step(), step);
    EXPECT_EQ(ready.micro_batches(), 2u);
    EXPECT_EQ(ready.labels(), 4 * kRowTokens);
    EXPECT_NEAR(ready.loss_sum() / static_cast<double>(ready.labels()), std::log(kVocabulary), 0.5);
    control::v1::Reduce reduce;
    reduce.set_step(step);
    reduce.add_pipelines(0);
    On([&] { host_->OnReduce(reduce); });
    const control::v1::SyncDone done = WaitFor(PeerMessage::kSyncDone).sync_done();
    EXPECT_GT(done.squared_norm(), 0);
    control::v1::Apply apply;
    apply.set_step(step);
    apply.set_global_norm(std::sqrt(done.squared_norm()) / static_cast<double>(ready.labels()));
    apply.set_learning_rate(1e-3);
    apply.set_labels(ready.labels());
    apply.set_checkpoint(checkpoint_);
    apply.set_upload(checkpoint_);
    apply.set_check_weights(true);
    apply.set_skip(skip_);
    if (skip_) apply.set_global_norm(std::nan(""));
    order_ = apply;
    if (!apply_) return 0;
    On([&] { host_->OnApply(apply); });
    const control::v1::Applied applied = WaitFor(PeerMessage::kApplied).applied();
    EXPECT_EQ(applied.step(), step);
    EXPECT_NE(applied.weight_checksum(), 0u);
    return applied.weight_checksum();
  }

  const TemporaryFolder folder_;
  std::unique_ptr<Executor> control_ = NewThreadExecutor("control");
  std::unique_ptr<storage::ContentStore> content_;
  std::unique_ptr<storage::CheckpointStore> checkpoints_;
  std::unique_ptr<storage::DeltaStore> deltas_;
  std::unique_ptr<Executor> compute_ = NewThreadExecutor("compute");
  std::unique_ptr<Executor> codec_ = NewThreadPool("codec", 1);
  std::unique_ptr<Executor> store_ = NewThreadExecutor("store");
  std::shared_ptr<const net::Identity> identity_;
  std::unique_ptr<net::LinkHub> hub_;
  DaemonConfig config_;
  StageResources resources_;
  FakeControlClient client_{control_.get()};
  FakeOwner owner_;
  std::vector<control::v1::ArtefactRef> offered_;
  std::unique_ptr<StageHost> host_;
  bool checkpoint_ = true;  // every step ends with one
  bool skip_ = false;
  bool apply_ = true;
  control::v1::Apply order_;  // of the newest step
};

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
  for (const auto& file : first.files()) {
    const std::string& bytes = client_.uploads.at(file.hash());
    EXPECT_EQ(bytes.size(), file.size()) << file.name();
    const auto hash = storage::HashOf(std::as_bytes(std::span(bytes.data(), bytes.size()))).digest;
    EXPECT_EQ(std::string(hash.begin(), hash.end()), file.hash()) << file.name();
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
  const auto close = [&](std::uint64_t step, bool upload) {
    On([&] {
      owner_.told.clear();
      host_->Close(step, upload, [&told] { ++told; });
      EXPECT_TRUE(host_->closing());
    });
    return WaitFor(PeerMessage::kCheckpointDone).checkpoint_done();
  };
  const auto saved = close(2, false);
  EXPECT_EQ(saved.error(), "");
  EXPECT_EQ(saved.step(), 2u);
  EXPECT_EQ(saved.files_size(), 0);
  EXPECT_TRUE(client_.uploads.empty());
  EXPECT_TRUE(fs::exists(At("checkpoints/0000000000000abc/step-000000000002/manifest.json")));
  // Another member could not upload: it does, what it saved.
  On([&] {
    EXPECT_FALSE(host_->closing());
    owner_.told.clear();
    host_->Close(2, true, nullptr);
  });
  const auto uploaded = WaitFor(PeerMessage::kCheckpointDone).checkpoint_done();
  ASSERT_EQ(uploaded.files_size(), 6);
  EXPECT_EQ(client_.uploads.size(), 6u);
  EXPECT_EQ(told, 1);

  const control::v1::ArtefactRef data = offered_.back();
  offered_.assign(uploaded.files().begin(), uploaded.files().end());
  offered_.push_back(data);
  const std::size_t fetches = client_.offsets.size();
  Start(MakePlan(2));
  WaitFor(PeerMessage::kPlanReady);
  EXPECT_EQ(client_.offsets.size(), fetches);
  EXPECT_NE(Step(2), after);
  // What it does not hold it does not save.
  EXPECT_THAT(close(2, true).error(), HasSubstr("its stage is that of 3 steps, not of 2"));
  EXPECT_EQ(told, 2);
}

TEST_F(StageHostTest, GoesOnInPlaceWithoutFetchingToTheSameWeights) {
  checkpoint_ = false;
  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  Step(0);
  const std::uint64_t after = Step(1);
  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  Step(0);
  const std::size_t fetches = client_.offsets.size();
  // The scheduler goes when all have agreed on the step, and comes back to order it.
  apply_ = false;
  Step(1);
  On([this] { host_->Hold(); });
  ASSERT_TRUE(WaitUntil(control_.get(), [this] { return host_->held() == 1; }));
  On([this] {
    EXPECT_TRUE(host_->synced());
    EXPECT_EQ(host_->last_apply()->step(), 0u);
    control::v1::Apply other = order_;
    other.set_step(2);
    host_->ApplyHeld(other);
    EXPECT_EQ(host_->held(), 1u);
    host_->ApplyHeld(order_);
  });
  ASSERT_TRUE(WaitUntil(control_.get(), [this] { return host_->held() == 2; }));
  apply_ = true;

  control::v1::Plan plan = MakePlan(2);
  plan.set_in_place(true);
  plan.clear_artefacts();
  On([&] {
    EXPECT_FALSE(host_->synced());
    owner_.told.clear();
    auto next = std::make_unique<StageHost>(resources_, &owner_, plan, plan.positions(0));
    next->StartInPlace(host_.get());
    host_ = std::move(next);
  });
  EXPECT_EQ(WaitFor(PeerMessage::kPlanReady).plan_ready().generation(), 3u);
  EXPECT_EQ(client_.offsets.size(), fetches);
  Step(2);
  const std::uint64_t third = Step(3);

  // The same without an interruption.
  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  Step(0);
  EXPECT_EQ(Step(1), after);
  Step(2);
  EXPECT_EQ(Step(3), third);
}

TEST_F(StageHostTest, APlanInPlaceNeedsWhatItSays) {
  checkpoint_ = false;
  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  Step(0);
  On([this] { host_->Hold(); });
  ASSERT_TRUE(WaitUntil(control_.get(), [this] { return host_->held() == 1; }));
  const auto fails = [this](const control::v1::Plan& plan) {
    On([&] {
      owner_.told.clear();
      StageHost next(resources_, &owner_, plan, plan.positions(0));
      next.StartInPlace(host_.get());
    });
    return WaitFor(PeerMessage::kPlanFailed).plan_failed().error();
  };
  control::v1::Plan plan = MakePlan(2);
  plan.set_in_place(true);
  EXPECT_THAT(fails(plan), HasSubstr("does not hold its stage after 2 steps"));
  plan.set_resume_step(1);
  plan.mutable_config()->set_seed(99);
  EXPECT_THAT(fails(plan), HasSubstr("of another place or configuration"));
  plan.clear_artefacts();
  EXPECT_THAT(FailureOf(plan), HasSubstr("holds no stage any more"));
}

TEST_F(StageHostTest, AStageThatIsNotLoadedCannotBeSaved) {
  owner_.connected = false;
  On([this] {
    const control::v1::Plan plan = MakePlan(0);
    host_ = std::make_unique<StageHost>(resources_, &owner_, plan, plan.positions(0));
    host_->Close(3, true, [] {});
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
