#include "unit/scheduler/test_event_log.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "scheduler/election/etcd_event_log.h"
#include "scheduler/election/etcd_keys.h"
#include "tests/support/etcd_server.h"

namespace shoal::scheduler {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(20);

std::unique_ptr<storage::EventLog> Take(Result<std::unique_ptr<storage::EventLog>> opened) {
  EXPECT_TRUE(opened.ok()) << opened.status().ToString();
  return opened.ok() ? *std::move(opened) : storage::NewMemoryEventLog();
}

}  // namespace

const char* LogKindName(LogKind kind) {
  switch (kind) {
    case LogKind::kMemory: return "memory";
    case LogKind::kRocks: return "rocks";
    case LogKind::kEtcd: break;
  }
  return "etcd";
}

LogKind WantedLogKind() {
  const std::string wanted = test_support::Environment("SHOAL_TEST_EVENT_LOG");
  if (wanted == "rocks") return LogKind::kRocks;
  return wanted == "etcd" ? LogKind::kEtcd : LogKind::kMemory;
}

std::shared_ptr<net::Etcd> TestEtcd() {
  static test_support::EtcdServer server;
  static const std::shared_ptr<net::Etcd> etcd = net::OpenEtcd({server.address()}).value();
  return etcd;
}

std::string NewTestPrefix() {
  static int number = 0;
  return "test/" + std::to_string(++number);
}

std::int64_t LeadForEver(net::Etcd* etcd, const std::string& prefix) {
  net::EtcdCommit commit;
  commit.key = LeaderKey(prefix);
  commit.value = "test";
  commit.conditions = {{commit.key, 0}};
  commit.otherwise = {commit.key};
  const auto outcome = etcd->Commit(commit, kTimeout);
  EXPECT_TRUE(outcome.ok()) << outcome.status().ToString() << " (./x setup fetches etcd)";
  if (!outcome.ok()) return 0;
  return outcome->done ? outcome->revision : outcome->found.at(0).value().create_revision;
}

TestEventLog::TestEventLog(LogKind kind) : kind_(kind), prefix_(NewTestPrefix()) {
  if (kind_ == LogKind::kEtcd) term_ = LeadForEver(TestEtcd().get(), prefix_);
  OpenAgain();
}

void TestEventLog::OpenAgain() {
  log_.reset();
  switch (kind_) {
    case LogKind::kMemory: log_ = storage::NewMemoryEventLog(); return;
    case LogKind::kRocks: log_ = Take(storage::OpenRocksEventLog(folder_ / "events")); return;
    case LogKind::kEtcd: break;
  }
  log_ = Take(OpenEtcdEventLog(TestEtcd(), prefix_, {term_, [] { return true; }}));
}

}  // namespace shoal::scheduler
