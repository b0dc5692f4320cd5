#include "storage/files/content_store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>

#include "storage/files/content_hash.h"
#include "tests/unit/storage/storage_test_support.h"

namespace shoal::storage {
namespace {

using ::testing::HasSubstr;

class ContentStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    auto opened = OpenFileContentStore(folder_ / "content");
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = std::move(*opened);
  }
  std::string Whole(const ContentHash& hash) {
    const auto path = store_->PathOf(hash);
    EXPECT_TRUE(path.ok());
    return path.ok() ? ReadAll(*path) : "";
  }
  std::string BlobPath(const ContentHash& hash) const {
    return folder_ / ("content/blobs/" + hash.ToHex());
  }
  TemporaryFolder folder_;
  std::unique_ptr<ContentStore> store_;
};

// The published BLAKE2b-256 values of the empty text and of "abc".
TEST(ContentHash, KnownValues) {
  EXPECT_EQ(HashOf({}).ToHex(), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
  EXPECT_EQ(HashOf(Bytes("abc")).ToHex(),
            "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

TEST(ContentHash, HexRoundTripsAndRefusesAnythingElse) {
  const std::string hex = HashOf(Bytes("abc")).ToHex();
  ASSERT_TRUE(ContentHash::FromHex(hex).ok());
  EXPECT_EQ(*ContentHash::FromHex(hex), HashOf(Bytes("abc")));
  std::string upper = hex;
  upper[0] = 'B';
  for (const std::string& wrong :
       {std::string(), hex.substr(1), hex + "0", upper, "g" + hex.substr(1), "../" + hex}) {
    EXPECT_FALSE(ContentHash::FromHex(wrong).ok()) << wrong;
  }
}

TEST_F(ContentStoreTest, PutBytesAndReadPieces) {
  const std::string text = "0123456789";
  EXPECT_FALSE(store_->Has(HashOf(Bytes(text))));
  EXPECT_EQ(store_->PathOf(HashOf(Bytes(text))).status().code(), StatusCode::kNotFound);
  const auto hash = store_->Put(Bytes(text));
  ASSERT_TRUE(hash.ok());
  EXPECT_EQ(*hash, HashOf(Bytes(text)));
  EXPECT_EQ(*store_->Put(Bytes(text)), *hash);
  EXPECT_EQ(store_->bytes(), 10u);
  EXPECT_EQ(*store_->Read(*hash, 0, 4), "0123");
  EXPECT_EQ(*store_->Read(*hash, 8, 1 << 30), "89");
  EXPECT_EQ(*store_->Read(*hash, 10, 5), "");
  EXPECT_EQ(store_->Read(*hash, 11, 5).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(store_->Read(HashOf({}), 0, 1).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*store_->Put({}), HashOf({}));
  EXPECT_EQ(*store_->Read(HashOf({}), 0, 1), "");
}

TEST_F(ContentStoreTest, PutFileLinksOrCopies) {
  std::mt19937_64 random(1);
  const std::string bytes = RandomBytes(random, 3'000'000);  // more than one piece
  WriteAll(folder_ / "source", bytes);
  const auto hash = store_->PutFile(folder_ / "source");
  ASSERT_TRUE(hash.ok()) << hash.status().ToString();
  EXPECT_EQ(*hash, HashOf(Bytes(bytes)));
  EXPECT_EQ(Whole(*hash), bytes);
  struct stat info {};
  ASSERT_EQ(::stat((folder_ / "source").c_str(), &info), 0);
  EXPECT_EQ(info.st_nlink, 2u);
  std::filesystem::remove(folder_ / "source");
  EXPECT_EQ(Whole(*hash), bytes);
  EXPECT_EQ(store_->PutFile(folder_ / "none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->PutFile(folder_.path()).status().code(), StatusCode::kInvalidArgument);
  if (std::filesystem::is_directory("/dev/shm")) {  // another file system: cannot be linked
    const std::string other = "/dev/shm/shoal-content-test-" + std::to_string(::getpid());
    WriteAll(other, "from elsewhere");
    const auto copied = store_->PutFile(other);
    std::filesystem::remove(other);
    ASSERT_TRUE(copied.ok()) << copied.status().ToString();
    EXPECT_EQ(Whole(*copied), "from elsewhere");
  }
}

// A pipe under the name of a blob, or given as a file, made whoever opened it wait for ever.
TEST_F(ContentStoreTest, PipesHangNobodyAndAreNamed) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(store_->PutFile(pipe).status().message(), HasSubstr(pipe + " is not a regular file"));
  EXPECT_EQ(HashFile(pipe).status().code(), StatusCode::kInvalidArgument);

  const std::string bytes = "0123456789";
  const ContentHash hash = HashOf(Bytes(bytes));
  const std::string partial = folder_ / ("content/partial/" + hash.ToHex());
  ASSERT_EQ(::mkfifo(partial.c_str(), 0600), 0);
  EXPECT_EQ(store_->PartialSize(hash), 0u);
  EXPECT_THAT(store_->AppendPartial(hash, 0, Bytes(bytes)).message(),
              HasSubstr(partial + " is not a regular file"));
  EXPECT_FALSE(store_->FinishPartial(hash, 0).ok());
  ASSERT_OK(store_->Remove(hash));

  ASSERT_EQ(::mkfifo((folder_ / ("content/blobs/" + hash.ToHex())).c_str(), 0600), 0);
  EXPECT_FALSE(store_->Has(hash));
  EXPECT_EQ(store_->Read(hash, 0, 1).status().code(), StatusCode::kNotFound);
  ASSERT_OK(store_->AppendPartial(hash, 0, Bytes(bytes)));
  ASSERT_OK(store_->FinishPartial(hash, bytes.size()));
  EXPECT_EQ(Whole(hash), bytes) << "the blob takes the place of the pipe";
}

TEST_F(ContentStoreTest, AFetchResumesAfterARestart) {
  std::mt19937_64 random(2);
  const std::string bytes = RandomBytes(random, 10'000);
  const ContentHash hash = HashOf(Bytes(bytes));
  EXPECT_EQ(store_->PartialSize(hash), 0u);
  ASSERT_OK(store_->AppendPartial(hash, 0, Bytes(bytes.substr(0, 4000))));
  EXPECT_EQ(store_->AppendPartial(hash, 3999, Bytes("x")).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(store_->AppendPartial(hash, 4001, Bytes("x")).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(store_->FinishPartial(hash, bytes.size()).code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(store_->Has(hash));
  Open();
  EXPECT_EQ(store_->PartialSize(hash), 4000u);
  ASSERT_OK(store_->AppendPartial(hash, 4000, Bytes(bytes.substr(4000))));
  ASSERT_OK(store_->FinishPartial(hash, bytes.size()));
  EXPECT_EQ(Whole(hash), bytes);
  EXPECT_EQ(store_->PartialSize(hash), 0u);
  EXPECT_EQ(store_->bytes(), bytes.size());
  EXPECT_OK(store_->FinishPartial(hash, bytes.size()));  // asking twice is harmless
}

TEST_F(ContentStoreTest, WrongBytesAreDeleted) {
  const ContentHash hash = HashOf(Bytes("right"));
  for (const std::string wrong : {"wrong", "right and more"}) {
    ASSERT_OK(store_->AppendPartial(hash, 0, Bytes(wrong)));
    const Status status = store_->FinishPartial(hash, 5);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr("fetch it again"));
    EXPECT_FALSE(store_->Has(hash));
    EXPECT_EQ(store_->PartialSize(hash), 0u);
  }
  ASSERT_OK(store_->AppendPartial(hash, 0, Bytes("right")));
  EXPECT_EQ(store_->FinishPartial(hash, 4).code(), StatusCode::kDataLoss);
  ASSERT_OK(store_->AppendPartial(hash, 0, Bytes("right")));
  EXPECT_OK(store_->FinishPartial(hash, 5));
  EXPECT_OK(store_->FinishPartial(HashOf({}), 0));  // an empty blob needs no bytes
  EXPECT_TRUE(store_->Has(HashOf({})));
}

// One flipped bit in a weight file trained on unnoticed, and halved or empty blobs stopped a run.
TEST_F(ContentStoreTest, ADamagedBlobIsDroppedAndCanBePutAgain) {
  const std::string text = "the weights of a layer";
  const ContentHash hash = HashOf(Bytes(text));
  WriteAll(folder_ / "source", text);
  std::string flipped = text;
  flipped[5] ^= 1;
  const std::string harms[] = {flipped, text.substr(0, 11), "", text + "more"};
  for (const std::string& harm : harms) {
    for (const bool while_open : {false, true}) {
      ASSERT_TRUE(store_->Put(Bytes(text)).ok());
      ASSERT_TRUE(store_->Has(hash));
      WriteAll(BlobPath(hash), harm);
      // Times of files are those of a slow clock; damage comes later than the last look.
      std::filesystem::last_write_time(
          BlobPath(hash), std::filesystem::file_time_type::clock::now() + std::chrono::seconds(1));
      if (!while_open) Open();
      EXPECT_EQ(store_->Read(hash, 0, 4).status().code(), StatusCode::kNotFound);
      EXPECT_FALSE(store_->PathOf(hash).ok());
      EXPECT_FALSE(std::filesystem::exists(BlobPath(hash)));
      // Each way to have it again.
      if (while_open) {
        ASSERT_TRUE(store_->PutFile(folder_ / "source").ok());
      } else {
        ASSERT_OK(store_->AppendPartial(hash, 0, Bytes(text)));
        ASSERT_OK(store_->FinishPartial(hash, text.size()));
      }
      EXPECT_EQ(Whole(hash), text);
      std::filesystem::remove(BlobPath(hash));
    }
  }
}

TEST_F(ContentStoreTest, PuttingReplacesADamagedBlobThatNobodyLookedAt) {
  const std::string text = "the weights of a layer";
  const ContentHash hash = *store_->Put(Bytes(text));
  WriteAll(folder_ / "source", text);
  WriteAll(BlobPath(hash), "damaged");
  Open();
  ASSERT_TRUE(store_->PutFile(folder_ / "source").ok());
  EXPECT_EQ(Whole(hash), text);
  WriteAll(folder_ / "copy", "damaged");  // not through the hard link to the source
  std::filesystem::rename(folder_ / "copy", BlobPath(hash));
  Open();
  ASSERT_TRUE(store_->Put(Bytes(text)).ok());
  EXPECT_EQ(Whole(hash), text);
  // Again, where blob and source are one file.
  std::filesystem::remove(BlobPath(hash));
  ASSERT_TRUE(store_->PutFile(folder_ / "source").ok());
  Open();
  ASSERT_TRUE(store_->PutFile(folder_ / "source").ok());
  EXPECT_EQ(NamesIn(folder_ / "content/blobs"), std::vector<std::string>{hash.ToHex()});
  EXPECT_EQ(store_->Hashes(), std::vector<ContentHash>{hash});
}

TEST_F(ContentStoreTest, FoldersDeletedWhileInUseAreMadeAgain) {
  const ContentHash hash = *store_->Put(Bytes("a"));
  std::filesystem::remove_all(folder_ / "content");
  EXPECT_FALSE(store_->Has(hash));
  ASSERT_OK(store_->AppendPartial(hash, 0, Bytes("a")));
  ASSERT_OK(store_->FinishPartial(hash, 1));
  EXPECT_TRUE(store_->Has(hash));
  std::filesystem::remove_all(folder_ / "content");
  ASSERT_TRUE(store_->Put(Bytes("a")).ok());
  EXPECT_TRUE(store_->Has(hash));
}

TEST_F(ContentStoreTest, KeepOnlyDeletesTheRest) {
  const ContentHash a = *store_->Put(Bytes("a"));
  const ContentHash b = *store_->Put(Bytes("b"));
  const ContentHash c = HashOf(Bytes("c1"));
  const ContentHash d = HashOf(Bytes("d1"));
  ASSERT_OK(store_->AppendPartial(c, 0, Bytes("c")));
  ASSERT_OK(store_->AppendPartial(d, 0, Bytes("d")));
  const ContentHash kept[] = {b, d};
  ASSERT_OK(store_->KeepOnly(kept));
  EXPECT_FALSE(store_->Has(a));
  EXPECT_TRUE(store_->Has(b));
  EXPECT_EQ(store_->PartialSize(c), 0u);
  EXPECT_EQ(store_->PartialSize(d), 1u);
  EXPECT_EQ(store_->bytes(), 2u);
}

TEST_F(ContentStoreTest, LeftoversOfAKilledProcessAreSwept) {
  const ContentHash hash = *store_->Put(Bytes("a"));
  WriteAll(folder_ / "content/blobs/" + hash.ToHex() + ".tmp-abc", "half");
  Open();
  EXPECT_EQ(NamesIn(folder_ / "content/blobs"), std::vector<std::string>{hash.ToHex()});
  EXPECT_EQ(NamesIn(folder_ / "content"), (std::vector<std::string>{"blobs", "partial"}));
}

}  // namespace
}  // namespace shoal::storage
