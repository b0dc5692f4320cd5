// Candidate: one attempt to lead, with a thread of its own that asks etcd what Election wants. It
// ends when the lead is lost; a new Candidate tries again.

#ifndef SHOAL_SCHEDULER_ELECTION_CANDIDATE_H_
#define SHOAL_SCHEDULER_ELECTION_CANDIDATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/executor.h"
#include "common/mutex.h"
#include "common/status.h"
#include "net/etcd/etcd.h"
#include "scheduler/election/election.h"

namespace shoal::scheduler {

class Candidate {
 public:
  // `name` is what the leader's key says for people. `on_change` runs on the candidate's thread
  // when it begins to lead, and when it has lost the lead. Owner: the caller.
  Candidate(std::shared_ptr<net::Etcd> etcd, const std::string& prefix, const std::string& name,
            std::function<void()> on_change);
  ~Candidate();  // gives up the lead, so that another has it at once; blocks for a second at most

  // By our own clock. Thread: any.
  bool Leads() const;
  bool lost() const { return lost_; }  // Thread: any.
  // At which the leader's key was made, once it leads. Thread: any.
  std::int64_t term() const { return term_; }
  // What the leader's key says, or why nobody knows; for people. Thread: any.
  std::string leader() const;
  // When etcd last named a leader, by our own clock; none: it has not yet. Thread: any.
  std::optional<TimePoint> leader_seen() const;

 private:
  void Turn();
  void Ask();
  void Look(TimePoint sent);
  void Grant(TimePoint sent);
  void Claim();
  void Renew(TimePoint sent);
  void SetLeader(const std::string& text, std::optional<TimePoint> seen = {});
  void DropLease();

  const std::shared_ptr<net::Etcd> etcd_;
  const std::string key_, name_;
  const std::function<void()> on_change_;
  Election election_;       // election
  std::int64_t lease_ = 0;  // election
  std::atomic<std::int64_t> term_ = 0, safe_until_ns_ = 0;
  std::atomic<bool> lost_ = false, stopping_ = false;
  mutable Mutex mutex_;
  std::string leader_ SHOAL_GUARDED_BY(mutex_);
  std::optional<TimePoint> leader_seen_ SHOAL_GUARDED_BY(mutex_);
  std::unique_ptr<Executor> thread_;  // last
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_ELECTION_CANDIDATE_H_
