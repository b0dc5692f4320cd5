// Candidates against Debian's etcd, in real time.

#include "scheduler/election/candidate.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "scheduler/election/etcd_event_log.h"
#include "tests/support/etcd_server.h"
#include "unit/scheduler/test_event_log.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

bool Within(Duration time, const std::function<bool()>& holds) {
  const TimePoint end = SystemClock().Now() + time;
  while (SystemClock().Now() < end) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

constexpr Duration kLong = std::chrono::seconds(20);

TEST(Candidate, OneLeadsAndTheNextDoesAtOnceWhenItGivesUp) {
  const auto etcd = TestEtcd();
  const std::string prefix = NewTestPrefix();
  std::atomic<int> changes = 0;
  auto first = std::make_unique<Candidate>(etcd, prefix, "the first", [&] { ++changes; });
  ASSERT_TRUE(Within(kLong, [&] { return first->Leads(); }));
  EXPECT_TRUE(Within(kLong, [&] { return changes == 1; }));
  EXPECT_EQ(first->leader(), "the first");
  Candidate second(etcd, prefix, "the second", [] {});
  ASSERT_TRUE(Within(kLong, [&] { return second.leader() == "the first"; }));
  // Longer than a lease: it is renewed.
  EXPECT_FALSE(
      Within(std::chrono::milliseconds(2500), [&] { return !first->Leads() || second.Leads(); }));
  const std::int64_t term = first->term();
  const auto log = OpenEtcdEventLog(etcd, prefix, {term, [] { return true; }}).value();
  EXPECT_TRUE(log->Append("event").ok());
  first.reset();
  EXPECT_TRUE(Within(std::chrono::seconds(2), [&] { return second.Leads(); }));
  EXPECT_GT(second.term(), term);
  EXPECT_EQ(log->Append("late").status().code(), StatusCode::kAborted);
}

TEST(Candidate, WithoutEtcdTheLeadEndsByItsOwnClock) {
  test_support::EtcdServer server;
  const std::shared_ptr<net::Etcd> etcd = net::OpenEtcd({server.address()}).value();
  std::atomic<int> changes = 0;
  const Candidate only(etcd, "p", "the only one", [&] { ++changes; });
  ASSERT_TRUE(Within(kLong, [&] { return only.Leads(); }));
  server.Kill();
  EXPECT_TRUE(Within(kLeaseTtl, [&] { return !only.Leads(); }));
  EXPECT_TRUE(Within(kLong, [&] { return only.lost(); }));
  EXPECT_TRUE(Within(kLong, [&] { return changes == 2; }));
  const Candidate next(etcd, "p", "the next", [] {});
  EXPECT_TRUE(Within(kLong, [&] { return next.leader() != "not known yet"; }));
  EXPECT_THAT(next.leader(), HasSubstr("not known: etcd, read"));
}

}  // namespace
}  // namespace shoal::scheduler
