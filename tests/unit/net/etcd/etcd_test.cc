// The client over real sockets, against Debian's etcd.

#include "net/etcd/etcd.h"

#include <gmock/gmock.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "proto/etcd.grpc.pb.h"
#include "tests/support/etcd_server.h"

namespace shoal::net {
namespace {

using ::testing::HasSubstr;

constexpr Duration kTimeout = std::chrono::seconds(20);

TEST(EtcdAddress, IsHttpOrHttpsWithHostAndPort) {
  EXPECT_EQ(ParseEtcdAddress("http://10.0.0.1:2379")->host_port, "10.0.0.1:2379");
  EXPECT_FALSE(ParseEtcdAddress("http://10.0.0.1:2379")->tls);
  EXPECT_TRUE(ParseEtcdAddress("https://10.0.0.1:2379")->tls);
  EXPECT_FALSE(ParseEtcdAddress("https://10.0.0.1:2379")->loopback);
  EXPECT_EQ(ParseEtcdAddress("http://[::1]:2379")->host_port, "[::1]:2379");
  EXPECT_TRUE(ParseEtcdAddress("http://[::1]:2379")->loopback);
  for (const char* text : {"", "10.0.0.1:2379", "https://10.0.0.1", "http://10.0.0.1",
                           "http://10.0.0.1:0", "http://:2379", "ftp://10.0.0.1:2379"}) {
    EXPECT_FALSE(ParseEtcdAddress(text).ok()) << text;
  }
  EXPECT_FALSE(OpenEtcd({}).ok());
}

EtcdCommit PutNew(const std::string& key, const std::string& value) {
  EtcdCommit commit;
  commit.key = key;
  commit.value = value;
  commit.conditions = {{key, 0}};
  commit.otherwise = {key};
  return commit;
}

TEST(Etcd, CommitsReadsAndLetsLeasesEnd) {
  test_support::EtcdServer server;
  // The first address is nobody's: every call goes on to the next.
  const auto etcd = OpenEtcd({"http://127.0.0.1:9", server.address()}).value();
  const auto first = etcd->Commit(PutNew("k", "one"), kTimeout);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_TRUE(first->done);
  const auto second = etcd->Commit(PutNew("k", "two"), kTimeout);
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_FALSE(second->done);
  EXPECT_EQ(second->found.at(0)->value, "one");
  EXPECT_EQ(second->found.at(0)->create_revision, first->revision);

  const auto lease = etcd->Grant(std::chrono::seconds(2), kTimeout);
  ASSERT_TRUE(lease.ok()) << lease.status().ToString();
  EXPECT_GE(lease->ttl, std::chrono::seconds(2));
  EtcdCommit bound = PutNew("l", "bound");
  bound.lease = lease->id;
  EXPECT_TRUE(etcd->Commit(bound, kTimeout)->done);
  EXPECT_GE(etcd->KeepAlive(lease->id, kTimeout).value(), std::chrono::seconds(1));
  const auto page = etcd->Read({"k", "m"}, kTimeout);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  ASSERT_EQ(page->entries.size(), 2u);
  EXPECT_EQ(page->entries[1].lease, lease->id);
  EXPECT_TRUE(etcd->Revoke(lease->id, kTimeout).ok());
  EXPECT_EQ(etcd->KeepAlive(lease->id, kTimeout).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(etcd->Read({"k", "m"}, kTimeout)->entries.size(), 1u);
  // Of then.
  EXPECT_EQ(etcd->Read({"k", "m", 64, page->revision, true}, kTimeout)->entries.size(), 2u);

  server.Kill();
  const TimePoint before = SystemClock().Now();
  EXPECT_EQ(etcd->Read({"k", "m"}, std::chrono::milliseconds(500)).status().code(),
            StatusCode::kUnavailable);
  EXPECT_LT(SystemClock().Now() - before, std::chrono::seconds(5));
  server.Start();
  EXPECT_EQ(etcd->Read({"k", "m"}, kTimeout)->entries.at(0).value, "one");
}

TEST(Etcd, TakesAPasswordOnlyWhereNobodyElseReadsIt) {
  EtcdAccess access;
  access.user = "anna";
  access.password = "a secret";
  EXPECT_TRUE(OpenEtcd({"http://127.0.0.1:9"}, access).ok());
  EXPECT_THAT(OpenEtcd({"http://10.0.0.1:9"}, access).status().message(), HasSubstr("https://"));
  EXPECT_FALSE(OpenEtcd({"http://127.evil.example:9"}, access).ok());
  EXPECT_THAT(OpenEtcd({"https://10.0.0.1:9"}, access).status().message(), HasSubstr("authority"));
  access.ca_pem = "a certificate";
  EXPECT_TRUE(OpenEtcd({"https://10.0.0.1:9"}, access).ok());
  EXPECT_FALSE(OpenEtcd({"http://127.0.0.1:9"}, access).ok());
}

// An etcd whose tokens end.
class GuardedEtcd final : public etcdserverpb::Auth::Service, public etcdserverpb::KV::Service {
 public:
  grpc::Status Authenticate(grpc::ServerContext*, const etcdserverpb::AuthenticateRequest* request,
                            etcdserverpb::AuthenticateResponse* answer) override {
    ++logins;
    if (request->name() != "anna" || request->password() != "a secret") {
      return {grpc::StatusCode::INVALID_ARGUMENT,
              "etcdserver: authentication failed, invalid user ID or password"};
    }
    answer->set_token("token-" + std::to_string(logins.load()));
    return grpc::Status::OK;
  }
  grpc::Status Range(grpc::ServerContext* context, const etcdserverpb::RangeRequest*,
                     etcdserverpb::RangeResponse* answer) override {
    const auto found = context->client_metadata().find("token");
    const std::string token = found == context->client_metadata().end()
                                  ? ""
                                  : std::string(found->second.data(), found->second.size());
    if (never || token != "token-" + std::to_string(logins.load())) {
      return {grpc::StatusCode::UNAUTHENTICATED, "etcdserver: invalid auth token"};
    }
    if (old_revision.exchange(false)) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "etcdserver: revision of auth store is old"};
    }
    answer->mutable_header()->set_revision(1);
    return grpc::Status::OK;
  }

  std::atomic<int> logins = 0;
  std::atomic<bool> old_revision = false, never = false;
};

class GuardedEtcdTest : public testing::Test {
 protected:
  GuardedEtcdTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<etcdserverpb::Auth::Service*>(&guarded_));
    builder.RegisterService(static_cast<etcdserverpb::KV::Service*>(&guarded_));
    server_ = builder.BuildAndStart();
  }
  std::unique_ptr<Etcd> Open(const std::string& password) const {
    EtcdAccess access;
    access.user = "anna";
    access.password = password;
    return OpenEtcd({"http://127.0.0.1:" + std::to_string(port_)}, access).value();
  }

  GuardedEtcd guarded_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(GuardedEtcdTest, LogsInOnceAndAgainWhenTheTokenIsRefused) {
  const auto etcd = Open("a secret");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(etcd->Read({"k", "m"}, kTimeout).ok());
  EXPECT_EQ(guarded_.logins, 1);
  ++guarded_.logins;  // the token of before is none any more
  EXPECT_TRUE(etcd->Read({"k", "m"}, kTimeout).ok());
  EXPECT_EQ(guarded_.logins, 3);
  guarded_.old_revision = true;
  EXPECT_TRUE(etcd->Read({"k", "m"}, kTimeout).ok());
  EXPECT_EQ(guarded_.logins, 4);
}

TEST_F(GuardedEtcdTest, AWrongPasswordOrATokenThatNeverHoldsIsAnErrorAtOnce) {
  const Status wrong = Open("another")->Read({"k", "m"}, kTimeout).status();
  EXPECT_EQ(wrong.code(), StatusCode::kPermissionDenied) << wrong.ToString();
  EXPECT_THAT(wrong.message(), HasSubstr("invalid user ID or password"));
  EXPECT_EQ(guarded_.logins, 1);
  guarded_.never = true;
  const Status never = Open("a secret")->Read({"k", "m"}, kTimeout).status();
  EXPECT_EQ(never.code(), StatusCode::kUnauthenticated) << never.ToString();
  EXPECT_EQ(guarded_.logins, 3);
}

}  // namespace
}  // namespace shoal::net
