// What peers may put on the scheduler's disk.

#include "scheduler/server/run_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "tests/support/temporary_folder.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

PeerId Peer(std::uint8_t number) {
  PeerId peer;
  peer.key[0] = number;
  return peer;
}

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
    store_->SetUploadLimit(1000);
    ASSERT_TRUE(store_->BeginPlan({{Peer(1), {4, 400}}, {Peer(2), {4, 400}}}, {}).ok());
  }
  Status Upload(const PeerId& peer, const std::string& text, std::size_t bytes) {
    return store_->Write(peer, Raw(HashOfText(text)), text.size(), 0, text.substr(0, bytes))
        .status();
  }
  Status Upload(const PeerId& peer, const std::string& text) {
    return Upload(peer, text, text.size());
  }
  bool Has(const std::string& text) { return store_->content().Has(HashOfText(text)); }

  test_support::TemporaryFolder folder_;
  std::unique_ptr<RunStore> store_;
};

TEST_F(RunStoreTest, ASpareUploadsNothingButWhatIsWanted) {
  EXPECT_EQ(Upload(Peer(3), "of a spare").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(store_->UploadOffset(Peer(3), Raw(HashOfText("x")), 1).status().code(),
            StatusCode::kPermissionDenied);
  EXPECT_THAT(Upload(Peer(3), "of a spare").message(), HasSubstr("has no stage in the plan"));
  EXPECT_EQ(store_->content().bytes(), 0u);
  store_->Want({Ref("of a spare")});
  EXPECT_TRUE(Upload(Peer(3), "of a spare").ok());
  EXPECT_TRUE(Has("of a spare"));
  EXPECT_TRUE(Upload(Peer(4), "of a spare").ok()) << "it sends the same";
}

TEST_F(RunStoreTest, UnfinishedUploadsOfAMemberStayWithinItsBounds) {
  for (int i = 0; i < 200; ++i) {
    const std::string text = std::to_string(i) + std::string(95, 'x');
    EXPECT_TRUE(Upload(Peer(1), text, text.size() - 1).ok());
    EXPECT_LE(store_->content().bytes(), 400u);
  }
  EXPECT_GT(store_->content().bytes(), 200u);
  EXPECT_EQ(Upload(Peer(1), std::string(401, 'x')).code(), StatusCode::kResourceExhausted);
}

TEST_F(RunStoreTest, ManyUploadsOfOneMemberCostNoOtherItsFiles) {
  ASSERT_TRUE(Upload(Peer(2), "honest").ok());
  ASSERT_TRUE(Upload(Peer(1), "honest").ok());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Upload(Peer(1), std::to_string(i)).ok());
  EXPECT_TRUE(Has("honest"));
  EXPECT_FALSE(Has("15"));
  EXPECT_TRUE(Has("16"));
  EXPECT_TRUE(Has("19"));
}

TEST_F(RunStoreTest, WhatTheRunNeedsIsNeverDeletedForAnUpload) {
  ASSERT_TRUE(Upload(Peer(1), "checkpoint").ok());
  ASSERT_TRUE(store_->Prune({Ref("checkpoint")}).ok());
  ASSERT_TRUE(Upload(Peer(1), "checkpoint").ok());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Upload(Peer(1), std::to_string(i)).ok());
  EXPECT_TRUE(Has("checkpoint"));
}

TEST_F(RunStoreTest, WhatIsPinnedStaysUntilNobodyNeedsIt) {
  ASSERT_TRUE(Upload(Peer(1), "checkpoint").ok());
  const std::vector<storage::ContentHash> pinned = {HashOfText("checkpoint")};
  store_->Pin(pinned);
  store_->Pin(pinned);
  // The checkpoint was given up for others of the same peer, and then a plan came.
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Upload(Peer(1), std::to_string(i)).ok());
  ASSERT_TRUE(store_->BeginPlan({{Peer(1), {4, 400}}}, {}).ok());
  EXPECT_TRUE(Has("checkpoint"));
  store_->Unpin(pinned);
  ASSERT_TRUE(store_->Prune({}).ok());
  EXPECT_TRUE(Has("checkpoint"));
  store_->Unpin(pinned);
  ASSERT_TRUE(store_->Prune({}).ok());
  EXPECT_FALSE(Has("checkpoint"));
}

TEST_F(RunStoreTest, ANewPlanDeletesWhatTheOneBeforeLeft) {
  ASSERT_TRUE(Upload(Peer(1), "kept").ok());
  ASSERT_TRUE(Upload(Peer(1), "given up").ok());
  ASSERT_TRUE(Upload(Peer(1), "unfinished", 3).ok());
  store_->Want({Ref("wanted")});
  ASSERT_TRUE(Upload(Peer(3), "wanted", 3).ok());
  ASSERT_TRUE(store_->BeginPlan({{Peer(2), {4, 400}}}, {Ref("kept")}).ok());
  EXPECT_TRUE(Has("kept"));
  EXPECT_FALSE(Has("given up"));
  EXPECT_EQ(store_->content().PartialSize(HashOfText("unfinished")), 0u);
  EXPECT_EQ(store_->content().PartialSize(HashOfText("wanted")), 3u);
  EXPECT_EQ(Upload(Peer(1), "another").code(), StatusCode::kPermissionDenied);
}

TEST_F(RunStoreTest, AnUploadThatChangesItsSizeIsRefused) {
  ASSERT_TRUE(Upload(Peer(1), "0123456789", 5).ok());
  EXPECT_EQ(store_->UploadOffset(Peer(1), Raw(HashOfText("0123456789")), 9).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace shoal::scheduler
