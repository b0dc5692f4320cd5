#include "scheduler/election/candidate.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "scheduler/election/etcd_keys.h"

namespace shoal::scheduler {
namespace {

constexpr Duration kLookTimeout = std::chrono::seconds(2);
constexpr Duration kRevokeTimeout = std::chrono::seconds(1);
constexpr std::size_t kNameBytesMax = 200;

}  // namespace

Candidate::Candidate(std::shared_ptr<net::Etcd> etcd, const std::string& prefix,
                     const std::string& name, std::function<void()> on_change)
    : etcd_(std::move(etcd)),
      key_(LeaderKey(prefix)),
      name_(name),
      on_change_(std::move(on_change)),
      election_(SystemClock().Now()),
      leader_("not known yet"),
      thread_(NewThreadExecutor("election")) {
  thread_->Post("election.turn", [this] { Turn(); });
}

Candidate::~Candidate() {
  stopping_ = true;
  safe_until_ns_ = 0;
  // A turn under way still needs the thread.
  std::promise<void> left;
  thread_->Post("election.leave", [&] {
    DropLease();
    left.set_value();
  });
  left.get_future().wait();
}

bool Candidate::Leads() const {
  return SystemClock().Now().time_since_epoch().count() < safe_until_ns_;
}

std::string Candidate::leader() const {
  MutexLock lock(mutex_);
  return leader_;
}

std::optional<TimePoint> Candidate::leader_seen() const {
  MutexLock lock(mutex_);
  return leader_seen_;
}

void Candidate::SetLeader(const std::string& text, std::optional<TimePoint> seen) {
  MutexLock lock(mutex_);
  if (seen) leader_seen_ = seen;
  leader_ = CleanText(text, kNameBytesMax);
}

// What of a lease is not used any more would keep the others waiting.
void Candidate::DropLease() {
  if (lease_ == 0) return;
  const Status status = etcd_->Revoke(std::exchange(lease_, 0), kRevokeTimeout);
  if (!status.ok()) SHOAL_LOG(kDebug, "scheduler", "lease.revoke", {"error", status.message()});
}

void Candidate::Turn() {
  SHOAL_ASSERT_ON(*thread_);
  if (stopping_) return;
  const ElectionState before = election_.state();
  if (SystemClock().Now() >= election_.next()) Ask();
  const ElectionState state = election_.state();
  if (state == ElectionState::kLeads) {
    safe_until_ns_ = election_.safe_until().time_since_epoch().count();
  }
  if (state == ElectionState::kFollows && lease_ != 0) DropLease();
  if (state != before && state == ElectionState::kLeads) {
    SetLeader(name_);
    SHOAL_LOG(kInfo, "scheduler", "election.leads", {"term", term_.load()});
    on_change_();
  }
  if (state == ElectionState::kLost) {
    safe_until_ns_ = 0;
    lost_ = true;
    SHOAL_LOG(kError, "scheduler", "election.lost", {"term", term_.load()});
    on_change_();
    return;
  }
  const Duration wait = election_.next() - SystemClock().Now();
  thread_->PostAfter("election.turn", std::max(wait, Duration::zero()), [this] { Turn(); });
}

void Candidate::Ask() {
  const TimePoint sent = SystemClock().Now();
  switch (election_.call()) {
    case ElectionCall::kLook: return Look(sent);
    case ElectionCall::kGrant: return Grant(sent);
    case ElectionCall::kClaim: return Claim();
    case ElectionCall::kRenew: return Renew(sent);
    case ElectionCall::kNone: return;
  }
}

void Candidate::Look(TimePoint) {
  net::EtcdRange range;
  range.from = key_;
  range.end = key_ + '\0';
  range.limit = 1;
  const auto page = etcd_->Read(range, kLookTimeout);
  const TimePoint now = SystemClock().Now();
  if (!page.ok()) {
    SetLeader("not known: " + page.status().message());
    return election_.On(ElectionInput::kFailed, now);
  }
  if (page->entries.empty()) return election_.On(ElectionInput::kVacant, now);
  SetLeader(page->entries[0].value, now);
  election_.On(ElectionInput::kLedByOther, now);
}

void Candidate::Grant(TimePoint sent) {
  const auto lease = etcd_->Grant(kLeaseTtl, kLookTimeout);
  const TimePoint now = SystemClock().Now();
  if (!lease.ok()) return election_.On(ElectionInput::kFailed, now);
  lease_ = lease->id;
  election_.OnLease(ElectionInput::kGranted, sent, lease->ttl, now);
}

void Candidate::Claim() {
  net::EtcdCommit commit;
  commit.key = key_;
  commit.value = name_;
  commit.lease = lease_;
  commit.conditions = {{key_, 0}};
  commit.otherwise = {key_};
  const auto outcome = etcd_->Commit(commit, kLeaseTtl / 2);
  const TimePoint now = SystemClock().Now();
  if (!outcome.ok()) {
    const bool gone = outcome.status().code() == StatusCode::kNotFound;
    return election_.On(gone ? ElectionInput::kGone : ElectionInput::kFailed, now);
  }
  if (outcome->done) {
    term_ = outcome->revision;
    return election_.On(ElectionInput::kClaimed, now);
  }
  // An earlier try, whose answer was lost, may have come through.
  const auto& there = outcome->found[0];
  if (!there) return election_.On(ElectionInput::kFailed, now);
  if (there->lease != lease_) {
    SetLeader(there->value, now);
    return election_.On(ElectionInput::kLedByOther, now);
  }
  term_ = there->create_revision;
  election_.On(ElectionInput::kClaimed, now);
}

void Candidate::Renew(TimePoint sent) {
  // Not behind the end of the lease, so that the loss is noticed in time.
  const Duration left = election_.safe_until() - sent;
  if (left <= Duration::zero()) return election_.On(ElectionInput::kExpired, sent);
  const auto ttl = etcd_->KeepAlive(lease_, left);
  const TimePoint now = SystemClock().Now();
  if (ttl.ok()) return election_.OnLease(ElectionInput::kRenewed, sent, *ttl, now);
  SHOAL_LOG(kWarning, "scheduler", "lease.not_renewed", {"error", ttl.status().message()});
  const bool gone = ttl.status().code() == StatusCode::kNotFound;
  election_.On(gone ? ElectionInput::kGone : ElectionInput::kFailed, now);
}

}  // namespace shoal::scheduler
