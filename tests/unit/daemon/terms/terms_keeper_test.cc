#include "daemon/terms/terms_keeper.h"

#include <gmock/gmock.h>

#include "common/file.h"
#include "daemon/settings_overlay.h"
#include "fake_machine.h"
#include "tests/support/on_executor.h"
#include "tests/support/sim_executor.h"
#include "tests/support/temporary_folder.h"

namespace shoal::daemon {
namespace {

using std::chrono::seconds;

std::string Seconds(Duration time) {
  return std::to_string(std::chrono::duration_cast<seconds>(time).count()) + " s";
}

// A peer that keeps terms, in virtual time.
class TermsKeeperTest : public testing::Test, private TermsKeeper::Owner {
 protected:
  void Start(const std::string& gpu_user = "") {
    UsageLedger ledger;
    const auto text = ReadFile(folder_.path() + "/usage.json", kUsageFileBytesMax);
    if (text.ok()) ledger = UsageLedger::Parse(*text).value();
    measured_ = {};
    TermsKeeper::Owner* const owner = this;
    keeper_ =
        std::make_unique<TermsKeeper>(control_.get(), store_.get(), folder_.path() + "/usage.json",
                                      &machine_, std::move(ledger), owner);
    keeper_->Begin(gpu_user);
  }
  void Pass(Duration time, Duration slept = {}) {
    machine_.unix_ms += std::chrono::duration_cast<std::chrono::milliseconds>(slept).count();
    machine_.boot += slept;
    for (; time >= seconds(1); time -= seconds(1)) {
      machine_.unix_ms += 1000;
      machine_.boot += seconds(1);
      world_.RunUntil([] { return false; }, seconds(1));
    }
  }
  void Set(const std::map<std::string, std::string>& arguments) {
    overlay_ = WithSettings(overlay_, arguments, machine_.unix_ms).value();
    keeper_->Decide();
  }
  bool trains() const { return keeper_->allowed().trains(); }

  TermSettings Terms(std::int64_t now_ms) const override {
    return TermsInForce(config_, overlay_, now_ms);
  }
  Usage Measured() const override { return measured_; }
  bool Trains() const override { return trains(); }
  std::uint64_t HandoverBytes() const override { return handover_bytes_; }
  void OnTerms() override { ++changes_; }
  void OnSecond(std::int64_t) override { ++looks_; }
  void OnSlept(Duration slept) override { slept_.push_back(slept); }

  const test_support::TemporaryFolder folder_;
  test_support::SimWorld world_;
  const std::unique_ptr<Executor> control_ = world_.NewExecutor("control");
  const std::unique_ptr<Executor> store_ = world_.NewExecutor("store");
  FakeMachine machine_;
  DaemonConfig config_;
  SettingsOverlay overlay_;
  Usage measured_;
  std::uint64_t handover_bytes_ = 0;
  int changes_ = 0, looks_ = 0;
  std::vector<Duration> slept_;
  std::unique_ptr<TermsKeeper> keeper_;
};

TEST_F(TermsKeeperTest, AScheduleBeginsAndEndsByTheClock) {
  config_.schedule = "mon 00:01-00:03";
  Start();
  EXPECT_FALSE(trains());
  EXPECT_EQ(changes_, 1);
  Pass(seconds(59));
  EXPECT_FALSE(trains());
  Pass(seconds(2));
  EXPECT_TRUE(trains());
  Pass(seconds(120));
  EXPECT_FALSE(trains());
  EXPECT_EQ(changes_, 3);
}

TEST_F(TermsKeeperTest, WhatIsSetForATimeEndsByItselfAlsoAfterARestart) {
  config_.upload = BitsPerSecond{20'000'000};
  Start();
  Set({{"upload", "5mbit"}, {"schedule", "sat all"}, {"for", "90s"}});
  EXPECT_EQ(keeper_->allowed().upload.value, 5'000'000u);
  EXPECT_FALSE(trains());
  Start();
  EXPECT_FALSE(trains());
  Pass(seconds(88));
  EXPECT_FALSE(trains());
  Pass(seconds(3));
  EXPECT_TRUE(trains());
  EXPECT_EQ(keeper_->allowed().upload.value, 20'000'000u);
}

TEST_F(TermsKeeperTest, AProgramPausesSoonAndItsEndResumesLater) {
  overlay_.terms["exclusive"] = "steam, blender";
  machine_.running = "blender";
  Start();
  EXPECT_FALSE(trains()) << "seen before anything begins";
  machine_.running.clear();
  Pass(kResumeDelay - seconds(5));
  EXPECT_FALSE(trains());
  machine_.running = "steam";  // it comes back
  Pass(kResumeDelay);
  machine_.running.clear();
  Pass(kResumeDelay - seconds(5));
  EXPECT_EQ(keeper_->allowed().pause_text, "paused: steam runs, or ran a moment ago");
  Pass(seconds(15));
  EXPECT_TRUE(trains());
  machine_.running = "steam";
  Pass(seconds(6));
  EXPECT_FALSE(trains());
  Set({{"exclusive", "off"}});
  EXPECT_TRUE(trains());
}

TEST_F(TermsKeeperTest, ProgramsThatCannotBeSeenAreNamedWhileARuleIsAboutPrograms) {
  machine_.hidden = "programs of other users are hidden";
  Start();
  EXPECT_THAT(keeper_->allowed().rules, testing::IsEmpty());
  Set({{"exclusive", "steam"}});
  const auto said = testing::ElementsAre("exclusive: programs of other users are hidden");
  EXPECT_THAT(keeper_->allowed().rules, said);
  Start();
  EXPECT_THAT(keeper_->allowed().rules, said);
  machine_.hidden.clear();
  Pass(seconds(6));
  EXPECT_THAT(keeper_->allowed().rules, testing::IsEmpty());
}

TEST_F(TermsKeeperTest, AProgramOnTheGpuPausesOnceItStaysAndItsEndResumesLater) {
  config_.gpu_free = "3m";
  Start();
  const auto see = [this](const std::string& program, Duration time) {
    for (Duration passed{}; passed < time; passed += seconds(4)) {
      keeper_->OnGpuUser(program);
      Pass(seconds(4));
    }
    keeper_->OnGpuUser(program);
  };
  see("viewer", kGpuUserDelay - seconds(4));
  see("", seconds(60));
  EXPECT_TRUE(trains()) << "a picture that was opened";
  see("game", kGpuUserDelay);
  EXPECT_EQ(keeper_->allowed().pause_text, "paused: the GPU is used by game, or was a moment ago");
  see("", seconds(120));
  see("game", seconds(4));
  see("", seconds(176));
  EXPECT_FALSE(trains());
  see("", seconds(8));
  EXPECT_TRUE(trains());
  see("game", kGpuUserDelay);
  EXPECT_FALSE(trains());
  Set({{"gpu_free", "off"}});
  EXPECT_TRUE(trains());
  Set({{"gpu_free", "3m"}});
  EXPECT_TRUE(trains()) << "nobody uses it as far as is known";
}

TEST_F(TermsKeeperTest, WhoseGpuIsInUseDoesNotBegin) {
  config_.gpu_free = "3m";
  Start("game");
  EXPECT_EQ(keeper_->allowed().pause, PauseRule::kGpu);
}

TEST_F(TermsKeeperTest, WhoStartsOnBatteryDoesNotBegin) {
  machine_.on_battery = true;
  Start();
  EXPECT_EQ(keeper_->allowed().pause, PauseRule::kBattery);
}

TEST_F(TermsKeeperTest, APlugThatIsChangedPausesNobody) {
  Start();
  machine_.on_battery = true;
  Pass(seconds(6));
  machine_.on_battery = false;
  Pass(seconds(30));
  EXPECT_TRUE(trains());
  machine_.on_battery = true;
  Pass(kBatteryDelay + seconds(10));
  EXPECT_EQ(keeper_->allowed().pause, PauseRule::kBattery);
  machine_.on_battery = false;
  Pass(kResumeDelay + seconds(10));
  EXPECT_TRUE(trains());
}

TEST_F(TermsKeeperTest, ABudgetIsKeptAcrossRestartsAndRenewedByTheMonth) {
  config_.budget = "100MB/month";
  machine_.unix_ms = (kMonday + 26 * kDay) * 1000;  // the last day of January
  Start();
  measured_.sent_bytes = 60'000'000;
  measured_.received_bytes = 30'000'000;
  Pass(seconds(5));
  EXPECT_TRUE(trains());
  EXPECT_EQ(keeper_->ledger().total().sent_bytes, 60'000'000u);
  keeper_->Save();
  Pass(seconds(1));
  Start();
  measured_.sent_bytes = 10'000'000;
  Pass(seconds(2));
  EXPECT_EQ(keeper_->allowed().pause, PauseRule::kBudget);
  EXPECT_EQ(keeper_->ledger().total().sent_bytes, 70'000'000u);
  Start();
  EXPECT_FALSE(trains());
  machine_.unix_ms = (kMonday + 27 * kDay) * 1000;
  Pass(seconds(1));
  EXPECT_TRUE(trains());
  EXPECT_EQ(keeper_->allowed().budget_used_bytes, 0u);
}

TEST_F(TermsKeeperTest, ABudgetKeepsWhatHandingOverTakes) {
  config_.budget = "100MB/month";
  handover_bytes_ = 20'000'000;
  Start();
  measured_.sent_bytes = 40'000'000;
  Pass(std::chrono::minutes(2));
  measured_.received_bytes = 10'000'000;
  Pass(std::chrono::minutes(2));
  EXPECT_TRUE(trains());
  measured_.sent_bytes = 55'000'000;
  Pass(seconds(2));
  EXPECT_FALSE(trains()) << "65 MB are used, and 15 MB went in the last minute";
  EXPECT_THAT(keeper_->allowed().pause_text,
              testing::HasSubstr("used up, but for handing the stage over (65 of 100 MB)"));
  EXPECT_FALSE(keeper_->BudgetSpent());
  handover_bytes_ = 0;  // the stage is gone
  Pass(std::chrono::minutes(2));
  EXPECT_FALSE(trains()) << "what is left is not for a new stage";
  measured_.sent_bytes = 89'000'000;
  Pass(seconds(1));
  EXPECT_FALSE(keeper_->BudgetSpent());
  measured_.sent_bytes = 90'000'000;
  Pass(seconds(1));
  EXPECT_TRUE(keeper_->BudgetSpent());
  Set({{"budget", "200MB/month"}});
  EXPECT_TRUE(trains());
  EXPECT_FALSE(keeper_->BudgetSpent());
}

TEST_F(TermsKeeperTest, ABudgetBelowWhatIsUsedLeavesTimeToHandOver) {
  handover_bytes_ = 20'000'000;
  Start();
  measured_.sent_bytes = 50'000'000;
  Pass(std::chrono::minutes(2));
  Set({{"budget", "30MB/month"}});
  EXPECT_FALSE(trains());
  EXPECT_FALSE(keeper_->BudgetSpent());
  measured_.sent_bytes = 64'000'000;
  Pass(seconds(1));
  EXPECT_FALSE(keeper_->BudgetSpent());
  measured_.sent_bytes = 65'000'000;
  Pass(seconds(1));
  EXPECT_TRUE(keeper_->BudgetSpent()) << "half the budget at most";
}

TEST_F(TermsKeeperTest, TheFileIsWrittenRarelyAndAtTheEnd) {
  Start();
  const std::string path = folder_.path() + "/usage.json";
  for (int i = 0; i < 60; ++i) {
    measured_.sent_bytes += 1000;
    Pass(seconds(1));
  }
  EXPECT_FALSE(ReadFile(path, 1 << 20).ok());
  Pass(std::chrono::minutes(10));
  const auto first = ReadFile(path, 1 << 20);
  ASSERT_TRUE(first.ok());
  Pass(std::chrono::minutes(8));
  EXPECT_EQ(ReadFile(path, 1 << 20).value(), *first);
  keeper_->Save();
  Pass(seconds(1));
  const UsageLedger saved = UsageLedger::Parse(ReadFile(path, 1 << 20).value()).value();
  EXPECT_EQ(saved.total().sent_bytes, 60'000u);
  EXPECT_EQ(saved.total().trained_ms, 19 * 60 * 1000u);
}

TEST_F(TermsKeeperTest, SleepIsNoticedAndAClockThatIsSetIsNone) {
  Start();
  Pass(seconds(3));
  machine_.unix_ms += 3'600'000;  // set by an hour
  Pass(seconds(3));
  EXPECT_TRUE(slept_.empty());
  Pass(seconds(3), std::chrono::hours(2));
  EXPECT_THAT(slept_, testing::ElementsAre(std::chrono::hours(2)));
}

TEST_F(TermsKeeperTest, ThePageNamesTheDelays) {
  const std::string page =
      ReadFile(test_support::Environment("SHOAL_SOURCE_DIR") + "/docs/OPERATIONS.md", 1 << 20)
          .value();
  EXPECT_THAT(
      page, testing::HasSubstr("a battery after " + Seconds(kBatteryDelay) + "; training goes on " +
                               Seconds(kResumeDelay) + " after either ends"));
}

TEST_F(TermsKeeperTest, WhoIsClosedLooksNoMore) {
  Start();
  Pass(seconds(2));
  const int before = looks_;
  keeper_->Close();
  Pass(seconds(5));
  EXPECT_EQ(looks_, before);
}

}  // namespace
}  // namespace shoal::daemon
