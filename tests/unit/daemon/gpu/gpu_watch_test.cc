#include "daemon/gpu/gpu_watch.h"

#include <gmock/gmock.h>

#include "daemon/gpu/gpu_users.h"
#include "tests/support/on_executor.h"
#include "tests/support/sim_executor.h"
#include "tests/unit/daemon/terms/fake_machine.h"

namespace shoal::daemon {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

class FakeDriver final : public GpuDriver {
 public:
  GpuReading Read(bool processes) override {
    ++reads;
    GpuReading told = reading;
    if (!processes) told.processes.clear();
    return told;
  }
  Status LimitPower(std::uint32_t watts) override {
    limits.push_back(watts);
    return refuses;
  }

  GpuReading reading;
  Status refuses = Status::Ok();
  std::vector<std::uint32_t> limits;
  int reads = 0;
};

std::string UserOf(std::vector<GpuProcess> processes) {
  FakeMachine machine;
  machine.programs_by_pid = {{20, "gnome-shell"}, {21, "Xorg"}, {30, "blender"}, {31, "game"}};
  return GpuUser(processes, machine);
}

TEST(GpuUser, IsWhoTakesMostOfIt) {
  EXPECT_EQ(UserOf({}), "");
  EXPECT_EQ(UserOf({{30, 1 << 20, 12}, {31, 1 << 20, 80}}), "game");
  EXPECT_EQ(UserOf({{31, 1 << 20, 80}, {30, 1 << 20, 12}}), "game");
}

TEST(GpuUser, IsNeitherThisPeerNorTheDesktopNorWhoIdles) {
  EXPECT_EQ(UserOf({{10, 8ull << 30, 99}}), "") << "no other program";
  EXPECT_EQ(UserOf({{20, 2ull << 30, 40}, {21, 2ull << 30, 30}}), "");
  EXPECT_EQ(UserOf({{31, 6ull << 30, kGpuUserPercent - 1}}), "") << "in its menu";
  EXPECT_EQ(UserOf({{10, 8ull << 30, 99}, {20, 1 << 20, 40}, {30, 1 << 20, kGpuUserPercent}}),
            "blender");
}

TEST(GpuUser, IsKnownByItsMemoryWhereTimesAreNotTold) {
  EXPECT_EQ(UserOf({{31, kGpuUserBytes - 1, {}}, {20, 2ull << 30, {}}}), "");
  EXPECT_EQ(UserOf({{31, kGpuUserBytes, {}}, {30, 3ull << 30, {}}}), "blender");
}

class GpuWatchTest : public testing::Test, private GpuWatch::Owner {
 protected:
  void Start(bool has_driver = true, bool computes = false, Executor* thread = nullptr) {
    if (thread == nullptr) thread = thread_.get();
    GpuWatch::Owner* const owner = this;
    WatchedGpu gpu{has_driver ? driver_ : nullptr, thread, {}, computes};
    watch_ = std::make_unique<GpuWatch>(control_.get(), std::move(gpu), &machine_, owner);
  }
  void Pass(Duration time, bool users = false) {
    for (; time >= seconds(1); time -= seconds(1)) {
      watch_->Look(users);
      world_.At(world_.Now() + seconds(1), [] {});
      world_.RunUntil([] { return false; }, seconds(1));
    }
  }
  bool Trains() const override { return trains_; }
  void OnGpuUser(const std::string& program) override { seen_.push_back(program); }
  void OnGpuLost(const std::string& why) override { lost_.push_back(why); }

  test_support::SimWorld world_;
  const std::unique_ptr<Executor> control_ = world_.NewExecutor("control");
  const std::unique_ptr<Executor> thread_ = world_.NewExecutor("gpu");
  FakeMachine machine_;
  const std::shared_ptr<FakeDriver> driver_ = std::make_shared<FakeDriver>();
  bool trains_ = true;
  std::vector<std::string> seen_, lost_;
  std::unique_ptr<GpuWatch> watch_;
};

TEST_F(GpuWatchTest, LooksEveryFewSecondsAndTellsWhoUsesItIfAsked) {
  Start();
  driver_->reading.processes = {{30, 1 << 20, 50}};
  machine_.programs_by_pid = {{30, "blender"}};
  Pass(seconds(8));
  EXPECT_EQ(driver_->reads, 2);
  EXPECT_TRUE(seen_.empty());
  Pass(seconds(8), true);
  EXPECT_THAT(seen_, ElementsAre("blender", "blender"));
}

TEST_F(GpuWatchTest, PowerIsAddedUpWhileThePeerTrains) {
  Start();
  driver_->reading.power_mw = 100'000;
  Pass(kGpuLookEvery * 10);
  EXPECT_EQ(watch_->energy_mj(), 9u * 400'000);  // from the first look on
  trains_ = false;
  Pass(kGpuLookEvery * 10);
  EXPECT_EQ(watch_->energy_mj(), 9u * 400'000);
  trains_ = true;
  Pass(kGpuLookEvery * 2);
  EXPECT_EQ(watch_->energy_mj(), 10u * 400'000) << "not the pause";
}

TEST_F(GpuWatchTest, TheDriversOwnCounterGoesBeforeWhatIsAddedUp) {
  Start();
  driver_->reading.power_mw = 100'000;
  driver_->reading.energy_mj = 5'000'000;
  Pass(kGpuLookEvery);
  driver_->reading.energy_mj = 5'700'000;
  Pass(kGpuLookEvery);
  EXPECT_EQ(watch_->energy_mj(), 700'000u);
  driver_->reading.energy_mj = 1000;  // the driver was loaded anew
  Pass(kGpuLookEvery);
  EXPECT_EQ(watch_->energy_mj(), 1'100'000u);
}

TEST_F(GpuWatchTest, WhatIsNotToldIsNotInvented) {
  Start();
  Pass(kGpuLookEvery * 4);
  ASSERT_TRUE(watch_->reading());
  EXPECT_FALSE(watch_->reading()->power_mw);
  EXPECT_EQ(watch_->energy_mj(), 0u);
  Start(false);
  Pass(kGpuLookEvery * 4, true);
  EXPECT_FALSE(watch_->reading());
  EXPECT_TRUE(seen_.empty());
}

TEST_F(GpuWatchTest, ALimitIsSetOnceAndOnlyIfAskedFor) {
  Start();
  watch_->LimitPower(0);
  Pass(seconds(1));
  EXPECT_TRUE(driver_->limits.empty()) << "nobody asked to touch the card";
  watch_->LimitPower(200);
  watch_->LimitPower(200);
  Pass(seconds(1));
  EXPECT_EQ(watch_->power_text(), "GPU power 200 W at most");
  watch_->LimitPower(0);
  Pass(seconds(1));
  EXPECT_EQ(watch_->power_text(), "");
  EXPECT_THAT(driver_->limits, ElementsAre(200, 0));
}

TEST_F(GpuWatchTest, ARefusedLimitIsSaid) {
  Start();
  driver_->refuses = PermissionDenied("only root may");
  watch_->LimitPower(200);
  Pass(seconds(1));
  EXPECT_EQ(watch_->power_text(), "gpu_power=200W is not in force: only root may");
  driver_->refuses = Status::Ok();
  watch_->LimitPower(200);  // its owner says it again
  Pass(seconds(1));
  EXPECT_EQ(watch_->power_text(), "GPU power 200 W at most");
  Start(false);
  watch_->LimitPower(200);
  EXPECT_THAT(watch_->power_text(), HasSubstr("not in force: this peer uses no GPU of NVIDIA's"));
}

TEST_F(GpuWatchTest, WithoutACardItSaysWhatIsNotInForce) {
  Start(false);
  EXPECT_THAT(watch_->Texts(false), testing::IsEmpty());
  EXPECT_THAT(watch_->Texts(true),
              testing::ElementsAre("gpu_free is not in force: this peer uses no GPU of NVIDIA's"));
  watch_->LimitPower(200);
  EXPECT_THAT(watch_->Texts(true),
              testing::ElementsAre(HasSubstr("gpu_free"), HasSubstr("gpu_power=200W is not")));
  Start();
  EXPECT_THAT(watch_->Texts(true), testing::IsEmpty());
}

TEST_F(GpuWatchTest, ACardThatIsLostIsToldOnceAndNotForAMomentsError) {
  Start(true, true);
  Pass(kGpuLookEvery);
  driver_->reading.lost = "GPU is lost";
  Pass(kGpuLookEvery * (kGpuLostLooks - 1));
  EXPECT_THAT(watch_->Texts(false), ElementsAre("the driver does not reach the GPU: GPU is lost"));
  driver_->reading.lost = "";
  Pass(kGpuLookEvery);
  EXPECT_THAT(watch_->Texts(false), testing::IsEmpty());
  EXPECT_THAT(lost_, testing::IsEmpty());
  driver_->reading.lost = "Unknown Error";
  Pass(kGpuLookEvery * (kGpuLostLooks + 5));
  EXPECT_THAT(lost_, ElementsAre("Unknown Error"));
}

TEST_F(GpuWatchTest, ACardThatIsLostAndThenHangsIsNotRead) {
  bool hangs = false;
  const std::unique_ptr<Executor> thread = world_.NewExecutor(
      "slow", [&hangs](const char*) { return hangs ? kGpuLookMax * 5 : Duration::zero(); });
  Start(true, true, thread.get());
  driver_->reading.lost = "GPU is lost";
  Pass(kGpuLookEvery);
  EXPECT_THAT(watch_->Texts(false), ElementsAre(HasSubstr("GPU is lost")));
  hangs = true;
  Pass(kGpuLookEvery * 2 + kGpuLookMax);
  EXPECT_FALSE(watch_->reading());
  EXPECT_THAT(watch_->Texts(false), testing::IsEmpty());
  watch_.reset();
}

TEST_F(GpuWatchTest, ACardThatIsOnlyWatchedMayBeLost) {
  Start(true, false);
  driver_->reading.lost = "GPU is lost";
  Pass(kGpuLookEvery * (kGpuLostLooks + 1));
  EXPECT_THAT(lost_, testing::IsEmpty());
  EXPECT_THAT(watch_->Texts(false), ElementsAre(HasSubstr("GPU is lost")));
}

TEST_F(GpuWatchTest, AnAnswerThatComesTooLateFindsNobody) {
  Start();
  watch_->Look(true);
  watch_->LimitPower(200);
  watch_.reset();
  world_.RunUntil([] { return false; }, seconds(1));
  EXPECT_TRUE(seen_.empty());
}

}  // namespace
}  // namespace shoal::daemon
