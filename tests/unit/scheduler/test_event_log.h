// Event logs for tests: the same test runs on memory, RocksDB and etcd.

#ifndef SHOAL_TESTS_UNIT_SCHEDULER_TEST_EVENT_LOG_H_
#define SHOAL_TESTS_UNIT_SCHEDULER_TEST_EVENT_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "net/etcd/etcd.h"
#include "storage/checkpoints/event_log.h"
#include "tests/support/temporary_folder.h"

namespace shoal::scheduler {

enum class LogKind : std::uint8_t { kMemory, kRocks, kEtcd };
const char* LogKindName(LogKind kind);
// As SHOAL_TEST_EVENT_LOG says: memory, rocks or etcd; memory where it is not set.
LogKind WantedLogKind();

// An etcd for the life of the test program.
std::shared_ptr<net::Etcd> TestEtcd();
// A prefix that no other test has.
std::string NewTestPrefix();
// Makes the leader's key, without a lease; the term.
std::int64_t LeadForEver(net::Etcd* etcd, const std::string& prefix);

// An empty log; log() is null only while it is opened anew.
class TestEventLog {
 public:
  explicit TestEventLog(LogKind kind);
  storage::EventLog& log() { return *log_; }
  // As a scheduler that is started again opens it. Not for memory.
  void OpenAgain();

 private:
  const LogKind kind_;
  const test_support::TemporaryFolder folder_;
  const std::string prefix_;
  std::int64_t term_ = 0;
  std::unique_ptr<storage::EventLog> log_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_UNIT_SCHEDULER_TEST_EVENT_LOG_H_
