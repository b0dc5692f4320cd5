#include "scheduler/mirror/checkpoint_upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/scheduler/mirror/run_copy.h"

namespace shoal::scheduler {
namespace {

using test_support::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointUploadTest : public ::testing::Test {
 protected:
  std::vector<ManifestName> Manifests() { return ListManifests(store_.get()).value(); }
  std::size_t Blobs() { return store_->List("blobs/").value().size(); }

  TemporaryFolder files_, disk_;
  RunCopies run_{files_.path()};
  std::unique_ptr<net::ObjectStore> store_ = FolderStore(disk_.path());
  CheckpointUpload upload_{store_.get()};
};

TEST_F(CheckpointUploadTest, StoresAllOfARunAndWritesTheManifestLast) {
  const CheckpointCopy copy = run_.Make(10);
  const auto outcome = upload_.Store(copy);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_TRUE(outcome.stored);
  EXPECT_EQ(ReadManifest(store_.get(), {1, 10}).value(), copy.run);
  for (const storage::ArtefactRef& blob : copy.run.Blobs()) {
    EXPECT_EQ(store_->Head(BlobKey(blob.hash)).value().size, blob.size) << blob.name;
  }
}

TEST_F(CheckpointUploadTest, SendsNothingTwice) {
  ASSERT_TRUE(upload_.Store(run_.Make(10)).stored);
  const CheckpointCopy second = run_.Make(20);
  std::uint64_t fresh = second.events.size() + FormatStoredRun(second.run).size();
  for (const storage::ArtefactRef& file : second.run.checkpoint) fresh += file.size;
  EXPECT_EQ(upload_.Store(second).sent_bytes, fresh);
  CheckpointUpload restarted(store_.get());
  const auto again = restarted.Store(second);
  EXPECT_TRUE(again.stored);
  EXPECT_EQ(again.sent_bytes, FormatStoredRun(second.run).size()) << "the manifest alone";
}

TEST_F(CheckpointUploadTest, KeepsTwoCheckpointsAndTheirBlobsOnly) {
  for (const std::uint64_t step : {10u, 20u, 30u}) {
    ASSERT_TRUE(upload_.Store(run_.Make(step)).status.ok());
  }
  EXPECT_THAT(Manifests(), ElementsAre(ManifestName{1, 30}, ManifestName{1, 20}));
  EXPECT_EQ(Blobs(), 4u + 2 * 3u);  // data, part, two of the origin; two files and events each
  for (const std::uint64_t step : {20u, 30u}) {
    for (const storage::ArtefactRef& blob : run_.Make(step).run.Blobs()) {
      EXPECT_TRUE(store_->Head(BlobKey(blob.hash)).ok()) << step << blob.name;
    }
  }
}

TEST_F(CheckpointUploadTest, TheNewestIsOfTheNewestGeneration) {
  ASSERT_TRUE(upload_.Store(run_.Make(30, 1)).stored);
  ASSERT_TRUE(upload_.Store(run_.Make(20, 2)).stored);  // the run went back
  ASSERT_TRUE(upload_.Store(run_.Make(25, 2)).stored);
  EXPECT_THAT(Manifests(), ElementsAre(ManifestName{2, 25}, ManifestName{2, 20}));
}

TEST_F(CheckpointUploadTest, LeavesWhatIsNotItsOwn) {
  ASSERT_TRUE(store_->PutBytes("notes/of-mine", "x").ok());
  ASSERT_TRUE(store_->PutBytes("manifests/readme", "x").ok());
  ASSERT_TRUE(store_->PutBytes("blobs/readme", "x").ok());
  ASSERT_TRUE(upload_.Store(run_.Make(10)).status.ok());
  for (const char* key : {"notes/of-mine", "manifests/readme", "blobs/readme"}) {
    EXPECT_TRUE(store_->Head(key).ok()) << key;
  }
}

TEST_F(CheckpointUploadTest, AnotherRunOrANewerSchedulerIsLeftAlone) {
  ASSERT_TRUE(upload_.Store(run_.Make(10, 5)).stored);
  const auto objects = store_->List("").value();
  CheckpointUpload other(store_.get());
  const auto foreign = other.Store(run_.Make(10, 9, RunId{0x99}));
  EXPECT_EQ(foreign.status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(foreign.status.message(), HasSubstr("a prefix of its own"));
  const auto older = other.Store(run_.Make(20, 4));
  EXPECT_EQ(older.status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(older.status.message(), HasSubstr("another scheduler goes on with it"));
  EXPECT_FALSE(older.stored);
  EXPECT_EQ(store_->List("").value(), objects);
}

TEST_F(CheckpointUploadTest, ADamagedManifestDoesNotCount) {
  for (const std::uint64_t step : {10u, 20u}) {
    ASSERT_TRUE(upload_.Store(run_.Make(step)).status.ok());
  }
  ASSERT_TRUE(store_->PutBytes(ManifestKey({1, 20}), "damaged").ok());
  CheckpointUpload restarted(store_.get());
  ASSERT_TRUE(restarted.Store(run_.Make(30)).status.ok());
  EXPECT_THAT(Manifests(), ElementsAre(ManifestName{1, 30}, ManifestName{1, 10}));
}

TEST_F(CheckpointUploadTest, AManifestOfANewerVersionStopsAllDeleting) {
  ASSERT_TRUE(upload_.Store(run_.Make(10)).stored);
  std::string text = FormatStoredRun(run_.Make(10).run);
  std::string line = text.substr(65, text.size() - 66);
  line.replace(line.find("\"format\":1"), 10, "\"format\":2");
  text = storage::HashOf(std::as_bytes(std::span(line))).ToHex() + "\n" + line + "\n";
  ASSERT_TRUE(store_->PutBytes(ManifestKey({1, 10}), text).ok());
  CheckpointUpload restarted(store_.get());
  const auto outcome = restarted.Store(run_.Make(20));
  EXPECT_EQ(outcome.status.code(), StatusCode::kUnimplemented);
  EXPECT_TRUE(store_->Head(ManifestKey({1, 10})).ok());
}

TEST_F(CheckpointUploadTest, ABlobThatIsTooShortOrGoneIsSentAgain) {
  const CheckpointCopy copy = run_.Make(10);
  ASSERT_TRUE(upload_.Store(copy).status.ok());
  const std::string data = BlobKey(copy.run.initial[0].hash),
                    part = BlobKey(copy.run.initial[1].hash);
  ASSERT_TRUE(store_->PutBytes(data, "the").ok());
  ASSERT_TRUE(store_->Delete(part).ok());
  CheckpointUpload restarted(store_.get());
  ASSERT_TRUE(restarted.Store(run_.Make(20)).status.ok());
  EXPECT_EQ(store_->Get(data, 0, 99).value(), "the data");
  EXPECT_EQ(store_->Get(part, 0, 99).value(), "fresh weights");
}

TEST_F(CheckpointUploadTest, AFileThatIsGoneHereLeavesNoManifest) {
  const CheckpointCopy copy = run_.Make(10);
  std::filesystem::remove(copy.files.at(copy.run.checkpoint[0].hash));
  const auto outcome = upload_.Store(copy);
  EXPECT_FALSE(outcome.stored);
  EXPECT_EQ(outcome.status.code(), StatusCode::kNotFound);
  EXPECT_TRUE(Manifests().empty());
}

}  // namespace
}  // namespace shoal::scheduler
