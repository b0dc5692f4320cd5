#include "scheduler/mirror/run_restore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/file.h"
#include "storage/checkpoints/event_log.h"
#include "storage/files/content_store.h"
#include "tests/unit/scheduler/mirror/run_copy.h"

namespace shoal::scheduler {
namespace {

namespace fs = std::filesystem;
using test_support::TemporaryFolder;
using ::testing::HasSubstr;

class RunRestoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CheckpointUpload upload(store_.get());
    for (const CheckpointCopy* copy : {&old_, &new_}) {
      const auto outcome = upload.Store(*copy);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
    }
    request_.directory = folder_ / "run";
    request_.endpoint = "https://s3.example.org";
    request_.region = "eu-west-1";
    request_.now_ms = 1700000000123;
  }
  Result<StoredRun> Restore() {
    said_.clear();
    return RestoreRun(request_, store_.get(),
                      [this](const std::string& line) { said_ += line + "\n"; });
  }
  std::vector<std::string> History() {
    std::vector<std::string> events;
    EXPECT_TRUE(
        storage::ReadRocksEventLog(request_.directory + "/events", [&](std::uint64_t,
                                                                       std::string_view event) {
          events.emplace_back(event);
          return Status::Ok();
        }).ok());
    return events;
  }

  TemporaryFolder files_, disk_, folder_;
  RunCopies run_{files_.path()};
  const CheckpointCopy old_ = run_.Make(10, 1), new_ = run_.Make(20, 3);
  std::unique_ptr<net::ObjectStore> store_ = FolderStore(disk_.path());
  RestoreRequest request_;
  std::string said_;
};

TEST_F(RunRestoreTest, MakesTheFolderOfTheNewestCheckpoint) {
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored, new_.run);
  const auto content = storage::OpenFileContentStore(request_.directory + "/artefacts").value();
  for (const auto* files : {&new_.run.initial, &new_.run.checkpoint}) {
    for (const storage::ArtefactRef& file : *files) EXPECT_TRUE(content->Has(file.hash));
  }
  EXPECT_EQ(ReadFile(request_.directory + "/origin/origin.json", 99).value(), "of the model");
  EXPECT_EQ(ReadFile(request_.directory + "/origin/model/config.json", 99).value(), "{}");
  const auto config = ReadRunConfig(request_.directory + "/run.toml").value();
  EXPECT_EQ(config.name, "copied");
  EXPECT_TRUE(config.etcd.empty()) << "the history is in the folder";
  EXPECT_EQ(config.directory, request_.directory);
  EXPECT_EQ(config.store, "file://" + disk_.path());
  EXPECT_EQ(config.store_endpoint, "https://s3.example.org");
  EXPECT_EQ(config.store_region, "eu-west-1");
  const std::vector<std::string> history = History();
  std::string all;
  for (std::size_t i = 0; i + 1 < history.size(); ++i) all += history[i] + "\n";
  EXPECT_EQ(all, new_.events);
  EXPECT_EQ(history.back(),
            R"({"type":"restored","step":20,"generation":1000003,"at":1700000000123})");
}

TEST_F(RunRestoreTest, ARunThatIsThereIsNotTouched) {
  ASSERT_TRUE(Restore().ok());
  EXPECT_EQ(Restore().status().code(), StatusCode::kAlreadyExists);
  for (const char* name : {"run.toml", "events", "identity.key", "join_secret"}) {
    request_.directory = folder_ / (std::string("other-") + name);
    fs::create_directories(request_.directory);
    ASSERT_TRUE(WriteFileAtomic(request_.directory + "/" + name, "x").ok());
    EXPECT_EQ(Restore().status().code(), StatusCode::kAlreadyExists) << name;
  }
}

TEST_F(RunRestoreTest, DamageAndLossCostOneCheckpoint) {
  const std::string blob = BlobKey(new_.run.checkpoint[1].hash);
  const std::string manifest = ManifestKey({3, 20});
  const std::string whole = store_->Get(manifest, 0, 1 << 20).value();
  const std::vector<std::function<void()>> harms = {
      [&] { ASSERT_TRUE(store_->PutBytes(blob, "moments 21").ok()); },
      [&] { ASSERT_TRUE(store_->PutBytes(blob, "mom").ok()); },
      [&] { ASSERT_TRUE(store_->Delete(blob).ok()); },
      [&] { ASSERT_TRUE(store_->PutBytes(manifest, whole.substr(0, 100)).ok()); },
      [&] { ASSERT_TRUE(store_->PutBytes(manifest, "").ok()); },
      [&] {
        ASSERT_TRUE(
            store_->PutBytes(manifest, store_->Get(ManifestKey({1, 10}), 0, 1 << 20).value()).ok());
      }};
  for (std::size_t i = 0; i < harms.size(); ++i) {
    ASSERT_TRUE(store_->PutBytes(manifest, whole).ok());
    ASSERT_TRUE(store_->PutBytes(blob, "moments 20").ok());
    harms[i]();
    request_.directory = folder_ / std::to_string(i);
    const auto restored = Restore();
    ASSERT_TRUE(restored.ok()) << i << restored.status().ToString();
    EXPECT_EQ(restored->step, 10u) << i;
    EXPECT_THAT(said_, HasSubstr("the checkpoint of step 20 cannot be taken")) << i;
  }
}

TEST_F(RunRestoreTest, ADamagedBlobIsDeletedSoThatItIsSentAgain) {
  const std::string blob = BlobKey(new_.run.checkpoint[1].hash);
  ASSERT_TRUE(store_->PutBytes(blob, "moments 21").ok());
  ASSERT_TRUE(Restore().ok());
  EXPECT_EQ(store_->Head(blob).status().code(), StatusCode::kNotFound);
}

TEST_F(RunRestoreTest, WithoutAWholeCopyNothingIsMade) {
  ASSERT_TRUE(store_->PutBytes(BlobKey(new_.run.initial[0].hash), "the date").ok());
  const auto restored = Restore();
  EXPECT_EQ(restored.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(restored.status().message(), HasSubstr("data"));
  EXPECT_FALSE(fs::exists(request_.directory + "/events"));
  EXPECT_FALSE(fs::exists(request_.directory + "/run.toml"));
  TemporaryFolder empty;
  store_ = FolderStore(empty.path());
  EXPECT_THAT(Restore().status().message(), HasSubstr("holds no checkpoint of a run"));
}

TEST_F(RunRestoreTest, GoesOnWhereItWas) {
  // The first try got one blob and a half before it was cut off.
  fs::create_directories(request_.directory + "/artefacts/partial");
  const auto data = new_.run.initial[0].hash;
  ASSERT_TRUE(
      WriteFileAtomic(request_.directory + "/artefacts/partial/" + data.ToHex(), "the ").ok());
  ASSERT_TRUE(Restore().ok());
  const auto content = storage::OpenFileContentStore(request_.directory + "/artefacts").value();
  EXPECT_EQ(content->Read(data, 0, 99).value(), "the data");
}

TEST_F(RunRestoreTest, AHistoryThatDoesNotFitIsNoCopy) {
  // Its hash is right, but it tells of something else than the manifest.
  const auto with_events = [&](const std::string& events) {
    CheckpointCopy copy = new_;
    copy.events = events;
    copy.run.events = {"events", storage::HashOf(std::as_bytes(std::span(events))), events.size()};
    copy.run.generation = 9;
    CheckpointUpload upload(store_.get());
    EXPECT_TRUE(upload.Store(copy).stored);
    request_.directory += "x";
    EXPECT_EQ(Restore().value().step, new_.run.step);
    EXPECT_THAT(said_, HasSubstr("the copy's history")) << events;
    EXPECT_TRUE(store_->Delete(ManifestKey({9, 20})).ok());
  };
  with_events("");
  with_events(new_.events.substr(0, new_.events.size() - 1));
  with_events(new_.events + "no event\n");
  with_events(old_.events);
  with_events(run_.Make(20, 3, RunId{0x99}).events);
}

TEST_F(RunRestoreTest, AConfigThatCannotBeReadIsNoCopy) {
  CheckpointCopy copy = new_;
  copy.run.generation = 9;
  copy.run.config = "[run]\nsteps = \"many\"\n";
  CheckpointUpload upload(store_.get());
  ASSERT_TRUE(upload.Store(copy).stored);
  ASSERT_TRUE(Restore().ok());
  EXPECT_THAT(said_, HasSubstr("the copy's run.toml"));
  EXPECT_FALSE(fs::exists(request_.directory + "/run.toml.restoring"));
}

TEST_F(RunRestoreTest, AStoreThatCannotBeReachedIsNoDamage) {
  std::stop_source stop;
  store_ = FolderStore(disk_.path(), stop.get_token());
  stop.request_stop();
  EXPECT_EQ(Restore().status().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace shoal::scheduler
