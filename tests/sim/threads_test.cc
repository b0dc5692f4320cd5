// Two stages on real threads, linked in memory: every event of a micro-batch happens on the thread
// that docs/ARCHITECTURE.md names, and (under the thread sanitizer) nothing is shared by accident.

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "common/trace.h"
#include "pipeline/core/inventory.h"
#include "pipeline/runner/stage_runner.h"
#include "storage/delta/delta_store.h"
#include "tests/support/device_stage.h"
#include "tests/support/loop_links.h"
#include "tests/support/tiny_stage.h"

namespace shoal::pipeline {
namespace {

using test_support::TinyShape;
using test_support::TinyStage;

constexpr RunId kRun{7};
constexpr std::uint64_t kSteps = 4;
constexpr std::uint32_t kMicroBatches = 3;
constexpr char kGradientsWithM[] =
    "aqsgd:delta=dithered:step=0.5/of=values,first_visit=dithered:step=0.5";

// One control thread for both stages: each stage has compute, codec and store threads of its own.
class TwoStages {
 public:
  struct Stage final : StageRunner::Mediator {
    TwoStages* swarm = nullptr;
    // Before the threads, which end what still runs on them.
    std::unique_ptr<storage::DeltaStore> store = storage::NewMemoryDeltaStore(0);
    std::unique_ptr<TinyStage> model;
    std::unique_ptr<Executor> compute = NewThreadExecutor("compute");
    std::unique_ptr<Executor> codec = NewThreadPool("codec", 2);
    std::unique_ptr<Executor> store_thread = NewThreadExecutor("store");
    std::unique_ptr<StageRunner> runner;

    void OnReady() override { swarm->OnReady(); }
    void OnStepReady(const StepReady& ready) override { swarm->OnStepReady(ready); }
    void OnSyncDone(std::uint64_t step, std::uint32_t, double) override { swarm->OnSyncDone(step); }
    void OnApplied(std::uint64_t step, const std::vector<BoundaryChecksum>& places) override {
      swarm->OnApplied(step, places);
    }
    void OnFailed(Status status, const PeerId*) override { swarm->End(status.ToString()); }
  };

  // `on_device`: values of the first stage lie on a device.
  explicit TwoStages(std::string backward = "direct:bits=8", bool on_device = false)
      : backward_(std::move(backward)),
        on_device_(on_device),
        data_(test_support::NewTinyData(shape_, 64)) {
    for (std::uint32_t s = 0; s < 2; ++s) MakeStage(s);
  }
  ~TwoStages() {
    Wait([this] {
      for (Stage& stage : stages_) stage.runner.reset();
    });
  }

  // Trains; empty, or why not.
  std::string Train() {
    Wait([this] {
      for (std::uint32_t s = 0; s < 2; ++s) stages_[s].runner->Start(Targets(s));
    });
    std::unique_lock lock(mutex_);
    if (!ended_.wait_for(lock, std::chrono::minutes(2), [this] { return over_; })) return "hangs";
    return why_;
  }
  // After Train.
  std::uint64_t WeightChecksum(std::uint32_t s) const { return stages_[s].model->WeightChecksum(); }
  void End(const std::string& why) {
    std::lock_guard lock(mutex_);
    if (!std::exchange(over_, true)) why_ = why;
    ended_.notify_all();
  }

 private:
  void Wait(std::function<void()> task) {
    std::mutex mutex;
    std::condition_variable done;
    bool ran = false;
    control_->Post("test", [&] {
      task();
      std::lock_guard lock(mutex);
      ran = true;
      done.notify_all();
    });
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return ran; });
  }
  void MakeStage(std::uint32_t s) {
    Stage& stage = stages_[s];
    stage.swarm = this;
    const model::StageRange range{2 * s, 2 * s + 2};
    std::shared_ptr<const compression::ValueHome> home;
    if (on_device_ && s == 0) {
      const auto device = std::make_shared<test_support::FakeDevice>();
      stage.model = std::make_unique<test_support::DeviceStage>(shape_, range, 5, device);
      home = test_support::ValuesOf(device);
    } else {
      stage.model = std::make_unique<TinyStage>(shape_, range, 5);
    }
    RunnerConfig config;
    config.run = kRun;
    config.generation = 1;
    config.stage = s;
    config.stages = 2;
    config.sharing = {0, 1};
    config.micro_batch_rows = 2;
    config.row_tokens = shape_.row_tokens;
    config.hidden = shape_.hidden;
    config.forward_codec = "aqsgd:bits=4";
    config.backward_codec = backward_;
    StageRunner::Dependencies deps{
        {control_.get(), stage.compute.get(), stage.codec.get(), stage.store_thread.get(), &hub_,
         stage.model.get(), stage.store.get(), data_, home},
        &stage};
    auto runner = NewStageRunner(config, deps);
    ASSERT_TRUE(runner.ok()) << runner.status().ToString();
    stage.runner = std::move(*runner);
  }
  LinkTargets Targets(std::uint32_t s) const {
    LinkTargets targets;
    net::LinkTarget& boundary = s == 0 ? targets.next : targets.previous;
    boundary.peer.key[0] = static_cast<std::uint8_t>(2 - s);
    boundary.run = kRun;
    boundary.generation = 1;
    targets.shared = {net::LinkTarget(), net::LinkTarget()};
    targets.shared[1 - s] = boundary;
    targets.shared[1 - s].channel = "shared/0.0-1.0";
    boundary.channel = "boundary/0/0";
    return targets;
  }
  StepPlan PlanOf(std::uint64_t step) const {
    StepPlan plan;
    plan.step = step;
    for (std::uint32_t j = 0; j < kMicroBatches; ++j) {
      const std::uint64_t row = (step % 2) * 2 * kMicroBatches + 2 * j;
      plan.micro_batches.push_back({j, {{row}, {row + 1}}});
    }
    return plan;
  }
  bool Second() { return ++count_ % 2 == 0; }
  void OnReady() {
    if (!Second()) return;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      for (Stage& stage : stages_) stage.runner->OnStepPlan(PlanOf(step));
    }
  }
  void OnStepReady(const StepReady& ready) {
    labels_ += ready.labels;
    if (!Second()) return;
    for (Stage& stage : stages_) stage.runner->OnReduce({ready.step, {0}});
  }
  void OnSyncDone(std::uint64_t step) {
    if (!Second()) return;
    const replica::ApplyOrder order{step, 1.0, 0.1, std::exchange(labels_, 0)};
    for (Stage& stage : stages_) stage.runner->OnApply(order);
  }
  void OnApplied(std::uint64_t step, const std::vector<BoundaryChecksum>& places) {
    for (const BoundaryChecksum& boundary_end : SharedChecksums(places)) {
      const auto [found, first] = checksums_.try_emplace(step, boundary_end.checksum);
      if (!first && found->second != boundary_end.checksum) End("m differs");
    }
    if (++applied_ == 2 * kSteps) End("");
  }

  const std::string backward_;
  const bool on_device_;
  const TinyShape shape_;
  std::unique_ptr<Executor> control_ = NewThreadExecutor("control");
  test_support::LoopNet loop_{control_.get()};
  test_support::LoopHub hub_{&loop_};
  std::shared_ptr<const dataset::PreparedData> data_;
  // Control thread only.
  std::uint64_t count_ = 0, labels_ = 0, applied_ = 0;
  std::map<std::uint64_t, std::uint64_t> checksums_;
  Stage stages_[2];  // after control_: their threads end first

  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::string why_;
};

TEST(ThreadsTest, AMicroBatchPassesExactlyTheDocumentedEventsOnTheDocumentedThreads) {
  StartTrace(100000);
  std::string why;
  {
    TwoStages swarm;
    why = swarm.Train();
  }
  const std::vector<TraceEvent> events = TakeTrace();
  ASSERT_EQ(why, "");
  const std::multiset<std::pair<std::string, std::string>> expected = {
      {"delta.prefetched", "store"}, {"delta.prefetched", "store"}, {"mb.scheduled", "control"},
      {"mb.forward", "compute"},     {"act.encoded", "codec"},      {"act.sent", "control"},
      {"act.received", "control"},   {"act.decoded", "codec"},      {"mb.scheduled", "control"},
      {"mb.forward", "compute"},     {"mb.backward", "compute"},    {"grad.encoded", "codec"},
      {"grad.sent", "control"},      {"grad.received", "control"},  {"grad.decoded", "codec"},
      {"mb.backward", "compute"}};
  const MicroBatchId followed{2, 1};
  std::multiset<std::pair<std::string, std::string>> seen;
  std::map<std::string, TimePoint> first;
  int commits = 0, weights = 0;
  for (const TraceEvent& event : events) {
    const std::string thread = event.thread.substr(0, event.thread.find('-'));
    if (std::string(event.name) == "delta.committed") {
      EXPECT_EQ(thread, "store");
      ++commits;
    } else if (event.micro_batch == followed && std::string(event.name) == "mb.weights") {
      EXPECT_EQ(thread, "compute");
      ++weights;
    } else if (event.micro_batch == followed) {
      seen.emplace(event.name, thread);
      first.try_emplace(event.name, event.start);
    }
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(commits, static_cast<int>(2 * kSteps));
  EXPECT_EQ(weights, 4 + 2);  // a part per layer, and one at each stage for embedding and head
  const char* const order[] = {"mb.scheduled", "mb.forward",    "act.encoded", "act.sent",
                               "act.received", "act.decoded",   "mb.backward", "grad.encoded",
                               "grad.sent",    "grad.received", "grad.decoded"};
  for (std::size_t i = 1; i < std::size(order); ++i) {
    EXPECT_LE(first[order[i - 1]], first[order[i]]) << order[i - 1] << " after " << order[i];
  }
}

TEST(ThreadsTest, ADeviceServesTheThreadsThatAskIt) {
  TwoStages host, there("direct:bits=8", /*on_device=*/true);
  EXPECT_EQ(host.Train(), "");
  EXPECT_EQ(there.Train(), "");
  EXPECT_EQ(there.WeightChecksum(0), host.WeightChecksum(0));
  EXPECT_EQ(there.WeightChecksum(1), host.WeightChecksum(1));
}

TEST(ThreadsTest, GradientsWithMAreTheSameAtBothEnds) {
  TwoStages swarm(kGradientsWithM);
  EXPECT_EQ(swarm.Train(), "");
}

TEST(ThreadsTest, DestructionWhileEverythingRunsIsSafe) {
  for (int i = 0; i < 20; ++i) {
    auto swarm = std::make_unique<TwoStages>(i % 3 == 0   ? "topk:ratio=0.2,bits=8,feedback=on"
                                             : i % 3 == 1 ? "lowrank:rank=2,epilogue=false,lazy=on"
                                                          : kGradientsWithM,
                                             /*on_device=*/i % 4 < 2);
    std::thread ender([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(150 * i));
      swarm->End("stopped by the test");
    });
    const std::string outcome = swarm->Train();
    ender.join();
    swarm.reset();
    EXPECT_TRUE(outcome.empty() || outcome == "stopped by the test") << outcome;
  }
}

}  // namespace
}  // namespace shoal::pipeline
