// Who gets past the TLS handshake, seen from outside by plain TCP and TLS without gRPC, and what
// connections that say nothing take from the others.

#include <gmock/gmock.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <optional>

#include "net/admission/connection_gate.h"
#include "net/control/control.h"
#include "net/identity/certificate.h"
#include "net/identity/join_ticket.h"
#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

constexpr RunId kRun{0x77};

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

// A TCP connection to loopback; closed with the object.
class Tcp {
 public:
  explicit Tcp(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  Tcp(Tcp&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Tcp() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  // Whether the other end has closed it within `milliseconds`.
  bool Ends(int milliseconds) const {
    pollfd polled{fd_, POLLIN, 0};
    char byte;
    return ::poll(&polled, 1, milliseconds) == 1 && ::recv(fd_, &byte, 1, MSG_DONTWAIT) <= 0;
  }

 private:
  int fd_;
};

// What a TLS client with this certificate reads after the handshake, before the other end closes.
// Nullopt: the handshake failed.
std::optional<std::string> ReadTls(std::uint16_t port, const Identity* identity, int version,
                                   bool say_preface = true) {
  const std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>> context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), version);
  SSL_CTX_set_max_proto_version(context.get(), version);
  const unsigned char protocols[] = "\x02h2";
  SSL_CTX_set_alpn_protos(context.get(), protocols, 3);
  if (identity != nullptr) {
    const std::unique_ptr<BIO, Deleter<BIO_free_all>> bio(BIO_new_mem_buf(
        identity->private_key_pem.data(), static_cast<int>(identity->private_key_pem.size())));
    const std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>> key(
        PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
    const CertificatePtr certificate = ParseCertificate(identity->certificate_pem).value();
    EXPECT_EQ(SSL_CTX_use_certificate(context.get(), certificate.get()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
  }
  ::signal(SIGPIPE, SIG_IGN);  // the other end may be gone
  const Tcp tcp(port);
  const timeval patience{5, 0};
  ::setsockopt(tcp.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const std::unique_ptr<SSL, Deleter<SSL_free>> ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), tcp.fd());
  if (SSL_connect(ssl.get()) != 1) return std::nullopt;
  if (say_preface) {
    const std::string preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
    (void)SSL_write(ssl.get(), preface.data(), static_cast<int>(preface.size()));
  }
  char bytes[64];
  const int size = SSL_read(ssl.get(), bytes, sizeof(bytes));
  return size > 0 ? std::string(bytes, static_cast<std::size_t>(size)) : std::string();
}

class AdmissionTest : public testing::Test {
 protected:
  ~AdmissionTest() override {
    On([this] {
      dialled_.reset();
      accepted_.reset();
      hub_.reset();
      other_.reset();
      client_.reset();
      server_.reset();
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

  void MakeServer(ConnectionLimits limits = {}) {
    On([&] {
      ControlServerOptions options;
      options.listen = "127.0.0.1:0";
      options.identity = scheduler_;
      options.admission = InvitedTo(scheduler_->id);
      options.connections = limits;
      ControlServerHandlers handlers;
      handlers.on_connect = [this](ConnectionId, const ControlCaller&) { ++connected_; };
      server_ =
          NewControlServer(options, executor_.get(), executor_.get(), std::move(handlers)).value();
    });
  }
  void Dial(const std::string& secret) {
    On([&] {
      ControlClientOptions options;
      options.addresses = {"127.0.0.1:" + std::to_string(server_->port())};
      options.scheduler = scheduler_->id;
      options.identity = peer_;
      options.join_secret = secret;
      ControlClientHandlers handlers;
      handlers.on_closed = [this](Status status) { closed_ = std::move(status); };
      client_ = NewControlClient(options, executor_.get(), limiter_, limiter_, std::move(handlers));
    });
  }
  LinkTarget TargetOf(const HubPeer& peer) {
    LinkTarget target;
    target.peer = peer.identity->id;
    target.addresses = {peer.address()};
    target.run = kRun;
    target.generation = 1;
    target.channel = "boundary/0/1";
    return target;
  }

  std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
  const std::shared_ptr<const Identity> scheduler_ = MakeIdentity();
  const std::shared_ptr<const Identity> peer_ = MakeIdentity();
  const std::shared_ptr<RateLimiter> limiter_ = std::make_shared<RateLimiter>(&SystemClock());
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<ControlClient> client_;
  std::optional<HubPeer> hub_, other_;
  std::unique_ptr<Link> dialled_, accepted_;
  int connected_ = 0;
  std::optional<Status> closed_;
};

TEST_F(AdmissionTest, AStrangersKeyGetsNoByteOfHttp2FromTheScheduler) {
  MakeServer();
  const auto other_run = WithTicket(*peer_, kJoinSecret, peer_->id).value();
  const auto other_secret =
      WithTicket(*peer_, "ffffffffffffffffffffffffffffffff", scheduler_->id).value();
  auto other_key = std::make_shared<Identity>(*MakeIdentity());
  other_key->certificate_pem =
      WithTicket(*peer_, kJoinSecret, scheduler_->id).value()->certificate_pem;
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    for (const Identity* stranger : {peer_.get(), other_run.get(), other_secret.get()}) {
      EXPECT_EQ(ReadTls(server_->port(), stranger, version).value_or(""), "");
      EXPECT_EQ(ReadTls(server_->port(), stranger, version, false).value_or(""), "");
    }
    EXPECT_EQ(ReadTls(server_->port(), nullptr, version).value_or(""), "");
    const auto invited = WithTicket(*peer_, kJoinSecret, scheduler_->id).value();
    const std::string settings = ReadTls(server_->port(), invited.get(), version).value_or("");
    ASSERT_GT(settings.size(), 9u);
    EXPECT_EQ(settings[3], 4);  // a SETTINGS frame: the invited one speaks HTTP/2
  }
}

TEST_F(AdmissionTest, AnotherRunsSecretIsRefusedWithAReason) {
  MakeServer();
  Dial("ffffffffffffffffffffffffffffffff");
  ASSERT_TRUE(Wait([this] { return closed_.has_value(); }));
  EXPECT_EQ(closed_->code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(closed_->message(), HasSubstr("ask the organiser for a new invite"));
  EXPECT_EQ(connected_, 0);
}

TEST_F(AdmissionTest, APeerSpeaksOnlyToThoseOfItsPlan) {
  On([this] {
    hub_.emplace(executor_.get());
    other_.emplace(executor_.get());
  });
  const std::uint16_t port = hub_->hub->port();
  const Identity& neighbour = *other_->identity;
  EXPECT_EQ(ReadTls(port, peer_.get(), TLS1_3_VERSION).value_or(""), "");
  EXPECT_EQ(ReadTls(port, &neighbour, TLS1_3_VERSION).value_or(""), "");
  On([&] { hub_->hub->Admit({neighbour.id}); });
  EXPECT_GT(ReadTls(port, &neighbour, TLS1_3_VERSION).value_or("").size(), 9u);
  EXPECT_EQ(ReadTls(port, peer_.get(), TLS1_3_VERSION).value_or(""), "");
  On([&] { hub_->hub->Admit({}); });
  EXPECT_EQ(ReadTls(port, &neighbour, TLS1_3_VERSION).value_or(""), "");
  // Whom a link expects needs no plan.
  On([&] { accepted_ = hub_->hub->Accept(TargetOf(*other_), {}); });
  EXPECT_GT(ReadTls(port, &neighbour, TLS1_3_VERSION).value_or("").size(), 9u);
  On([&] { accepted_.reset(); });
  EXPECT_EQ(ReadTls(port, &neighbour, TLS1_3_VERSION).value_or(""), "");
}

TEST_F(AdmissionTest, EightConnectionsWithoutAStreamEndAndHoldNoSeat) {
  ConnectionLimits limits;
  limits.proof_time = std::chrono::seconds(1);
  MakeServer(limits);
  std::vector<Tcp> silent;
  for (int i = 0; i < 8; ++i) silent.emplace_back(server_->port());
  Dial(kJoinSecret);
  ASSERT_TRUE(Wait([this] { return connected_ == 1; }));
  // Before gRPC loses its own patience with them, after ten seconds.
  for (const Tcp& each : silent) EXPECT_TRUE(each.Ends(7'000));
  EXPECT_FALSE(closed_);
}

TEST_F(AdmissionTest, HandshakesBeyondTheShareOfAnAddressEndAtOnce) {
  ConnectionLimits limits;
  limits.handshakes = 2;
  limits.handshakes_per_second = 0;
  MakeServer(limits);
  std::vector<Tcp> silent;
  for (int i = 0; i < 3; ++i) silent.emplace_back(server_->port());
  EXPECT_TRUE(silent[2].Ends(7'000));
  EXPECT_FALSE(silent[0].Ends(0));
}

TEST_F(AdmissionTest, AKeyHasSoManyConnections) {
  ConnectionLimits limits;
  limits.per_key = 1;
  MakeServer(limits);
  Dial(kJoinSecret);
  ASSERT_TRUE(Wait([this] { return connected_ == 1; }));
  std::unique_ptr<ControlClient> first;
  On([&] { first = std::move(client_); });
  Dial(kJoinSecret);
  EXPECT_TRUE(Wait([this] { return closed_.has_value(); }));
  EXPECT_EQ(connected_, 1);
  On([&] { first.reset(); });
  ASSERT_TRUE(closed_);
  EXPECT_THAT(closed_->message(), HasSubstr("too many connections"));
}

TEST_F(AdmissionTest, AKeyHasSoManyConnectionsToAPeer) {
  LinkLimits limits;
  limits.timeouts.link_open = std::chrono::milliseconds(1500);
  limits.connections_first = 1;
  LinkHubOptions options;
  options.listen = "127.0.0.1:0";
  options.identity = peer_;
  options.upload = options.download = limiter_;
  options.connections.per_key = 1;
  std::unique_ptr<LinkHub> called;
  std::vector<std::unique_ptr<Link>> links;
  int open = 0, closed = 0;
  const auto link = [&](const std::string& channel) {
    LinkTarget target = TargetOf(*hub_);
    target.channel = channel;
    target.addresses.clear();  // the accepting end would dial, too, after a second
    links.push_back(called->Accept(target, {}));
    target.peer = peer_->id;
    target.addresses = {"127.0.0.1:" + std::to_string(called->port())};
    LinkHandlers handlers;
    handlers.on_open = [&open] { ++open; };
    handlers.on_closed = [&closed](const Status&) { ++closed; };
    links.push_back(hub_->hub->Dial(target, handlers));
  };
  On([&] {
    hub_.emplace(executor_.get(), limits);
    called = NewGrpcLinkHub(options, executor_.get()).value();
    link("boundary/0/1");
  });
  EXPECT_TRUE(Wait([&] { return open == 1; }));
  On([&] { link("boundary/0/2"); });
  EXPECT_TRUE(Wait([&] { return open + closed == 2; }));
  EXPECT_EQ(open, 1);
  On([&] {
    links.clear();
    called.reset();
  });
}

// 1,100 connections where 1,024 descriptors are all there are: the port stays open, during and
// after.
TEST_F(AdmissionTest, SilentConnectionsDoNotCloseThePort) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < 2500) GTEST_SKIP() << "this machine allows too few descriptors";
  // The gate takes its share of 1,024; this process has both ends, so it needs more.
  rlimit limit = before;
  limit.rlim_cur = 1024;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  MakeServer();
  On([this] { hub_.emplace(executor_.get()); });
  limit.rlim_cur = 2500;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  On([this] { other_.emplace(executor_.get()); });
  bool open = false;
  const auto link = [&] {
    open = false;
    On([&] {
      LinkHandlers handlers;
      handlers.on_open = [&open] { open = true; };
      accepted_ = hub_->hub->Accept(TargetOf(*other_), {});
      dialled_ = other_->hub->Dial(TargetOf(*hub_), handlers);
    });
  };
  std::optional<std::vector<Tcp>> silent(std::in_place);
  for (int i = 0; i < 1100; ++i) silent->emplace_back(hub_->hub->port());
  for (int i = 0; i < 100; ++i) silent->emplace_back(server_->port());
  link();
  Dial(kJoinSecret);
  EXPECT_TRUE(Wait([&] { return open && connected_ == 1; }));
  silent.reset();
  On([this] {
    dialled_.reset();
    accepted_.reset();
    client_.reset();
  });
  link();
  Dial(kJoinSecret);
  EXPECT_TRUE(Wait([&] { return open && connected_ == 2; }));
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace shoal::net
