// What the one of several schedulers that leads does otherwise than one alone.

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "scheduler/server/history_place.h"
#include "scheduler/server/run_report.h"
#include "scheduler/server/server.h"
#include "storage/checkpoints/event_log.h"
#include "tests/unit/scheduler/server/server_fixture.h"

namespace shoal::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// The log of one of several schedulers: it takes events when it is let.
class SlowLog final : public storage::EventLog {
 public:
  explicit SlowLog(std::shared_future<Status> let) : let_(std::move(let)) {}
  Result<std::uint64_t> Append(std::string_view event) override {
    SHOAL_RETURN_IF_ERROR(let_.get());
    return memory_->Append(event);
  }
  Status Replay(const std::function<Status(std::uint64_t, std::string_view)>& visit) override {
    return memory_->Replay(visit);
  }

 private:
  const std::shared_future<Status> let_;
  const std::unique_ptr<storage::EventLog> memory_ = storage::NewMemoryEventLog();
};

class LeaderTest : public ServerTest {
 protected:
  std::unique_ptr<SchedulerServer> OpenLeader() {
    Lead lead;
    lead.log = std::make_unique<SlowLog>(let_.get_future().share());
    lead.content = *storage::OpenFileContentStore(config_.directory + "/artefacts");
    lead.artefacts = *MakeRunArtefacts(lead.content.get(), &config_);
    lead.holds = [this] { return holds_.load(); };
    auto server = SchedulerServer::OpenLeader(
        config_, [this](const Status& status) { ended_.set_value(status); }, {}, std::move(lead));
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    return server.ok() ? *std::move(server) : nullptr;
  }
  std::promise<Status> let_, ended_;
  std::atomic<bool> holds_ = true;
};

TEST_F(LeaderTest, PeersHearNothingThatIsNotStored) {
  fs::create_directories(config_.directory);
  const auto server = OpenLeader();
  ASSERT_NE(server, nullptr);
  std::atomic<bool> let = false;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    let = true;
    let_.set_value(Status::Ok());
  });
  const TestPeer anna(*server, folder_ + "/anna", "anna");  // until it is welcome
  EXPECT_TRUE(let);
  later.join();
}

TEST_F(LeaderTest, WhoDoesNotLeadAnyMoreStopsAtTheNextEvent) {
  fs::create_directories(config_.directory);
  let_.set_value(Status::Ok());
  const auto server = OpenLeader();
  ASSERT_NE(server, nullptr);
  holds_ = false;
  EXPECT_EQ(ended_.get_future().get().code(), StatusCode::kAborted);
}

TEST_F(LeaderTest, ARefusedEventEndsIt) {
  fs::create_directories(config_.directory);
  let_.set_value(Aborted("its key in etcd is gone"));
  const auto server = OpenLeader();
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(ended_.get_future().get().message(), HasSubstr("could not be written"));
}

TEST_F(ServerTest, AFolderSaysHowEtcdKnowsItsScheduler) {
  fs::create_directories(config_.directory);
  const HistoryPlace place{
      {"https://a:1", "https://b:2"}, "shoal/run", {"/ca", "/cert", "/key", "anna", "/password"}};
  ASSERT_TRUE(WriteHistoryPlace(config_.directory, place).ok());
  const auto again = ReadHistoryPlace(config_.directory);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->etcd, place.etcd);
  EXPECT_EQ(again->prefix, place.prefix);
  EXPECT_TRUE(again->login == place.login);
  for (const char* text : {"p\n", "p\na=b\n", "p\nhttps://a:1\nwhat=x\n", "p\nca=/ca\n"}) {
    ASSERT_TRUE(WriteFileAtomic(config_.directory + "/history.etcd", text).ok());
    EXPECT_EQ(ReadHistoryPlace(config_.directory).status().code(), StatusCode::kDataLoss) << text;
  }
}

TEST_F(ServerTest, AFolderWhoseHistoryIsInEtcdIsNotServedWithoutIt) {
  fs::create_directories(config_.directory);
  ASSERT_TRUE(WriteHistoryPlace(config_.directory, {{"http://127.0.0.1:9"}, "shoal/run"}).ok());
  const HistoryPlace place = ReadHistoryPlace(config_.directory).value();
  EXPECT_EQ(place.etcd, std::vector<std::string>{"http://127.0.0.1:9"});
  EXPECT_EQ(place.prefix, "shoal/run");
  EXPECT_THAT(OpenError(), AllOf(HasSubstr("is in etcd, below shoal/run"), HasSubstr("put")));
  EXPECT_THAT(ReadEvents(config_.directory).status().message(),
              HasSubstr("the history of this run is in etcd, http://127.0.0.1:9"));
  const auto anew = SchedulerServer::Open(
      config_, [](const Status&) {}, History::kForget);
  EXPECT_TRUE(anew.ok()) << anew.status().ToString();
  EXPECT_TRUE(fs::exists(config_.directory + "/set-aside-1/history.etcd"));
}

}  // namespace
}  // namespace shoal::scheduler
