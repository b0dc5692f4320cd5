// What peers may put on the scheduler's disk.

#include "scheduler/server/run_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "tests/support/temporary_folder.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

storage::ContentHash HashOfText(const std::string& text) {
  return storage::HashOf(std::as_bytes(std::span(text)));
}

std::string Raw(const storage::ContentHash& hash) {
  return std::string(reinterpret_cast<const char*>(hash.digest.data()), hash.digest.size());
}

control::v1::ArtefactRef Ref(const std::string& text) {
  control::v1::ArtefactRef ref;
  ref.set_name("layer.0");
  ref.set_hash(Raw(HashOfText(text)));
  ref.set_size(text.size());
  return ref;
}

class RunStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = RunStore::Open(folder_.path());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = *std::move(opened);
  }
  Status Upload(const std::string& text, std::size_t bytes) {
    return store_->Write(Raw(HashOfText(text)), text.size(), 0, text.substr(0, bytes)).status();
  }
  Status Upload(const std::string& text) { return Upload(text, text.size()); }
  bool Has(const std::string& text) { return store_->content().Has(HashOfText(text)); }

  test_support::TemporaryFolder folder_;
  std::unique_ptr<RunStore> store_;
};

TEST_F(RunStoreTest, NothingIsTakenButWhatIsWanted) {
  EXPECT_EQ(Upload("anything").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(store_->UploadOffset(Raw(HashOfText("x")), 1).status().code(),
            StatusCode::kPermissionDenied);
  EXPECT_THAT(Upload("anything").message(), HasSubstr("does not need the artefact"));
  EXPECT_EQ(store_->content().bytes(), 0u);
  std::vector<std::string> here;
  store_->SetRepair({{}, {}, [&](const std::string& hash) { here.push_back(hash); }});
  store_->Want({Ref("anything")});
  EXPECT_TRUE(Upload("anything", 3).ok());
  EXPECT_TRUE(here.empty());
  EXPECT_EQ(*store_->Write(Raw(HashOfText("anything")), 8, 3, "thing"), 8u);
  EXPECT_TRUE(Has("anything"));
  EXPECT_EQ(here, std::vector<std::string>{Raw(HashOfText("anything"))});
  EXPECT_TRUE(Upload("anything").ok()) << "another peer sends the same";
  store_->Want({Ref("anything")});
  EXPECT_EQ(here.size(), 2u) << "whoever wants it hears that it is here";
}

// The scheduler ended between the last byte of an upload and its check.
TEST_F(RunStoreTest, WhatCameWholeIsTakenWhenItIsOfferedAgain) {
  store_->Want({Ref("right"), Ref("wrong")});
  std::vector<std::string> here;
  store_->SetRepair({{}, {}, [&](const std::string& hash) { here.push_back(hash); }});
  const auto append = [&](const std::string& of, const std::string& bytes) {
    ASSERT_TRUE(
        store_->content().AppendPartial(HashOfText(of), 0, std::as_bytes(std::span(bytes))).ok());
  };
  append("right", "right");
  append("wrong", "zeros");
  EXPECT_EQ(store_->UploadOffset(Raw(HashOfText("right")), 5).value(), 5u);
  EXPECT_TRUE(Has("right"));
  EXPECT_EQ(here, std::vector<std::string>{Raw(HashOfText("right"))});
  EXPECT_EQ(store_->bytes(), 5u);
  EXPECT_EQ(store_->UploadOffset(Raw(HashOfText("wrong")), 5).value(), 0u);
  EXPECT_FALSE(Has("wrong"));
  EXPECT_TRUE(Upload("wrong").ok());
}

TEST_F(RunStoreTest, WhatIsNeededStaysAndNothingElse) {
  store_->Want({Ref("kept"), Ref("given up"), Ref("unfinished"), Ref("on its way")});
  ASSERT_TRUE(Upload("kept").ok());
  ASSERT_TRUE(Upload("given up").ok());
  ASSERT_TRUE(Upload("unfinished", 3).ok());
  ASSERT_TRUE(Upload("on its way", 3).ok());
  ASSERT_TRUE(store_->Prune({Ref("kept"), Ref("on its way")}).ok());
  EXPECT_TRUE(Has("kept"));
  EXPECT_FALSE(Has("given up"));
  EXPECT_EQ(store_->content().PartialSize(HashOfText("unfinished")), 0u);
  EXPECT_EQ(store_->content().PartialSize(HashOfText("on its way")), 3u);
  EXPECT_EQ(Upload("unfinished").code(), StatusCode::kPermissionDenied) << "not any more";
  EXPECT_TRUE(store_->Write(Raw(HashOfText("on its way")), 10, 3, "its way").ok());
}

TEST_F(RunStoreTest, WhatIsPinnedStaysUntilNobodyNeedsIt) {
  store_->Want({Ref("checkpoint")});
  ASSERT_TRUE(Upload("checkpoint").ok());
  const std::vector<storage::ContentHash> pinned = {HashOfText("checkpoint")};
  store_->Pin(pinned);
  store_->Pin(pinned);
  ASSERT_TRUE(store_->Prune({}).ok());
  EXPECT_TRUE(Has("checkpoint"));
  store_->Unpin(pinned);
  ASSERT_TRUE(store_->Prune({}).ok());
  EXPECT_TRUE(Has("checkpoint"));
  store_->Unpin(pinned);
  ASSERT_TRUE(store_->Prune({}).ok());
  EXPECT_FALSE(Has("checkpoint"));
}

TEST_F(RunStoreTest, AnUploadThatChangesItsSizeIsRefused) {
  store_->Want({Ref("0123456789")});
  ASSERT_TRUE(Upload("0123456789", 5).ok());
  EXPECT_EQ(store_->UploadOffset(Raw(HashOfText("0123456789")), 9).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace shoal::scheduler
