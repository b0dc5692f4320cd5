#include "scheduler/election/etcd_event_log.h"

#include <chrono>
#include <thread>
#include <utility>

#include "scheduler/election/etcd_keys.h"

namespace shoal::scheduler {
namespace {

constexpr Duration kWriteTimeout = std::chrono::milliseconds(1500);
constexpr Duration kPause = std::chrono::milliseconds(50);

bool MayPass(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded;
}

class EtcdEventLog final : public storage::EventLog {
 public:
  EtcdEventLog(std::shared_ptr<net::Etcd> etcd, std::string prefix, LeaderTerm term)
      : etcd_(std::move(etcd)), prefix_(std::move(prefix)), term_(std::move(term)) {}

  Status FindEnd() {
    net::EtcdRange range;
    range.from = EventKey(prefix_, 1);
    range.end = EventKeysEnd(prefix_);
    range.limit = 1;
    range.last_first = true;
    SHOAL_ASSIGN_OR_RETURN(const net::EtcdPage page, etcd_->Read(range, kEtcdReadTimeout));
    if (page.entries.empty()) return Status::Ok();
    SHOAL_ASSIGN_OR_RETURN(last_, EventNumberOf(prefix_, page.entries[0].key));
    return Status::Ok();
  }

  Result<std::uint64_t> Append(std::string_view event) override {
    if (event.size() >= net::kEtcdValueBytesMax) {
      return ResourceExhausted("an event of " + std::to_string(event.size()) +
                               " bytes does not fit into etcd, which takes 1 MiB");
    }
    net::EtcdCommit commit;
    commit.key = EventKey(prefix_, last_ + 1);
    commit.value = EncodeEtcdEvent(event);
    commit.conditions = {{LeaderKey(prefix_), term_.revision}, {commit.key, 0}};
    commit.otherwise = {LeaderKey(prefix_), commit.key};
    Status last = Aborted("it does not lead");
    while (term_.holds()) {
      const auto outcome = etcd_->Commit(commit, kWriteTimeout);
      if (outcome.ok()) {
        if (!outcome->done) SHOAL_RETURN_IF_ERROR(CheckDone(commit, *outcome));
        return ++last_;
      }
      last = outcome.status();
      if (!MayPass(last)) return last;
      std::this_thread::sleep_for(kPause);
    }
    return Aborted("this scheduler does not lead any more: " + last.message());
  }

  Status Replay(const std::function<Status(std::uint64_t, std::string_view)>& visit) override {
    return ReadEtcdEventLog(etcd_.get(), prefix_, 1, kEtcdReadTimeout, visit);
  }

 private:
  // The conditions do not hold where an earlier try, whose answer was lost, put the event.
  Status CheckDone(const net::EtcdCommit& commit, const net::EtcdOutcome& outcome) const {
    const auto& leader = outcome.found[0];
    const auto& there = outcome.found[1];
    if (!leader || leader->create_revision != term_.revision) {
      return Aborted("this scheduler does not lead any more: its key in etcd is gone");
    }
    if (there && there->value == commit.value) return Status::Ok();
    return DataLoss("somebody else writes below " + prefix_ + " in etcd");
  }

  const std::shared_ptr<net::Etcd> etcd_;
  const std::string prefix_;
  const LeaderTerm term_;
  std::uint64_t last_ = 0;
};

}  // namespace

Result<std::unique_ptr<storage::EventLog>> OpenEtcdEventLog(std::shared_ptr<net::Etcd> etcd,
                                                            const std::string& prefix,
                                                            LeaderTerm term) {
  auto log = std::make_unique<EtcdEventLog>(std::move(etcd), prefix, std::move(term));
  SHOAL_RETURN_IF_ERROR(log->FindEnd());
  return std::unique_ptr<storage::EventLog>(std::move(log));
}

Status ReadEtcdEventLog(
    net::Etcd* etcd, const std::string& prefix, std::uint64_t first, Duration timeout,
    const std::function<Status(std::uint64_t number, std::string_view event)>& visit) {
  net::EtcdRange range;
  range.end = EventKeysEnd(prefix);
  for (std::uint64_t number = first;;) {
    range.from = EventKey(prefix, number);
    SHOAL_ASSIGN_OR_RETURN(const net::EtcdPage page, etcd->Read(range, timeout));
    for (const net::EtcdEntry& entry : page.entries) {
      SHOAL_ASSIGN_OR_RETURN(const std::string_view event,
                             DecodeEtcdEvent(prefix, number, entry.key, entry.value));
      SHOAL_RETURN_IF_ERROR(visit(number, event));
      ++number;
    }
    if (!page.more) return Status::Ok();
    range.revision = page.revision;  // all of it as it was at the first page
  }
}

}  // namespace shoal::scheduler
