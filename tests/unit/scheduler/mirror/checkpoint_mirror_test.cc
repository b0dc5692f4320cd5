#include "scheduler/mirror/checkpoint_mirror.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/sim_executor.h"
#include "tests/unit/scheduler/mirror/run_copy.h"

namespace shoal::scheduler {
namespace {

using test_support::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MirrorStateTest, OnlyThesePassagesExist) {
  const MirrorState states[] = {MirrorState::kIdle, MirrorState::kUploading, MirrorState::kWaiting};
  const MirrorEvent events[] = {MirrorEvent::kOffered, MirrorEvent::kStored, MirrorEvent::kFailed,
                                MirrorEvent::kRetry};
  std::string table;
  for (const MirrorState state : states) {
    for (const MirrorEvent event : events) {
      const auto next = NextMirrorState(state, event);
      table += next ? std::string(MirrorStateName(*next)) + " " : "- ";
    }
  }
  EXPECT_EQ(table, "uploading - - - - idle waiting - - - - uploading ");
}

// A folder that can be out of reach.
class WeakStore final : public net::ObjectStore {
 public:
  explicit WeakStore(const std::string& folder, const bool* down)
      : store_(FolderStore(folder)), down_(*down) {}

  const std::string& address() const override { return store_->address(); }
  Status PutBytes(const std::string& key, std::string_view bytes) override {
    return down_ ? Unavailable("out of reach") : store_->PutBytes(key, bytes);
  }
  Status PutFile(const std::string& key, const std::string& path) override {
    return down_ ? Unavailable("out of reach") : store_->PutFile(key, path);
  }
  Result<net::ObjectInfo> Head(const std::string& key) override { return store_->Head(key); }
  Result<std::string> Get(const std::string& key, std::uint64_t offset, std::size_t size) override {
    return store_->Get(key, offset, size);
  }
  Result<std::vector<net::ObjectInfo>> List(const std::string& prefix) override {
    return store_->List(prefix);
  }
  Status Delete(const std::string& key) override { return store_->Delete(key); }

 private:
  const std::unique_ptr<net::ObjectStore> store_;
  const bool& down_;
};

class CheckpointMirrorTest : public ::testing::Test {
 protected:
  void Offer(std::uint64_t step, RunId run = RunId{0x12}) {
    mirror_->Offer(std::make_shared<const CheckpointCopy>(run_.Make(step, 1, run)));
  }
  bool Run(const std::function<bool()>& done, Duration limit = std::chrono::hours(1)) {
    return world_.RunUntil(done, limit);
  }
  void Rest() {
    Run([] { return false; }, std::chrono::milliseconds(1));
  }
  std::vector<ManifestName> Stored() {
    return ListManifests(FolderStore(disk_.path()).get()).value();
  }

  TemporaryFolder files_, disk_;
  RunCopies run_{files_.path()};
  bool down_ = false;
  std::vector<std::uint64_t> released_;
  test_support::SimWorld world_;
  std::unique_ptr<Executor> control_ = world_.NewExecutor("control");
  std::stop_source stop_;
  std::unique_ptr<CheckpointMirror> mirror_ = std::make_unique<CheckpointMirror>(
      std::make_unique<WeakStore>(disk_.path(), &down_), stop_, world_.NewExecutor("mirror"),
      control_.get(), [this](const CheckpointCopy& copy) { released_.push_back(copy.run.step); });
};

TEST_F(CheckpointMirrorTest, StoresWhatIsOfferedAndLetsItGo) {
  EXPECT_EQ(mirror_->view().address, "file://" + disk_.path());
  EXPECT_FALSE(mirror_->view().stored_step);
  Offer(10);
  EXPECT_EQ(mirror_->view().state, MirrorState::kUploading);
  EXPECT_EQ(mirror_->view().pending_step, 10u);
  EXPECT_TRUE(released_.empty()) << "its files are still read";
  Rest();
  const MirrorView view = mirror_->view();
  EXPECT_EQ(view.state, MirrorState::kIdle);
  EXPECT_EQ(view.stored_step, 10u);
  EXPECT_FALSE(view.pending_step);
  EXPECT_GT(view.sent_bytes, 0u);
  EXPECT_THAT(released_, ElementsAre(10));
}

TEST_F(CheckpointMirrorTest, TakesTheNewestOfThoseThatCameMeanwhile) {
  for (const std::uint64_t step : {10u, 20u, 30u}) Offer(step);
  EXPECT_THAT(released_, ElementsAre(20));
  EXPECT_EQ(mirror_->view().pending_step, 30u);
  Rest();
  EXPECT_THAT(Stored(), ElementsAre(ManifestName{1, 30}, ManifestName{1, 10}));
  EXPECT_THAT(released_, ElementsAre(20, 10, 30));
}

TEST_F(CheckpointMirrorTest, AStoreOutOfReachIsTriedAgainLaterAndLater) {
  down_ = true;
  Offer(10);
  Rest();
  EXPECT_EQ(mirror_->view().state, MirrorState::kWaiting);
  EXPECT_EQ(mirror_->view().failures, 1u);
  EXPECT_THAT(mirror_->view().last_failure, HasSubstr("out of reach"));
  EXPECT_EQ(mirror_->view().pending_step, 10u);
  Run([] { return false; }, std::chrono::minutes(60));
  // After 10, 30, 70, 150, 310, 630 s, then every 10 minutes.
  EXPECT_EQ(mirror_->view().failures, 1 + 6 + 4u);
  down_ = false;
  ASSERT_TRUE(Run([&] { return mirror_->view().stored_step == 10u; }));
  EXPECT_EQ(mirror_->view().last_failure, "");
  EXPECT_EQ(mirror_->view().state, MirrorState::kIdle);
  EXPECT_THAT(released_, ElementsAre(10));
}

TEST_F(CheckpointMirrorTest, ANewerOneTakesThePlaceOfOneThatFailed) {
  down_ = true;
  Offer(10);
  Rest();
  Offer(20);
  EXPECT_THAT(released_, ElementsAre(10));
  EXPECT_EQ(mirror_->view().state, MirrorState::kWaiting);
  down_ = false;
  ASSERT_TRUE(Run([&] { return mirror_->view().stored_step == 20u; }));
  EXPECT_THAT(Stored(), ElementsAre(ManifestName{1, 20}));
}

TEST_F(CheckpointMirrorTest, AProbeNamesAStoreThatCannotBeUsed) {
  mirror_->Probe(RunId{0x12}, 1);
  Rest();
  EXPECT_EQ(mirror_->view().failures, 0u);
  Offer(10);
  Rest();
  mirror_->Probe(RunId{0x99}, 1);
  Rest();
  EXPECT_THAT(mirror_->view().last_failure, HasSubstr("a prefix of its own"));
}

TEST_F(CheckpointMirrorTest, NothingComesAfterAStop) {
  down_ = true;
  Offer(10);
  Rest();
  mirror_->Stop();
  down_ = false;
  Run([] { return false; }, std::chrono::hours(1));
  EXPECT_TRUE(Stored().empty());
}

}  // namespace
}  // namespace shoal::scheduler
