// A StageHost with real stores and a scheduler that the test plays.

#ifndef SHOAL_TESTS_UNIT_DAEMON_STAGE_HOST_FIXTURE_H_
#define SHOAL_TESTS_UNIT_DAEMON_STAGE_HOST_FIXTURE_H_

#include <gmock/gmock.h>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include "common/file.h"
#include "daemon/stage_host.h"
#include "daemon_test_util.h"
#include "dataset/prepare/prepare_data.h"
#include "model/families/open_model.h"
#include "model/init_weights.h"
#include "model/torch_device.h"
#include "net/links/grpc_link_hub.h"
#include "storage/models/model_directory.h"
#include "tests/support/fake_control_client.h"
#include "tests/unit/daemon/stage_host_owner.h"

namespace shoal::daemon {

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
    resources_.delta_store = deltas_.get();
    resources_.saver = (saver_ = MakeSaver(resources_, checkpoints_.get(), &owner_, &host_)).get();
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
      saver_->Close();
      host_.reset();
      hub_.reset();
    });
    for (auto* const executor : {&compute_, &codec_, &store_}) executor->reset();
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

  control::v1::StepPlan MakeStepPlan(std::uint64_t step) const {
    control::v1::StepPlan plan;
    plan.set_generation(host_->plan().generation());
    plan.set_step(step);
    auto* pipeline = plan.add_pipelines();
    for (std::uint32_t index = 0; index < 2; ++index) {
      auto* micro_batch = pipeline->add_micro_batches();
      micro_batch->set_global_index(index);
      micro_batch->add_samples(step * 4 + index * 2);
      micro_batch->add_samples(step * 4 + index * 2 + 1);
    }
    return plan;
  }
  static control::v1::Reduce MakeReduce(std::uint64_t step) {
    control::v1::Reduce reduce;
    reduce.set_step(step);
    reduce.add_pipelines(0);
    return reduce;
  }

  // One whole step; the checksum of the weights after it.
  std::uint64_t Step(std::uint64_t step) {
    On([this] { owner_.told.clear(); });
    On([&] { host_->OnStepPlan(MakeStepPlan(step)); });
    const control::v1::StepReady ready = WaitFor(PeerMessage::kStepReady).step_ready();
    EXPECT_EQ(ready.step(), step);
    EXPECT_EQ(ready.micro_batches(), 2u);
    EXPECT_EQ(ready.labels(), 4 * kRowTokens);
    EXPECT_NEAR(ready.loss_sum() / static_cast<double>(ready.labels()), std::log(kVocabulary), 0.5);
    On([&] { host_->OnReduce(MakeReduce(step)); });
    const control::v1::SyncDone done = WaitFor(PeerMessage::kSyncDone).sync_done();
    EXPECT_GT(done.squared_norm(), 0);
    control::v1::Apply apply;
    apply.set_step(step);
    apply.set_global_norm(std::sqrt(done.squared_norm()) / static_cast<double>(ready.labels()));
    apply.set_learning_rate(1e-3);
    apply.set_labels(ready.labels());
    apply.set_checkpoint(checkpoint_);
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
  std::unique_ptr<CheckpointSaver> saver_;
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

}  // namespace shoal::daemon

#endif  // SHOAL_TESTS_UNIT_DAEMON_STAGE_HOST_FIXTURE_H_
