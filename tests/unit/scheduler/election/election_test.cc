#include "scheduler/election/election.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <queue>
#include <random>
#include <vector>

namespace shoal::scheduler {
namespace {

using std::chrono::milliseconds;
using Input = ElectionInput;
using State = ElectionState;

constexpr TimePoint kStart{std::chrono::hours(1)};
TimePoint At(int ms) { return kStart + milliseconds(ms); }

// Leads since At(0).
Election Leader() {
  Election election(kStart);
  election.On(Input::kVacant, kStart);
  election.OnLease(Input::kGranted, kStart, kLeaseTtl, kStart);
  election.On(Input::kClaimed, kStart);
  return election;
}

TEST(Election, LooksTakesALeaseClaimsAndRenews) {
  Election election(kStart);
  EXPECT_EQ(election.call(), ElectionCall::kLook);
  election.On(Input::kLedByOther, At(0));
  EXPECT_EQ(election.call(), ElectionCall::kLook);
  EXPECT_EQ(election.next(), kStart + kLookEvery);
  election.On(Input::kVacant, At(250));
  EXPECT_EQ(election.call(), ElectionCall::kGrant);
  EXPECT_EQ(election.next(), At(250));
  election.OnLease(Input::kGranted, At(250), kLeaseTtl, At(260));
  EXPECT_EQ(election.call(), ElectionCall::kClaim);
  EXPECT_FALSE(election.Leads(At(260)));
  election.On(Input::kClaimed, At(270));
  EXPECT_TRUE(election.Leads(At(270)));
  EXPECT_EQ(election.call(), ElectionCall::kRenew);
  EXPECT_EQ(election.next(), At(270 + 500));
  election.OnLease(Input::kRenewed, At(770), kLeaseTtl, At(780));
  EXPECT_EQ(election.next(), At(770 + 500));
  EXPECT_EQ(election.safe_until(), At(770 + 1800)) << "from when it was asked for, a tenth less";
}

TEST(Election, StopsByItsOwnClockBeforeTheLeaseEnds) {
  Election election = Leader();
  EXPECT_TRUE(election.Leads(At(1799)));
  EXPECT_FALSE(election.Leads(At(1800)));
  election.On(Input::kFailed, At(700));
  EXPECT_EQ(election.state(), State::kLeads);
  EXPECT_EQ(election.next(), At(700) + kRetryPause);
  // An answer that comes too late does not bring the lead back, whatever it says.
  election.OnLease(Input::kRenewed, At(1700), kLeaseTtl, At(1800));
  EXPECT_EQ(election.state(), State::kLost);
  EXPECT_EQ(election.call(), ElectionCall::kNone);
  for (const Input input : {Input::kVacant, Input::kClaimed, Input::kFailed}) {
    election.On(input, At(1900));
    EXPECT_EQ(election.state(), State::kLost);
  }
}

TEST(Election, AClaimThatCameTooLateOrFailedIsGivenUp) {
  for (const Input input : {Input::kLedByOther, Input::kFailed, Input::kGone, Input::kClaimed}) {
    Election election(kStart);
    election.On(Input::kVacant, kStart);
    election.OnLease(Input::kGranted, kStart, kLeaseTtl, kStart);
    election.On(input, input == Input::kClaimed ? At(1800) : At(10));
    EXPECT_EQ(election.state(), State::kFollows);
    EXPECT_EQ(election.call(), ElectionCall::kLook);
  }
}

TEST(Election, WhatDoesNotFitTheStateChangesNothing) {
  Election election(kStart);
  for (const Input input : {Input::kClaimed, Input::kGone, Input::kExpired}) {
    election.On(input, At(5));
    EXPECT_EQ(election.state(), State::kFollows);
  }
  Election leader = Leader();
  leader.On(Input::kVacant, At(5));
  leader.On(Input::kLedByOther, At(5));
  EXPECT_EQ(leader.state(), State::kLeads);
  leader.On(Input::kGone, At(6));
  EXPECT_EQ(leader.state(), State::kLost);
}

// ---- several schedulers, and an etcd that gives out leases by its own clock ----

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) Join();
  }

  // Runs until `end`; at every moment one acts as the leader, at most.
  void Run(TimePoint end) {
    while (!tasks_.empty() && tasks_.top().when <= end) {
      const Task task = tasks_.top();
      tasks_.pop();
      now_ = task.when;
      EndLeases();
      task.run();
      const auto leaders = std::ranges::count_if(
          nodes_, [&](const Node& node) { return node.alive && node.election.Leads(now_); });
      ASSERT_LE(leaders, 1);
      if (leaders == 1) led_at_ = now_;
      longest_ = std::max(longest_, now_ - std::max(led_at_, quiet_at_));
    }
    now_ = end;
  }

  // A process dies, freezes or is cut off from etcd for up to 5 s; a new one takes its place.
  void Disturb() {
    Node& node = nodes_[random_() % nodes_.size()];
    const Duration time = milliseconds(random_() % 5000);
    switch (random_() % 3) {
      case 0:
        node.alive = false;
        Join();
        std::erase_if(nodes_, [](const Node& one) { return !one.alive; });
        break;
      case 1: node.frozen_until = now_ + time; break;
      default: node.cut_until = now_ + time; break;
    }
  }
  // From here on nothing is disturbed.
  void Quiet() { longest_ = Duration::zero(), quiet_at_ = now_; }
  TimePoint now() const { return now_; }
  Duration longest() const { return longest_; }

 private:
  struct Node {
    int id = 0;
    bool alive = true;
    Election election;
    std::int64_t lease = 0;
    TimePoint frozen_until{}, cut_until{};
  };
  struct Task {
    TimePoint when;
    std::uint64_t order;
    std::function<void()> run;
    bool operator<(const Task& other) const {
      return std::pair(when, order) > std::pair(other.when, other.order);
    }
  };

  void After(Duration delay, std::function<void()> run) {
    tasks_.push({now_ + delay, ++order_, std::move(run)});
  }
  Duration Delay() {
    return random_() % 50 == 0 ? Duration(milliseconds(random_() % 1500))
                               : Duration(milliseconds(1 + random_() % 10));
  }
  void Join() {
    nodes_.push_back({++last_id_, true, Election(now_), 0, {}, {}});
    After(Delay(), [this, id = last_id_] { Turn(id); });
  }
  Node* Find(int id) {
    const auto found = std::ranges::find_if(nodes_, [&](const Node& n) { return n.id == id; });
    return found == nodes_.end() ? nullptr : &*found;
  }
  void EndLeases() {
    std::erase_if(leases_, [&](const auto& lease) { return now_ >= lease.second; });
    if (std::ranges::none_of(leases_, [&](const auto& one) { return one.first == holder_; })) {
      holder_ = 0;
    }
  }
  void Turn(int id) {
    Node* const node = Find(id);
    if (node == nullptr || node->election.state() == State::kLost) {
      if (node == nullptr) return;
      node->election = Election(now_);  // it stands by again
      node->lease = 0;
    }
    if (now_ < node->frozen_until) return After(node->frozen_until - now_, [=, this] { Turn(id); });
    if (now_ < node->election.next()) {
      return After(node->election.next() - now_, [=, this] { Turn(id); });
    }
    const ElectionCall call = node->election.call();
    const TimePoint sent = now_;
    if (now_ < node->cut_until) {
      return After(milliseconds(300), [=, this] { Answer(id, Input::kFailed, sent); });
    }
    After(Delay(), [=, this] {
      const Input answer = Etcd(id, call);
      const bool lost = random_() % 100 == 0;  // it had its effect, and nobody hears of it
      After(Delay(), [=, this] { Answer(id, lost ? Input::kFailed : answer, sent); });
    });
  }
  Input Etcd(int id, ElectionCall call) {
    Node* const node = Find(id);
    if (node == nullptr) return Input::kFailed;
    const auto lease =
        std::ranges::find_if(leases_, [&](const auto& one) { return one.first == node->lease; });
    switch (call) {
      case ElectionCall::kLook: return holder_ == 0 ? Input::kVacant : Input::kLedByOther;
      case ElectionCall::kGrant:
        node->lease = ++last_lease_;
        leases_.emplace_back(node->lease, now_ + kLeaseTtl);
        return Input::kGranted;
      case ElectionCall::kClaim:
        if (lease == leases_.end()) return Input::kGone;
        if (holder_ != 0 && holder_ != node->lease) return Input::kLedByOther;
        holder_ = node->lease;
        return Input::kClaimed;
      case ElectionCall::kRenew:
        if (lease == leases_.end()) return Input::kGone;
        lease->second = now_ + kLeaseTtl;
        return Input::kRenewed;
      case ElectionCall::kNone: break;
    }
    return Input::kFailed;
  }
  void Answer(int id, Input input, TimePoint sent) {
    Node* const node = Find(id);
    if (node == nullptr) return;
    // A frozen process reads the answer when it wakes.
    if (now_ < node->frozen_until) {
      return After(node->frozen_until - now_, [=, this] { Answer(id, input, sent); });
    }
    if (input == Input::kGranted || input == Input::kRenewed) {
      node->election.OnLease(input, sent, kLeaseTtl, now_);
    } else {
      node->election.On(input, now_);
    }
    Turn(id);
  }

  std::mt19937_64 random_;
  std::vector<Node> nodes_;
  int last_id_ = 0;
  TimePoint now_ = kStart, led_at_ = kStart, quiet_at_ = kStart;
  Duration longest_{};
  std::priority_queue<Task> tasks_;
  std::uint64_t order_ = 0;
  std::vector<std::pair<std::int64_t, TimePoint>> leases_;
  std::int64_t last_lease_ = 0, holder_ = 0;  // lease of the leader's key
};

TEST(ElectionSim, NeverTwoLeadAndAfterAnythingOneDoesWithinFiveSeconds) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 40 && !::testing::Test::HasFatalFailure(); ++i) {
      world.Run(world.now() + milliseconds(random() % 3000));
      world.Disturb();
    }
    // What was frozen or cut off is back by then.
    world.Run(world.now() + std::chrono::seconds(5));
    world.Quiet();
    world.Run(world.now() + std::chrono::seconds(60));
    EXPECT_LT(world.longest(), std::chrono::seconds(5));
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace shoal::scheduler
