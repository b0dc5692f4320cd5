// What every ControlClient does with artefacts, on all kinds: over gRPC, and the tests' fake.

#include "tests/unit/net/control/control_client_contract.h"

#include <map>

#include "common/mutex.h"
#include "tests/support/fake_control_client.h"
#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

constexpr std::size_t kManyBytes = 3'000'000;  // several chunks of any kind

TEST_P(ControlClientContract, AFetchBringsAllInOrder) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kManyBytes}) {
    const std::string hash = HashOf(static_cast<char>('a' + size % 7));
    rig_->Serve(hash, Blob(size));
    Told told;
    On([&] { Fetch(hash, 0, &told); });
    ASSERT_TRUE(Wait([&] { return !told.done.empty(); }));
    On([&] {
      EXPECT_EQ(EndOf(told), Status::Ok().ToString());
      EXPECT_EQ(told.bytes, Blob(size));
    });
  }
}

TEST_P(ControlClientContract, AFetchBeginsAtItsOffset) {
  rig_->Serve(HashOf('a'), Blob(kManyBytes));
  Told rest, nothing;
  On([&] {
    Fetch(HashOf('a'), 1'234'567, &rest);
    Fetch(HashOf('a'), kManyBytes, &nothing);
  });
  ASSERT_TRUE(Wait([&] { return !rest.done.empty() && !nothing.done.empty(); }));
  On([&] {
    EXPECT_EQ(rest.bytes, Blob(kManyBytes).substr(1'234'567));
    EXPECT_TRUE(nothing.done[0].ok());
    EXPECT_EQ(nothing.bytes, "");
  });
}

TEST_P(ControlClientContract, FetchesAtTheSameTimeAreApart) {
  rig_->Serve(HashOf('a'), Blob(kManyBytes, 1));
  rig_->Serve(HashOf('b'), Blob(kManyBytes, 2));
  Told a, b;
  On([&] {
    Fetch(HashOf('a'), 0, &a);
    Fetch(HashOf('b'), 0, &b);
  });
  ASSERT_TRUE(Wait([&] { return !a.done.empty() && !b.done.empty(); }));
  On([&] {
    EXPECT_EQ(a.bytes, Blob(kManyBytes, 1));
    EXPECT_EQ(b.bytes, Blob(kManyBytes, 2));
  });
}

TEST_P(ControlClientContract, WhatNobodyHasIsNotFound) {
  Told told;
  On([&] { Fetch(HashOf('x'), 0, &told); });
  ASSERT_TRUE(Wait([&] { return !told.done.empty(); }));
  On([&] {
    EXPECT_EQ(told.done[0].code(), StatusCode::kNotFound);
    EXPECT_EQ(told.chunks, 0);
  });
}

TEST_P(ControlClientContract, ARefusedChunkEndsTheFetchWithItsReason) {
  rig_->Serve(HashOf('a'), Blob(kManyBytes));
  Told told;
  On([&] { Fetch(HashOf('a'), 0, &told, [] { return Aborted("no room"); }); });
  ASSERT_TRUE(Wait([&] { return !told.done.empty(); }));
  On([&] {
    EXPECT_EQ(EndOf(told), Aborted("no room").ToString());
    EXPECT_EQ(told.chunks, 1);
  });
}

TEST_P(ControlClientContract, AnUploadBringsAll) {
  for (const std::size_t size : {std::size_t{1}, kManyBytes}) {
    const std::string hash = HashOf(static_cast<char>('a' + size % 7)), blob = Blob(size);
    Told told;
    On([&] {
      Upload(hash, size, &told, [&blob](std::uint64_t offset, std::size_t bytes) {
        return Result<std::string>(blob.substr(offset, bytes));
      });
    });
    ASSERT_TRUE(Wait([&] { return !told.done.empty(); }));
    On([&] {
      EXPECT_EQ(EndOf(told), Status::Ok().ToString());
      EXPECT_EQ(rig_->Uploaded(hash), blob);
    });
  }
}

TEST_P(ControlClientContract, WhatCannotBeReadEndsTheUploadWithItsReason) {
  Told told;
  On([&] {
    Upload(HashOf('u'), kManyBytes, &told, [](std::uint64_t, std::size_t) {
      return Result<std::string>(Unavailable("the disk is away"));
    });
  });
  ASSERT_TRUE(Wait([&] { return !told.done.empty(); }));
  On([&] {
    EXPECT_EQ(EndOf(told), Unavailable("the disk is away").ToString());
    EXPECT_EQ(told.chunks, 1);
  });
}

TEST_P(ControlClientContract, TheEndMayBeginTheNext) {
  rig_->Serve(HashOf('a'), Blob(1000));
  Told first, second;
  On([&] { Fetch(HashOf('a'), 0, &first, nullptr, [&] { Fetch(HashOf('a'), 10, &second); }); });
  ASSERT_TRUE(Wait([&] { return !second.done.empty(); }));
  On([&] { EXPECT_EQ(second.bytes, Blob(1000).substr(10)); });
}

TEST_P(ControlClientContract, ItMayGoInTheMiddleOfTransfers) {
  rig_->Serve(HashOf('a'), Blob(10 * kManyBytes));
  Told fetched, uploaded;
  On([&] {
    Fetch(HashOf('a'), 0, &fetched);
    Upload(HashOf('u'), 10 * kManyBytes, &uploaded,
           [](std::uint64_t, std::size_t bytes) { return Result<std::string>(Blob(bytes)); });
  });
  ASSERT_TRUE(Wait([&] { return fetched.chunks > 0 && uploaded.chunks > 0; }));
  On([&] {
    client_.reset();
    fetched.chunks = uploaded.chunks = 0;
  });
  for (int i = 0; i < 10; ++i) {
    On([&] {
      EXPECT_EQ(fetched.chunks + uploaded.chunks, 0);
      EXPECT_TRUE(fetched.done.empty());
      EXPECT_TRUE(uploaded.done.empty());
    });
  }
}

TEST_P(ControlClientContract, ACallMayDestroyIt) {
  rig_->Serve(HashOf('a'), Blob(kManyBytes));
  Told at_chunk, at_end;
  const auto held = std::make_shared<std::string>("alive");
  On([&] {
    Fetch(HashOf('a'), 0, &at_chunk, [this, held] {
      client_.reset();
      EXPECT_EQ(*held, "alive");
      return Status::Ok();
    });
  });
  ASSERT_TRUE(Wait([&] { return client_ == nullptr; }));
  On([&] {
    EXPECT_EQ(at_chunk.chunks, 1);
    EXPECT_TRUE(at_chunk.done.empty());
    client_ = rig_->NewClient();
    Fetch(HashOf('x'), 0, &at_end, nullptr, [this] { client_.reset(); });
  });
  ASSERT_TRUE(Wait([&] { return client_ == nullptr; }));
  On([&] { EXPECT_EQ(at_end.done.size(), 1u); });
}

// ---- the kinds ----

class GrpcRig final : public ControlClientRig {
 public:
  GrpcRig() {
    RunOn(executor_.get(), [this] {
      ControlServerOptions options;
      options.listen = "127.0.0.1:0";
      options.identity = scheduler_;
      options.admission = InvitedTo(scheduler_->id);
      server_ = NewControlServer(options, executor_.get(), blocking_.get(), Handlers()).value();
      return 0;
    });
  }
  ~GrpcRig() override {
    RunOn(executor_.get(), [this] {
      server_.reset();
      return 0;
    });
  }
  std::unique_ptr<ControlClient> NewClient() override {
    ControlClientOptions options;
    options.addresses = {"127.0.0.1:" + std::to_string(server_->port())};
    options.scheduler = scheduler_->id;
    options.identity = peer_;
    options.join_secret = kJoinSecret;
    const auto limiter = std::make_shared<RateLimiter>(&SystemClock());
    return NewControlClient(options, executor_.get(), limiter, limiter, {});
  }
  void Serve(const std::string& hash, std::string blob) override {
    MutexLock lock(mutex_);
    blobs_[hash] = std::move(blob);
  }
  std::string Uploaded(const std::string& hash) override {
    MutexLock lock(mutex_);
    return uploads_[hash];
  }

 private:
  ControlServerHandlers Handlers() {
    ControlServerHandlers handlers;
    handlers.may_fetch = [](PeerId) { return true; };
    handlers.read_artefact = [this](const std::string& hash, std::uint64_t offset,
                                    std::size_t size) -> Result<std::string> {
      MutexLock lock(mutex_);
      const auto found = blobs_.find(hash);
      if (found == blobs_.end()) return NotFound("no artefact of this hash");
      return found->second.substr(offset, size);
    };
    handlers.upload_offset = [this](PeerId, const std::string& hash,
                                    std::uint64_t) -> Result<std::uint64_t> {
      MutexLock lock(mutex_);
      return uploads_[hash].size();
    };
    handlers.write_artefact = [this](PeerId, const std::string& hash, std::uint64_t, std::uint64_t,
                                     const std::string& data) -> Result<std::uint64_t> {
      MutexLock lock(mutex_);
      return (uploads_[hash] += data).size();
    };
    return handlers;
  }

  Mutex mutex_;
  std::map<std::string, std::string> blobs_ SHOAL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> uploads_ SHOAL_GUARDED_BY(mutex_);
  const std::unique_ptr<Executor> blocking_ = NewThreadPool("blocking", 2);
  const std::shared_ptr<const Identity> scheduler_ = MakeIdentity();
  const std::shared_ptr<const Identity> peer_ = MakeIdentity();
  std::unique_ptr<ControlServer> server_;
};

class FakeRig final : public ControlClientRig {
 public:
  std::unique_ptr<ControlClient> NewClient() override {
    auto client = std::make_unique<test_support::FakeControlClient>(executor_.get());
    client->chunk_bytes = 100'000;
    client->blobs = blobs_;
    client_ = client.get();
    return client;
  }
  void Serve(const std::string& hash, std::string blob) override {
    RunOn(executor_.get(), [&] {
      blobs_[hash] = blob;
      client_->blobs[hash] = std::move(blob);
      return 0;
    });
  }
  std::string Uploaded(const std::string& hash) override { return client_->uploads[hash]; }

 private:
  std::map<std::string, std::string> blobs_;
  test_support::FakeControlClient* client_ = nullptr;  // the newest
};

template <typename Rig>
std::unique_ptr<ControlClientRig> New() {
  return std::make_unique<Rig>();
}

// The fake has no network whose rate could be told.
class GrpcControlClient : public ControlClientContract {};

TEST_P(GrpcControlClient, LargeTransfersTellTheRate) {
  const auto fetch_and_upload = [&](std::size_t bytes) {
    const std::string hash = HashOf(static_cast<char>('a' + bytes % 7));
    rig_->Serve(hash, Blob(bytes));
    Told fetched, uploaded;
    On([&] {
      Fetch(hash, 0, &fetched);
      Upload(hash, bytes, &uploaded, [bytes](std::uint64_t offset, std::size_t size) {
        return Blob(bytes).substr(offset, size);
      });
    });
    ASSERT_TRUE(Wait([&] { return !fetched.done.empty() && !uploaded.done.empty(); }));
  };
  fetch_and_upload(3'000'000);
  EXPECT_EQ(client_->stats().fetch_bps, 0);
  EXPECT_EQ(client_->stats().upload_bps, 0);
  fetch_and_upload(6'000'000);
  EXPECT_GT(client_->stats().fetch_bps, 1e6);
  EXPECT_GT(client_->stats().upload_bps, 1e6);
}

INSTANTIATE_TEST_SUITE_P(Rates, GrpcControlClient, testing::Values(&New<GrpcRig>));
INSTANTIATE_TEST_SUITE_P(Grpc, ControlClientContract, testing::Values(&New<GrpcRig>));
INSTANTIATE_TEST_SUITE_P(Fake, ControlClientContract, testing::Values(&New<FakeRig>));

}  // namespace
}  // namespace shoal::net
