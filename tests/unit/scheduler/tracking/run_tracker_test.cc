#include "scheduler/tracking/run_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <nlohmann/json.hpp>

#include "scheduler/tracking/event_file.h"
#include "tests/support/sim_executor.h"
#include "tests/support/temporary_folder.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;
namespace fs = std::filesystem;

std::string Bytes(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<Json> Lines(const std::string& path) {
  std::vector<Json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::vector<std::string> Kinds(const std::string& path) {
  std::vector<std::string> kinds;
  for (const Json& line : Lines(path)) kinds.push_back(line["kind"]);
  return kinds;
}

class RunTrackerTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<RunTracker>> Open(const std::vector<std::string>& targets,
                                           std::uint64_t step = 0) {
    return RunTracker::Open(targets, {RunId{7}, "run", 100, step, 1},
                            {control_.get(), store_.get(), [this] { return now_ms_; }});
  }
  void Pass(Duration time, RunTracker* tracker) {
    now_ms_ += static_cast<std::uint64_t>(Milliseconds(time));
    bool ticked = false;
    control_->PostAfter("tick", time, [&, tracker] {
      tracker->Tick(members_);
      ticked = true;
    });
    world_.RunUntil([&] { return ticked && world_.pending() == 0; }, std::chrono::hours(1));
  }
  void Step(RunTracker* tracker, std::uint64_t step, double loss = 2) {
    tracker->Applied({step, loss, LoggedStep::Figures{1, 0.1, 8, 1e-3, 1, 1, false}});
  }

  const test_support::TemporaryFolder folder_;
  const std::string lines_ = folder_ / "logs/run.jsonl";
  test_support::SimWorld world_;
  const std::unique_ptr<Executor> control_ = world_.NewExecutor("control");
  const std::unique_ptr<Executor> store_ = world_.NewExecutor("store");
  std::uint64_t now_ms_ = 1'700'000'000'000;
  int asked_ = 0;
  const RunTracker::Members members_ = [this] {
    ++asked_;
    return std::vector<MemberTraffic>(3);
  };
};

TEST_F(RunTrackerTest, WritesEveryFewSecondsAndAtTheEnd) {
  auto tracker = *Open({"jsonl:" + lines_});
  EXPECT_THAT(Kinds(lines_), ElementsAre("opened")) << "at once: it can be written";
  Step(tracker.get(), 1);
  Pass(RunTracker::kFlushEvery, tracker.get());
  EXPECT_THAT(Kinds(lines_), ElementsAre("opened", "step", "traffic"));
  Step(tracker.get(), 2);
  Pass(RunTracker::kFlushEvery / 2, tracker.get());
  EXPECT_THAT(Kinds(lines_), ElementsAre("opened", "step", "traffic"));
  tracker->Happened({RunHeld{"told to"}, now_ms_});
  Pass(RunTracker::kFlushEvery / 2, tracker.get());
  EXPECT_THAT(Kinds(lines_), ElementsAre("opened", "step", "traffic", "step", "paused", "traffic"));
  EXPECT_EQ(Lines(lines_)[2]["peers"], 3);
  EXPECT_EQ(asked_, 2);
  Pass(10 * RunTracker::kFlushEvery, tracker.get());
  EXPECT_EQ(asked_, 2) << "nobody is asked without a step";
  tracker->Happened({RunReleased{}, now_ms_});
  tracker->Stop(members_);
  world_.RunUntil([&] { return world_.pending() == 0; }, std::chrono::hours(1));
  EXPECT_EQ(Kinds(lines_).back(), "resumed");
  EXPECT_THAT(tracker->view().targets, ElementsAre("jsonl:" + lines_));
  EXPECT_EQ(tracker->view().failures, 0u);
}

TEST_F(RunTrackerTest, StepsThatOnlyTheHistoryKnowsHaveTheirLoss) {
  auto tracker = *Open({"jsonl:" + lines_}, 4);
  Step(tracker.get(), 5);
  tracker->Happened({LossesKnown{4, {9}}, now_ms_});
  tracker->Happened({LossesKnown{5, {1.5, 1.25}}, now_ms_});
  tracker->Happened({PlanMade{2, 6, {}}, now_ms_});
  tracker->Happened({LossesKnown{6, {1}}, now_ms_});
  tracker->Stop(members_);
  world_.RunUntil([&] { return world_.pending() == 0; }, std::chrono::hours(1));
  std::vector<std::pair<std::string, int>> told;
  for (const Json& line : Lines(lines_)) told.emplace_back(line["kind"], line["step"]);
  EXPECT_EQ(told, (std::vector<std::pair<std::string, int>>{{"opened", 4},
                                                            {"step", 5},
                                                            {"step", 6},
                                                            {"step", 7},
                                                            {"generation", 6},
                                                            {"step", 7},
                                                            {"traffic", 7}}));
  EXPECT_EQ(Lines(lines_)[4]["stepsLost"], 1);
}

TEST_F(RunTrackerTest, LinesGoOnBehindOneThatACrashCutOff) {
  fs::create_directories(folder_ / "logs");
  std::ofstream(lines_) << "{\"kind\":\"step\"}\n{\"kind\":\"st";
  auto tracker = *Open({"jsonl:" + lines_});
  EXPECT_THAT(Bytes(lines_), HasSubstr("{\"kind\":\"st\n{\"kind\":\"opened\""));
}

TEST_F(RunTrackerTest, EachStartMakesAnEventFile) {
  const std::string target = "tensorboard:" + (folder_ / "tb");
  auto tracker = *Open({target});
  Step(tracker.get(), 1, 2.5);
  tracker->Stop(members_);
  world_.RunUntil([&] { return world_.pending() == 0; }, std::chrono::hours(1));
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder_ / "tb")) {
    files.push_back(entry.path().string());
  }
  ASSERT_EQ(files.size(), 1u);
  EXPECT_THAT(files[0], HasSubstr("/events.out.tfevents.1700000000."));
  const LogEntry step =
      MakeStepEntry({1, 2.5, LoggedStep::Figures{1, 0.1, 8, 1e-3, 1, 1, false}}, now_ms_);
  const LogEntry opened = MakeOpenedEntry(RunId{7}, "run", 100, 0, now_ms_);
  EXPECT_TRUE(Bytes(files[0]).starts_with(EventFileHead(now_ms_) + EventFileRecords(opened) +
                                          EventFileRecords(step)));
  now_ms_ += 5000;
  EXPECT_TRUE(Open({target}).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "tb"), fs::directory_iterator{}), 2);
}

TEST_F(RunTrackerTest, WhatCannotBeWrittenIsRefusedAtTheStart) {
  const auto folder = Open({"jsonl:" + folder_.path()});
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(folder.status().message(), HasSubstr("log_to: jsonl:" + folder_.path()));
  std::ofstream(folder_ / "file") << "x";
  EXPECT_FALSE(Open({"tensorboard:" + (folder_ / "file")}).ok());
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(Open({"jsonl:" + (folder_ / "pipe")}).ok()) << "nobody reads it";
}

TEST_F(RunTrackerTest, ALogThatFailsLaterDoesNotStopTheOthersAndHeals) {
  const std::string other = folder_ / "other.jsonl";
  auto tracker = *Open({"jsonl:" + lines_, "jsonl:" + other});
  fs::remove_all(folder_ / "logs");
  std::ofstream(folder_ / "logs") << "in the way";
  Step(tracker.get(), 1);
  Pass(RunTracker::kFlushEvery, tracker.get());
  EXPECT_EQ(tracker->view().failures, 1u);
  EXPECT_THAT(tracker->view().last_failure, HasSubstr(lines_));
  EXPECT_THAT(Kinds(other), ElementsAre("opened", "step", "traffic"));
  fs::remove(folder_ / "logs");
  Pass(RunTracker::kFlushEvery, tracker.get());
  EXPECT_THAT(tracker->view().last_failure, IsEmpty());
  EXPECT_THAT(Kinds(lines_), ElementsAre("step", "traffic")) << "what it had not taken";
  EXPECT_THAT(Kinds(other), ElementsAre("opened", "step", "traffic"));
}

}  // namespace
}  // namespace shoal::scheduler
