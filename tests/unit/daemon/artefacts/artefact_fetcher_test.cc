#include "daemon/artefacts/artefact_fetcher.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "daemon/artefacts/artefact_offer.h"
#include "tests/support/fake_control_client.h"
#include "tests/unit/daemon/daemon_test_util.h"

namespace shoal::daemon {
namespace {

using test_support::FakeControlClient;
using testing::AllOf;
using testing::HasSubstr;

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string Blob(std::size_t size, int seed) {
  std::string blob(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    blob[i] = static_cast<char>(i * 13 + (i >> 7) + static_cast<std::size_t>(seed));
  }
  return blob;
}

class ArtefactFetcherTest : public testing::Test {
 protected:
  ArtefactFetcherTest()
      : content_(storage::OpenFileContentStore(folder_.path()).value()),
        client_(control_.get()),
        fetcher_(std::make_unique<ArtefactFetcher>(control_.get(), store_.get(), content_.get())) {}
  ~ArtefactFetcherTest() override {
    RunOn(control_.get(), [this] {
      fetcher_.reset();
      return 0;
    });
  }

  // An artefact of the scheduler; `served` is what it sends under that name.
  storage::ArtefactRef Offer(const std::string& name, const std::string& blob,
                             std::optional<std::string> served = std::nullopt) {
    storage::ArtefactRef ref{name, storage::HashOf(Bytes(blob)), blob.size()};
    const auto& digest = ref.hash.digest;
    client_.blobs[std::string(digest.begin(), digest.end())] = served.value_or(blob);
    return ref;
  }
  void Start(const std::vector<storage::ArtefactRef>& artefacts) {
    RunOn(control_.get(), [&] {
      done_.reset();
      fetcher_->Start([this] { return connected_ ? &client_ : nullptr; }, artefacts,
                      [this](Status status) {
                        EXPECT_FALSE(done_) << "done twice";
                        done_ = std::move(status);
                      });
      return 0;
    });
  }
  Status Fetch(const std::vector<storage::ArtefactRef>& artefacts) {
    Start(artefacts);
    EXPECT_TRUE(WaitUntil(control_.get(), [this] { return done_.has_value(); }));
    return done_.value_or(Internal("not done"));
  }
  std::string Stored(const storage::ArtefactRef& ref) {
    return RunOn(store_.get(), [&] {
      Result<std::string> bytes = content_->Read(ref.hash, 0, ref.size + 1);
      return bytes.ok() ? *bytes : "missing: " + bytes.status().message();
    });
  }
  FetchProgress Progress() {
    return RunOn(control_.get(), [this] { return fetcher_->progress(); });
  }

  const TemporaryFolder folder_;
  std::unique_ptr<Executor> control_ = NewThreadExecutor("control");
  std::unique_ptr<storage::ContentStore> content_;
  std::unique_ptr<Executor> store_ = NewThreadExecutor("store");
  FakeControlClient client_;
  bool connected_ = true;
  std::unique_ptr<ArtefactFetcher> fetcher_;
  std::optional<Status> done_;
};

TEST_F(ArtefactFetcherTest, ADamagedBlobIsFetchedAgain) {
  const auto layer = Offer("layer.0", Blob(5500, 1));
  ASSERT_TRUE(Fetch({layer}).ok());
  std::string damaged = Blob(5500, 1);
  damaged[77] = static_cast<char>(damaged[77] ^ 4);
  std::ofstream(folder_ / ("blobs/" + layer.hash.ToHex())) << damaged;
  content_ = storage::OpenFileContentStore(folder_.path()).value();  // a restart
  RunOn(control_.get(), [this] {
    fetcher_ = std::make_unique<ArtefactFetcher>(control_.get(), store_.get(), content_.get());
    return 0;
  });
  ASSERT_TRUE(Fetch({layer}).ok());
  EXPECT_EQ(Stored(layer), Blob(5500, 1));
  EXPECT_EQ(client_.offsets, (std::vector<std::uint64_t>{0, 0}));
}

TEST_F(ArtefactFetcherTest, ADamagedPartialIsFetchedFromItsBeginning) {
  for (const std::size_t had : {1000u, 5500u}) {
    const auto layer = Offer("layer.0", Blob(5500, static_cast<int>(had)));
    const Status had_before = RunOn(store_.get(), [&] {
      return content_->AppendPartial(layer.hash, 0, Bytes(std::string(had, 'x')));
    });
    ASSERT_TRUE(had_before.ok());
    const Status status = Fetch({layer});
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(Stored(layer), Blob(5500, static_cast<int>(had)));
    EXPECT_EQ(Progress().bytes_done, 5500u);
  }
  EXPECT_EQ(client_.offsets, (std::vector<std::uint64_t>{1000, 0, 0}));
}

TEST_F(ArtefactFetcherTest, ANewOfferTakesThePlaceOfTheFormerAndItsFileUnderWayGoesOn) {
  const auto first = Offer("layer.0", Blob(90'000, 1));
  const auto second = Offer("layer.1", Blob(500, 2)), third = Offer("head", Blob(500, 3));
  ASSERT_TRUE(Fetch({first, second, third}).ok());
  auto offer = std::make_unique<ArtefactOffer>(control_.get(), store_.get(), content_.get());
  int pieces = 0;
  std::string ends;
  const auto start = [&](std::vector<storage::ArtefactRef> files, const std::string& end) {
    offer->Start(
        [&]() -> net::ControlClient* {
          ++pieces;  // of files
          return &client_;
        },
        std::move(files), [&ends, end](const Status& status) { ends += status.ok() ? end : "!"; });
    EXPECT_TRUE(offer->busy());
    return 0;
  };
  client_.on_first_piece = [&] { start({third, first}, "b"); };
  RunOn(control_.get(), [&] { return start({first, second}, "a"); });
  ASSERT_TRUE(WaitUntil(control_.get(), [&] { return !ends.empty(); }));
  EXPECT_EQ(ends, "b") << "the former says nothing";
  EXPECT_EQ(client_.uploads.size(), 2u) << "nobody wants the second any more";
  EXPECT_EQ(pieces, 2) << "each is sent once";
  // Another part of the same checkpoint may be wanted later.
  RunOn(control_.get(), [&] { return start({first}, "c"); });
  ASSERT_TRUE(WaitUntil(control_.get(), [&] { return ends.size() == 2; }));
  RunOn(control_.get(), [&] {
    EXPECT_FALSE(offer->busy());
    offer.reset();
    return 0;
  });
}

TEST_F(ArtefactFetcherTest, WhatTheSchedulerLostIsOfferedIfItIsWholeHere) {
  const auto whole = Offer("layer.0", Blob(5500, 1));
  const auto damaged = Offer("layer.1", Blob(5500, 2));
  const auto last = Offer("head", Blob(100, 3));
  ASSERT_TRUE(Fetch({whole, damaged, last}).ok());
  content_ = storage::OpenFileContentStore(folder_.path()).value();
  std::ofstream(folder_ / ("blobs/" + damaged.hash.ToHex())) << Blob(5500, 4);
  const auto missing = Offer("layer.2", Blob(1, 5));
  client_.upload_status = PermissionDenied("some fail");
  auto offer = std::make_unique<ArtefactOffer>(control_.get(), store_.get(), content_.get());
  bool connected = true, done = false;
  const auto start = [&] {
    RunOn(control_.get(), [&] {
      offer->Start([&]() -> net::ControlClient* { return connected ? &client_ : nullptr; },
                   {missing, damaged, whole, last},
                   [&](const Status& status) {
                     EXPECT_THAT(status.message(), HasSubstr("some fail"));
                     done = true;
                   });
      return 0;
    });
  };
  start();
  ASSERT_TRUE(WaitUntil(control_.get(), [&] { return done; }));
  const auto raw = [](const storage::ArtefactRef& ref) {
    return std::string(ref.hash.digest.begin(), ref.hash.digest.end());
  };
  EXPECT_EQ(client_.uploads, (std::map<std::string, std::string>{{raw(whole), Blob(5500, 1)},
                                                                 {raw(last), Blob(100, 3)}}));
  // Not connected any more: it ends without a word.
  client_.uploads.clear();
  connected = done = false;
  start();
  for (int i = 0; i < 10; ++i) {
    RunOn(store_.get(), [] { return 0; });
    RunOn(control_.get(), [] { return 0; });
  }
  EXPECT_TRUE(client_.uploads.empty());
  EXPECT_FALSE(done);
  RunOn(control_.get(), [&] {
    offer.reset();
    return 0;
  });
}

TEST_F(ArtefactFetcherTest, AnUploadThatBreaksIsTriedAgain) {
  const auto file = Offer("layer.0", Blob(5500, 1));
  ASSERT_TRUE(Fetch({file}).ok());
  client_.upload_failures = {Unavailable("the line broke")};
  auto offer = std::make_unique<ArtefactOffer>(control_.get(), store_.get(), content_.get());
  std::optional<Status> ended;
  RunOn(control_.get(), [&] {
    offer->Start([&]() -> net::ControlClient* { return &client_; }, {file},
                 [&](const Status& status) { ended = status; });
    return 0;
  });
  ASSERT_TRUE(WaitUntil(control_.get(), [&] { return ended.has_value(); }));
  EXPECT_TRUE(ended->ok()) << ended->ToString();
  EXPECT_TRUE(client_.upload_failures.empty());
  EXPECT_EQ(client_.uploads.size(), 1u);
  RunOn(control_.get(), [&] {
    offer.reset();
    return 0;
  });
}

TEST_F(ArtefactFetcherTest, BringsAllInOrder) {
  const std::string layer = Blob(5500, 1);
  const std::string data = Blob(1, 2);
  const auto first = Offer("layer.0", layer);
  const auto second = Offer("data", data);
  const Status status = Fetch({first, second});
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(Stored(first), layer);
  EXPECT_EQ(Stored(second), data);
  EXPECT_EQ(Progress().bytes_done, 5501u);
  EXPECT_EQ(Progress().bytes_total, 5501u);
}

TEST_F(ArtefactFetcherTest, NothingToFetchIsDone) {
  EXPECT_TRUE(Fetch({}).ok());
  EXPECT_TRUE(client_.offsets.empty());
}

TEST_F(ArtefactFetcherTest, FetchesNothingThatIsThere) {
  const std::string blob = Blob(3000, 1);
  const auto ref = Offer("layer.0", blob);
  ASSERT_TRUE(Fetch({ref}).ok());
  ASSERT_TRUE(Fetch({ref, ref}).ok());
  EXPECT_EQ(client_.offsets.size(), 1u);
  EXPECT_EQ(Progress().bytes_done, 6000u);
}

TEST_F(ArtefactFetcherTest, ResumesAfterABreak) {
  const std::string blob = Blob(9000, 4);
  const auto ref = Offer("layer.0", blob);
  client_.break_after = 4000;
  const Status broken = Fetch({ref});
  EXPECT_EQ(broken.code(), StatusCode::kUnavailable);
  EXPECT_THAT(broken.message(), AllOf(HasSubstr("layer.0"), HasSubstr("the stream broke")));
  const Status status = Fetch({ref});
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_THAT(client_.offsets, testing::ElementsAre(0u, 4000u));
  EXPECT_EQ(Stored(ref), blob);
  EXPECT_EQ(Progress().bytes_done, 9000u);
}

TEST_F(ArtefactFetcherTest, ResumesInANewProcess) {
  const std::string blob = Blob(9000, 4);
  const auto ref = Offer("layer.0", blob);
  client_.break_after = 2000;
  ASSERT_FALSE(Fetch({ref}).ok());
  RunOn(store_.get(), [this] {
    content_ = storage::OpenFileContentStore(folder_.path()).value();
    return 0;
  });
  RunOn(control_.get(), [this] {
    fetcher_ = std::make_unique<ArtefactFetcher>(control_.get(), store_.get(), content_.get());
    return 0;
  });
  ASSERT_TRUE(Fetch({ref}).ok());
  EXPECT_THAT(client_.offsets, testing::ElementsAre(0u, 2000u));
  EXPECT_EQ(Stored(ref), blob);
}

TEST_F(ArtefactFetcherTest, WrongBytesAreRefusedAndFetchedAfresh) {
  const std::string blob = Blob(4000, 4);
  std::string wrong = blob;
  wrong[3999] ^= 1;
  const auto ref = Offer("head", blob, wrong);
  const Status status = Fetch({ref});
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("head"));
  EXPECT_FALSE(RunOn(store_.get(), [&] { return content_->Has(ref.hash); }));
  Offer("head", blob);
  ASSERT_TRUE(Fetch({ref}).ok());
  EXPECT_THAT(client_.offsets, testing::ElementsAre(0u, 0u));
  EXPECT_EQ(Stored(ref), blob);
}

TEST_F(ArtefactFetcherTest, TooManyBytesAreRefusedBeforeTheyAreKept) {
  const std::string blob = Blob(4000, 4);
  const auto ref = Offer("head", blob, blob + Blob(100'000, 5));
  const Status status = Fetch({ref});
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("more bytes than the artefact has"));
  EXPECT_EQ(client_.refusals.size(), 1u);
  EXPECT_LE(RunOn(store_.get(), [&] { return content_->PartialSize(ref.hash); }), 4000u);
}

TEST_F(ArtefactFetcherTest, TooFewBytesAreKeptForTheNextAttempt) {
  const std::string blob = Blob(4000, 4);
  const auto ref = Offer("head", blob, blob.substr(0, 2500));
  EXPECT_FALSE(Fetch({ref}).ok());
  Offer("head", blob);
  ASSERT_TRUE(Fetch({ref}).ok());
  EXPECT_THAT(client_.offsets, testing::ElementsAre(0u, 2500u));
}

TEST_F(ArtefactFetcherTest, UnknownArtefactIsNamed) {
  const std::string blob = Blob(40, 4);
  auto ref = Offer("layer.7", blob);
  client_.blobs.clear();
  const Status status = Fetch({ref});
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("fetching artefact layer.7"));
}

TEST_F(ArtefactFetcherTest, UnwritableStoreEndsTheStream) {
  const std::string blob = Blob(50'000, 4);
  const auto ref = Offer("layer.7", blob);
  // A folder in the place of the partial file: as on a broken disk, opening it fails.
  std::filesystem::create_directories(folder_.path() + "/partial/" + ref.hash.ToHex());
  const Status status = Fetch({ref});
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("storing artefact layer.7"));
}

TEST_F(ArtefactFetcherTest, DestroyedInFlightItSaysNothingMore) {
  const auto ref = Offer("layer.0", Blob(5000, 1));
  // The executor runs in order: this task, the first chunk, the fetcher's end, the second chunk.
  client_.on_first_fetch = [this] {
    control_->Post("first", [this] { control_->Post("end", [this] { fetcher_.reset(); }); });
  };
  Start({ref});
  // The stream notices at its next chunk.
  ASSERT_TRUE(WaitUntil(control_.get(), [this] { return !client_.refusals.empty(); }));
  EXPECT_EQ(client_.refusals[0].code(), StatusCode::kCancelled);
  EXPECT_EQ(RunOn(store_.get(), [&] { return content_->PartialSize(ref.hash); }), 1000u);
  EXPECT_FALSE(done_.has_value());
}

// A connection that broke while the store looked for the next artefact was used all the same.
TEST_F(ArtefactFetcherTest, AConnectionThatIsGoneIsNotUsed) {
  const auto first = Offer("layer.0", Blob(900, 1)), second = Offer("layer.1", Blob(900, 2));
  client_.on_first_fetch = [this] { connected_ = false; };
  const Status status = Fetch({first, second});
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("fetching artefact layer.1: not connected"));
  EXPECT_EQ(RunOn(control_.get(), [this] { return client_.offsets.size(); }), 1u);
}

TEST_F(ArtefactFetcherTest, ANewStartReplacesTheOldOne) {
  const auto stuck = Offer("layer.0", Blob(5000, 1));
  client_.stall = true;
  Start({stuck});
  ASSERT_TRUE(WaitUntil(control_.get(), [this] { return !client_.offsets.empty(); }));
  client_.stall = false;
  const std::string blob = Blob(2000, 2);
  const auto ref = Offer("layer.1", blob);
  ASSERT_TRUE(Fetch({ref}).ok());
  EXPECT_EQ(Progress().bytes_total, 2000u);
  EXPECT_EQ(Stored(ref), blob);
}

}  // namespace
}  // namespace shoal::daemon
