// One contract for all event logs, and what only the one in etcd promises.

#include "scheduler/election/etcd_event_log.h"

#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <vector>

#include "scheduler/election/etcd_keys.h"
#include "unit/scheduler/test_event_log.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

constexpr Duration kTimeout = std::chrono::seconds(20);

std::vector<std::string> All(storage::EventLog& log) {
  std::vector<std::string> events;
  const Status status = log.Replay([&](std::uint64_t number, std::string_view event) {
    EXPECT_EQ(number, events.size() + 1);
    events.emplace_back(event);
    return Status::Ok();
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return events;
}

class EventLogContract : public ::testing::TestWithParam<LogKind> {
 protected:
  TestEventLog given_{GetParam()};
};

TEST_P(EventLogContract, NumbersAndReplaysInOrder) {
  EXPECT_TRUE(All(given_.log()).empty());
  std::vector<std::string> events;
  for (int i = 0; i < 300; ++i) {
    events.push_back(std::string(static_cast<std::size_t>(i % 7), static_cast<char>(i)));
    const auto number = given_.log().Append(events.back());
    ASSERT_TRUE(number.ok()) << number.status().ToString();
    EXPECT_EQ(*number, events.size());
  }
  EXPECT_EQ(All(given_.log()), events);
}

TEST_P(EventLogContract, ReplayStopsAtTheFirstError) {
  for (const char* event : {"a", "b", "c"}) ASSERT_TRUE(given_.log().Append(event).ok());
  int seen = 0;
  const Status status = given_.log().Replay([&](std::uint64_t number, std::string_view) {
    ++seen;
    return number == 2 ? Aborted("enough") : Status::Ok();
  });
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_EQ(seen, 2);
}

TEST_P(EventLogContract, WhoOpensItAgainGoesOnCounting) {
  if (GetParam() == LogKind::kMemory) return;  // it keeps nothing
  for (std::uint64_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(given_.log().Append("event " + std::to_string(i)).value(), i);
    given_.OpenAgain();
  }
  EXPECT_EQ(All(given_.log()).size(), 5u);
  EXPECT_EQ(All(given_.log()).back(), "event 5");
}

INSTANTIATE_TEST_SUITE_P(Logs, EventLogContract,
                         ::testing::Values(LogKind::kMemory, LogKind::kRocks, LogKind::kEtcd),
                         [](const auto& given) { return LogKindName(given.param); });

class EtcdEventLogTest : public ::testing::Test {
 protected:
  std::unique_ptr<storage::EventLog> Open(LeaderTerm term) {
    auto log = OpenEtcdEventLog(etcd_, prefix_, std::move(term));
    EXPECT_TRUE(log.ok()) << log.status().ToString();
    return *std::move(log);
  }
  // Puts `value` where an event or the leader should be.
  void Put(const std::string& key, const std::string& value, std::int64_t lease = 0) {
    net::EtcdCommit commit;
    commit.key = key;
    commit.value = value;
    commit.lease = lease;
    const auto outcome = etcd_->Commit(commit, kTimeout);
    ASSERT_TRUE(outcome.ok() && outcome->done) << outcome.status().ToString();
    put_at_ = outcome->revision;
  }
  Status Replayed() {
    return ReadEtcdEventLog(etcd_.get(), prefix_, 1, kTimeout,
                            [](std::uint64_t, std::string_view) { return Status::Ok(); });
  }

  const std::shared_ptr<net::Etcd> etcd_ = TestEtcd();
  const std::string prefix_ = NewTestPrefix();
  std::int64_t put_at_ = 0;
  const std::function<bool()> always_ = [] { return true; };
};

TEST_F(EtcdEventLogTest, WhoeverLostTheLeadersKeyWritesNothing) {
  const auto lease = etcd_->Grant(std::chrono::seconds(60), kTimeout);
  ASSERT_TRUE(lease.ok()) << lease.status().ToString();
  Put(LeaderKey(prefix_), "first", lease->id);
  const auto first = Open({put_at_, always_});
  ASSERT_EQ(first->Append("of the first").value(), 1u);
  // Its lease ends while it sleeps: its own clock says nothing of that.
  ASSERT_TRUE(etcd_->Revoke(lease->id, kTimeout).ok());
  EXPECT_EQ(first->Append("late").status().code(), StatusCode::kAborted);
  Put(LeaderKey(prefix_), "second");
  const auto second = Open({put_at_, always_});
  EXPECT_EQ(second->Append("of the second").value(), 2u);
  EXPECT_EQ(first->Append("too late").status().code(), StatusCode::kAborted);
  EXPECT_THAT(All(*second), ::testing::ElementsAre("of the first", "of the second"));
}

TEST_F(EtcdEventLogTest, ItTriesOnlyWhileItsTermHolds) {
  const auto log = Open({LeadForEver(etcd_.get(), prefix_), [] { return false; }});
  EXPECT_EQ(log->Append("event").status().code(), StatusCode::kAborted);
  EXPECT_TRUE(All(*log).empty());
}

// An answer that was lost makes it try again, and then the event is there already.
TEST_F(EtcdEventLogTest, AnEventThatItPutBeforeCountsAndAnothersDoesNot) {
  const auto log = Open({LeadForEver(etcd_.get(), prefix_), always_});
  Put(EventKey(prefix_, 1), EncodeEtcdEvent("mine"));
  EXPECT_EQ(log->Append("mine").value(), 1u);
  Put(EventKey(prefix_, 2), EncodeEtcdEvent("another"));
  EXPECT_EQ(log->Append("mine too").status().code(), StatusCode::kDataLoss);
}

TEST_F(EtcdEventLogTest, AHoleAForeignKeyAndAnUnknownFormatAreTold) {
  Put(EventKey(prefix_, 1), EncodeEtcdEvent("one"));
  EXPECT_TRUE(Replayed().ok());
  Put(EventKey(prefix_, 3), EncodeEtcdEvent("three"));
  EXPECT_THAT(Replayed().message(), HasSubstr("damaged at event 2"));
  Put(EventKey(prefix_, 2), "\x02of later");
  EXPECT_THAT(Replayed().message(), HasSubstr("damaged at event 2"));
  Put(EventKey(prefix_, 1) + "x", "foreign");
  EXPECT_EQ(Replayed().code(), StatusCode::kDataLoss);
}

TEST_F(EtcdEventLogTest, AnEventOfAMebibyteIsRefusedAndOneBelowIsNot) {
  const auto log = Open({LeadForEver(etcd_.get(), prefix_), always_});
  EXPECT_EQ(log->Append(std::string(1 << 20, 'x')).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(log->Append(std::string((1 << 20) - 1, 'x')).value(), 1u);
  EXPECT_EQ(All(*log).at(0).size(), (1u << 20) - 1);
}

// docs/STORAGE.md, "Event log in etcd".
TEST(EtcdKeys, AreAsDocumented) {
  EXPECT_EQ(LeaderKey("shoal/run"), "shoal/run/v1/leader");
  EXPECT_EQ(SwarmKey("shoal/run"), "shoal/run/v1/swarm");
  EXPECT_EQ(EventKey("shoal/run", 1), "shoal/run/v1/events/00000000000000000001");
  EXPECT_EQ(EventKey("r", ~std::uint64_t{0}), "r/v1/events/18446744073709551615");
  EXPECT_LT(EventKey("r", ~std::uint64_t{0}), EventKeysEnd("r"));
  EXPECT_EQ(EventNumberOf("r", EventKey("r", 77)).value(), 77u);
  EXPECT_EQ(EncodeEtcdEvent("{}"), std::string("\x01{}"));
  for (const char* key : {"", "r/v1/events/1", "r/v1/events/0000000000000000000x",
                          "r/v1/events/00000000000000000000", "r/v1/events/99999999999999999999"}) {
    EXPECT_EQ(EventNumberOf("r", key).status().code(), StatusCode::kDataLoss) << key;
  }
}

}  // namespace
}  // namespace shoal::scheduler
