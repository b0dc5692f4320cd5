// The client over real sockets, against Debian's etcd.

#include "net/etcd/etcd.h"

#include <gmock/gmock.h>

#include <chrono>
#include <string>

#include "tests/support/etcd_server.h"

namespace shoal::net {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(20);

TEST(EtcdAddress, IsHttpWithHostAndPort) {
  EXPECT_EQ(ParseEtcdAddress("http://10.0.0.1:2379").value(), "10.0.0.1:2379");
  EXPECT_EQ(ParseEtcdAddress("http://[::1]:2379").value(), "[::1]:2379");
  for (const char* text : {"", "10.0.0.1:2379", "https://10.0.0.1:2379", "http://10.0.0.1",
                           "http://10.0.0.1:0", "http://:2379"}) {
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

}  // namespace
}  // namespace shoal::net
