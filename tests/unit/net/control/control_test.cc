// Control streams and artefacts between a server and a client over real sockets on loopback.

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <optional>
#include <utility>

#include "common/mutex.h"
#include "net/control/control.h"
#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

constexpr std::size_t kChunk = 256 * 1024;

// What a scheduler would keep; used by the `blocking` threads and by the tests.
struct Store {
  std::map<std::string, std::string> blobs;  // set before the client connects
  Mutex mutex;
  std::map<std::string, std::string> uploads SHOAL_GUARDED_BY(mutex);
  // What the first question for the offset of an upload is answered with, if not the truth.
  std::optional<std::uint64_t> first_answer SHOAL_GUARDED_BY(mutex);
  std::optional<PeerId> uploader SHOAL_GUARDED_BY(mutex);  // of the last chunk
  std::atomic<bool> members_only = false;
  std::atomic<int> reads = 0;
};

struct ServerSide {
  std::unique_ptr<ControlServer> server;
  std::map<ConnectionId, PeerId> connected;
  std::vector<control::v1::PeerMessage> messages;
  std::vector<Status> disconnects;
  ConnectionId last = 0;

  ControlServerHandlers Handlers(Store* store) {
    ControlServerHandlers handlers;
    handlers.on_connect = [this](ConnectionId id, const ControlCaller& caller) {
      EXPECT_THAT(caller.address, HasSubstr("127.0.0.1:"));
      EXPECT_EQ(caller.invite, InviteKeyOf(kJoinSecret)->id());
      connected[id] = caller.peer;
      last = id;
    };
    handlers.on_message = [this](ConnectionId id, control::v1::PeerMessage message) {
      EXPECT_EQ(connected.count(id), 1u);
      messages.push_back(std::move(message));
    };
    handlers.on_disconnect = [this](ConnectionId id, Status status) {
      connected.erase(id);
      disconnects.push_back(std::move(status));
    };
    handlers.may_fetch = [store](PeerId) { return !store->members_only; };
    handlers.read_artefact = [store](const std::string& hash, std::uint64_t offset,
                                     std::size_t size) -> Result<std::string> {
      ++store->reads;
      const auto found = store->blobs.find(hash);
      if (found == store->blobs.end()) return NotFound("no artefact of this hash");
      if (offset > found->second.size()) return OutOfRange("behind the end");
      return found->second.substr(offset, size);
    };
    handlers.upload_offset = [store](PeerId, const std::string& hash,
                                     std::uint64_t) -> Result<std::uint64_t> {
      MutexLock lock(store->mutex);
      const std::uint64_t held = store->uploads[hash].size();
      return std::exchange(store->first_answer, std::nullopt).value_or(held);
    };
    handlers.write_artefact = [store](PeerId peer, const std::string& hash, std::uint64_t,
                                      std::uint64_t offset,
                                      const std::string& data) -> Result<std::uint64_t> {
      MutexLock lock(store->mutex);
      store->uploader = peer;
      std::string& blob = store->uploads[hash];
      if (offset != blob.size()) return OutOfRange("not where the upload stands");
      blob += data;
      return blob.size();
    };
    return handlers;
  }
};

struct ClientSide {
  std::unique_ptr<ControlClient> client;
  bool open = false;
  std::vector<control::v1::SchedulerMessage> messages;
  std::optional<Status> closed;
  int closed_calls = 0;

  ControlClientHandlers Handlers() {
    ControlClientHandlers handlers;
    handlers.on_open = [this] { open = true; };
    handlers.on_message = [this](control::v1::SchedulerMessage message) {
      messages.push_back(std::move(message));
    };
    handlers.on_closed = [this](Status status) {
      closed = std::move(status);
      ++closed_calls;
    };
    return handlers;
  }
};

std::string Blob(std::size_t size) {
  std::string blob(size, '\0');
  for (std::size_t i = 0; i < size; ++i) blob[i] = static_cast<char>(i * 7 + (i >> 9));
  return blob;
}

control::v1::PeerMessage Heartbeat(std::uint64_t generation) {
  control::v1::PeerMessage message;
  message.mutable_heartbeat()->set_generation(generation);
  return message;
}

class ControlTest : public testing::Test {
 protected:
  ControlTest() {
    On([this] {
      ControlServerOptions options;
      options.listen = "127.0.0.1:0";
      options.identity = scheduler_;
      options.admission = InvitedTo(scheduler_->id);
      server_.server =
          NewControlServer(options, executor_.get(), blocking_.get(), server_.Handlers(&store_))
              .value();
    });
  }
  ~ControlTest() override {
    On([this] {
      client_.client.reset();
      server_.server.reset();
    });
  }

  template <typename Task>
  void On(Task task) {
    RunOn(executor_.get(), [&task] {
      task();
      return 0;
    });
  }
  bool Wait(const std::function<bool()>& holds) { return WaitUntil(executor_.get(), holds); }

  ControlClientOptions Options() {
    ControlClientOptions options;
    options.addresses = {"127.0.0.1:" + std::to_string(server_.server->port())};
    options.scheduler = scheduler_->id;
    options.identity = peer_;
    options.join_secret = kJoinSecret;
    return options;
  }
  void Dial(const ControlClientOptions& options) {
    On([&] {
      client_.client =
          NewControlClient(options, executor_.get(), upload_, download_, client_.Handlers());
    });
  }
  void Connect() {
    Dial(Options());
    ASSERT_TRUE(Wait([this] { return client_.open && server_.connected.size() == 1; }));
  }
  Status FetchAll(const std::string& hash, std::uint64_t offset, std::string* into,
                  std::size_t stop_at = SIZE_MAX) {
    std::optional<Status> done;
    On([&] {
      client_.client->Fetch(
          hash, offset,
          [into, stop_at](std::string chunk) {
            EXPECT_LE(chunk.size(), kChunk);
            *into += chunk;
            return into->size() >= stop_at ? Aborted("enough") : Status::Ok();
          },
          [&done](Status status) { done = std::move(status); });
    });
    EXPECT_TRUE(Wait([&] { return done.has_value(); }));
    return *done;
  }
  Status UploadAll(const std::string& hash, const std::string& blob, std::size_t break_at) {
    std::optional<Status> done;
    On([&] {
      client_.client->Upload(
          hash, blob.size(),
          [&blob, break_at](std::uint64_t offset, std::size_t size) -> Result<std::string> {
            if (offset >= break_at) return Unavailable("the disk is away");
            return blob.substr(offset, size);
          },
          [&done](Status status) { done = std::move(status); });
    });
    EXPECT_TRUE(Wait([&] { return done.has_value(); }));
    return *done;
  }

  std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
  std::unique_ptr<Executor> blocking_ = NewThreadPool("blocking", 2);
  const std::shared_ptr<const Identity> scheduler_ = MakeIdentity();
  const std::shared_ptr<const Identity> peer_ = MakeIdentity();
  const std::shared_ptr<RateLimiter> upload_ = std::make_shared<RateLimiter>(&SystemClock());
  const std::shared_ptr<RateLimiter> download_ = std::make_shared<RateLimiter>(&SystemClock());
  Store store_;
  ServerSide server_;
  ClientSide client_;
};

TEST_F(ControlTest, MessagesGoBothWaysInOrder) {
  Dial(Options());
  On([this] {
    // Before the stream is open, too.
    for (std::uint64_t i = 0; i < 100; ++i) {
      ASSERT_TRUE(client_.client->Send(Heartbeat(i)).ok());
    }
  });
  ASSERT_TRUE(Wait([this] { return server_.messages.size() == 100; }));
  On([this] {
    for (std::uint64_t i = 0; i < 100; ++i) {
      EXPECT_EQ(server_.messages[i].heartbeat().generation(), i);
    }
    EXPECT_EQ(server_.connected.at(server_.last), peer_->id);
    for (std::uint64_t i = 0; i < 100; ++i) {
      control::v1::SchedulerMessage message;
      message.mutable_plan()->set_generation(i);
      message.mutable_plan()->mutable_config()->set_name(std::string(1000, 'x'));
      server_.server->Send(server_.last, std::move(message));
    }
  });
  ASSERT_TRUE(Wait([this] { return client_.messages.size() == 100; }));
  On([this] {
    for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(client_.messages[i].plan().generation(), i);
  });
  EXPECT_GT(server_.server->stats().sent_wire_bytes, 100'000u);
  EXPECT_EQ(server_.server->stats().sent_wire_bytes, client_.client->stats().received_wire_bytes);
}

// What the server has handled lets it read on, while the thread that read before still runs.
TEST_F(ControlTest, ALaterMessageDoesNotOvertakeOneThatIsBeingPosted) {
  constexpr std::uint64_t kMessages = 20000;
  constexpr std::uint64_t kAtOnce = 50;  // the client's queue is bounded
  Dial(Options());
  for (std::uint64_t sent = 0; sent < kMessages; sent += kAtOnce) {
    On([this, sent] {
      for (std::uint64_t i = sent; i < sent + kAtOnce; ++i) {
        ASSERT_TRUE(client_.client->Send(Heartbeat(i)).ok());
      }
    });
    ASSERT_TRUE(Wait([&] { return server_.messages.size() == sent + kAtOnce; }));
  }
  On([this] {
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      ASSERT_EQ(server_.messages[i].heartbeat().generation(), i);
    }
  });
}

TEST_F(ControlTest, AMessageOfAPeerHasAMebibyteAtMost) {
  Dial(Options());
  const auto say = [this](std::size_t bytes) {
    On([this, bytes] {
      control::v1::PeerMessage message;
      message.mutable_heartbeat()->set_status_json(std::string(bytes, 'x'));
      ASSERT_TRUE(client_.client->Send(message).ok());
    });
  };
  say((1 << 20) - 100);
  ASSERT_TRUE(Wait([this] { return server_.messages.size() == 1; }));
  say(1 << 20);
  EXPECT_TRUE(Wait([this] { return client_.closed.has_value(); }));
  EXPECT_EQ(server_.messages.size(), 1u);
}

TEST_F(ControlTest, ClientThatLeavesIsNoticed) {
  Connect();
  On([this] { client_.client.reset(); });
  ASSERT_TRUE(Wait([this] { return server_.disconnects.size() == 1; }));
  EXPECT_FALSE(server_.disconnects[0].ok());
  EXPECT_FALSE(client_.closed) << "no handler may run after the client is gone";
}

TEST_F(ControlTest, ServerThatLeavesIsNoticedOnce) {
  Connect();
  On([this] { server_.server.reset(); });
  ASSERT_TRUE(Wait([this] { return client_.closed.has_value(); }));
  EXPECT_EQ(client_.closed->code(), StatusCode::kUnavailable);
  On([this] {
    EXPECT_EQ(client_.closed_calls, 1);
    EXPECT_FALSE(client_.client->Send(Heartbeat(1)).ok());
  });
}

TEST_F(ControlTest, DisconnectTellsTheReasonAfterTheLastMessage) {
  Connect();
  On([this] {
    control::v1::SchedulerMessage message;
    message.mutable_refused()->set_error("no");
    server_.server->Send(server_.last, message);
    server_.server->Disconnect(server_.last, PermissionDenied("wrong join secret"));
  });
  ASSERT_TRUE(Wait([this] { return client_.closed.has_value(); }));
  EXPECT_EQ(client_.closed->code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(client_.closed->message(), "wrong join secret");
  ASSERT_EQ(client_.messages.size(), 1u);
  EXPECT_TRUE(Wait([this] { return server_.disconnects.size() == 1; }));
}

// gRPC tells how a call ended only when all was read that came before.
TEST_F(ControlTest, AnEndThatAFailedWriteFindsFirstIsTold) {
  Connect();
  On([this] {
    for (std::uint64_t i = 1; i <= 5; ++i) {
      control::v1::SchedulerMessage message;
      message.mutable_finished()->set_generation(i);
      server_.server->Send(server_.last, std::move(message));
    }
    server_.server->Disconnect(server_.last, DeadlineExceeded("nothing was heard of it"));
    // The client handles nothing meanwhile, as if its process stood still.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (client_.client->Send(Heartbeat(1)).ok()) {
      ASSERT_LT(std::chrono::steady_clock::now(), until);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  ASSERT_TRUE(Wait([this] { return client_.closed.has_value(); }));
  EXPECT_THAT(client_.closed->message(), HasSubstr("nothing was heard of it"));
  EXPECT_EQ(client_.messages.size(), 5u);
}

TEST_F(ControlTest, WrongSchedulerKeyNeverOpens) {
  ControlClientOptions options = Options();
  options.scheduler = peer_->id;
  Dial(options);
  ASSERT_TRUE(Wait([this] { return client_.closed.has_value(); }));
  EXPECT_FALSE(client_.open);
  EXPECT_THAT(client_.closed->message(), HasSubstr("the scheduler cannot be reached"));
  EXPECT_THAT(client_.closed->message(), HasSubstr("instead of " + peer_->id.ToShort()));
  EXPECT_TRUE(server_.connected.empty());
}

TEST_F(ControlTest, AddressesAreTriedInOrder) {
  ControlClientOptions options = Options();
  options.addresses.insert(options.addresses.begin(), "127.0.0.1:1");
  Dial(options);
  EXPECT_TRUE(Wait([this] { return client_.open; }));
}

TEST_F(ControlTest, PeerThatDoesNotReadIsDisconnected) {
  Connect();
  // The client's executor stands still, so it reads one message and no more.
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  std::unique_ptr<Executor> other = NewThreadExecutor("other");
  ClientSide lame;
  RunOn(other.get(), [&] {
    ControlClientHandlers handlers = lame.Handlers();
    handlers.on_message = [released](control::v1::SchedulerMessage) { released.wait(); };
    lame.client = NewControlClient(Options(), other.get(), upload_, download_, handlers);
    return 0;
  });
  ASSERT_TRUE(Wait([this] { return server_.connected.size() == 2; }));
  On([this] {
    control::v1::SchedulerMessage message;
    message.mutable_run_status()->set_reason(std::string(1 << 20, 'x'));
    for (int i = 0; i < 300; ++i) server_.server->Send(server_.last, message);
  });
  EXPECT_TRUE(Wait([this] { return server_.disconnects.size() == 1; }));
  EXPECT_EQ(server_.disconnects[0].code(), StatusCode::kResourceExhausted);
  release.set_value();
  RunOn(other.get(), [&] {
    lame.client.reset();
    return 0;
  });
}

TEST_F(ControlTest, FetchBreaksAndResumes) {
  const std::string hash(32, 'h');
  const std::string blob = Blob(3'000'001);
  store_.blobs[hash] = blob;
  Connect();
  std::string got;
  EXPECT_EQ(FetchAll(hash, 0, &got, 1'000'000).code(), StatusCode::kAborted);
  EXPECT_LT(got.size(), blob.size());
  EXPECT_EQ(FetchAll(hash, got.size(), &got).ToString(), "ok");
  EXPECT_EQ(got, blob);
  EXPECT_GT(client_.client->stats().artefact_received_bytes, blob.size());
  EXPECT_GE(client_.client->stats().received_wire_bytes,
            client_.client->stats().artefact_received_bytes);
}

TEST_F(ControlTest, FetchErrorsArriveAsTheyAre) {
  Connect();
  std::string got;
  const Status missing = FetchAll(std::string(32, 'x'), 0, &got);
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "no artefact of this hash");
  EXPECT_EQ(FetchAll("short", 0, &got).code(), StatusCode::kInvalidArgument);
  store_.members_only = true;
  EXPECT_EQ(FetchAll(std::string(32, 'x'), 0, &got).code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(got.empty());
}

TEST_F(ControlTest, FetchIsPaced) {
  const std::string hash(32, 'h');
  store_.blobs[hash] = Blob(4'000'000);
  Connect();
  download_->SetRate({50'000});  // an hour for the blob
  std::optional<Status> done;
  std::size_t got = 0;
  On([&] {
    client_.client->Fetch(
        hash, 0,
        [&got](std::string chunk) {
          got += chunk.size();
          return Status::Ok();
        },
        [&done](Status status) { done = std::move(status); });
  });
  ASSERT_TRUE(Wait([&] { return got > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  On([&] {
    EXPECT_LE(got, 2 * kChunk);
    EXPECT_FALSE(done);
  });
  download_->SetRate({});
  ASSERT_TRUE(Wait([&] { return done.has_value(); }));
  EXPECT_TRUE(done->ok());
  EXPECT_EQ(got, 4'000'000u);
}

TEST_F(ControlTest, ClientMayGoInTheMiddleOfAFetch) {
  const std::string hash(32, 'h');
  store_.blobs[hash] = Blob(20'000'000);
  Connect();
  bool done = false;
  std::size_t got = 0;
  On([&] {
    client_.client->Fetch(
        hash, 0,
        [&got](std::string chunk) {
          got += chunk.size();
          return Status::Ok();
        },
        [&done](Status) { done = true; });
  });
  ASSERT_TRUE(Wait([&] { return got > 0; }));
  On([&] {
    client_.client.reset();
    got = 0;
  });
  On([&] {
    EXPECT_FALSE(done);
    EXPECT_EQ(got, 0u);
  });
}

// Its call waited for ever for a place in the rate limit, and the client for its call.
TEST_F(ControlTest, ClientMayGoInTheMiddleOfASlowUpload) {
  upload_->SetRate(BitsPerSecond{5'000'000});
  Connect();
  bool done = false;
  On([&] {
    client_.client->Upload(
        std::string(32, 'u'), 20'000'000,
        [](std::uint64_t, std::size_t size) { return Blob(size); },
        [&done](Status) { done = true; });
  });
  ASSERT_TRUE(Wait([&] {
    MutexLock lock(store_.mutex);
    return !store_.uploads[std::string(32, 'u')].empty();
  }));
  On([&] { client_.client.reset(); });
  On([&] { EXPECT_FALSE(done); });
  EXPECT_TRUE(Wait([&] { return server_.connected.empty(); }));
}

TEST_F(ControlTest, ClientMayGoBeforeItsUploadKnowsWhereToBegin) {
  Connect();
  On([&] {
    client_.client->Upload(
        std::string(32, 'u'), 1'000'000, [](std::uint64_t, std::size_t size) { return Blob(size); },
        [](Status) { ADD_FAILURE() << "its owner is gone"; });
    client_.client.reset();
  });
  EXPECT_TRUE(Wait([&] { return server_.connected.empty(); }));
}

TEST_F(ControlTest, UploadBreaksAndResumes) {
  const std::string hash(32, 'u');
  const std::string blob = Blob(2'000'003);
  Connect();
  EXPECT_EQ(UploadAll(hash, blob, 1'000'000).message(), "the disk is away");
  EXPECT_EQ(UploadAll(hash, blob, SIZE_MAX).ToString(), "ok");
  // Again: complete already, nothing is read.
  EXPECT_EQ(UploadAll(hash, blob, 0).ToString(), "ok");
  MutexLock lock(store_.mutex);
  EXPECT_EQ(store_.uploads[hash], blob);
}

// The last chunk of a call that broke may be written after the next call has asked where to go on.
TEST_F(ControlTest, ChunksThatAreAlreadyThereDoNotStopAnUpload) {
  const std::string hash(32, 'u');
  const std::string blob = Blob(1'000'003);
  {
    MutexLock lock(store_.mutex);
    store_.uploads[hash] = blob.substr(0, 2 * kChunk);
    store_.first_answer = kChunk;
  }
  Connect();
  EXPECT_EQ(UploadAll(hash, blob, SIZE_MAX).ToString(), "ok");
  MutexLock lock(store_.mutex);
  EXPECT_FALSE(store_.first_answer);
  EXPECT_EQ(store_.uploads[hash], blob);
}

TEST_F(ControlTest, ChunksThatLeaveAHoleStopAnUpload) {
  const std::string hash(32, 'u');
  {
    MutexLock lock(store_.mutex);
    store_.first_answer = kChunk;
  }
  Connect();
  EXPECT_EQ(UploadAll(hash, Blob(1'000'003), SIZE_MAX).code(), StatusCode::kOutOfRange);
}

TEST_F(ControlTest, AnUploadBelongsToTheKeyOfItsPeer) {
  Connect();
  ASSERT_TRUE(UploadAll(std::string(32, 'o'), "abc", SIZE_MAX).ok());
  MutexLock lock(store_.mutex);
  EXPECT_EQ(store_.uploader, peer_->id);
}

TEST_F(ControlTest, EmptyUploadAndRefusals) {
  Connect();
  EXPECT_EQ(UploadAll(std::string(32, 'e'), "", SIZE_MAX).ToString(), "ok");
  EXPECT_EQ(UploadAll("short", "abc", SIZE_MAX).code(), StatusCode::kInvalidArgument);
  store_.members_only = true;
  EXPECT_EQ(UploadAll(std::string(32, 'u'), "abc", SIZE_MAX).code(), StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace shoal::net
