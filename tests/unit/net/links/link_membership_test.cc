// Links between peers that show each other their membership.

#include <gmock/gmock.h>

#include <optional>

#include "net/identity/membership_check.h"
#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

constexpr RunId kRun{0x1234};
constexpr std::uint64_t kNow = 1'700'000'000;

struct Member {
  std::shared_ptr<MembershipCheck> check = std::make_shared<MembershipCheck>();
  std::shared_ptr<const Identity> identity = MakeIdentity();
  std::unique_ptr<LinkHub> hub;
  std::unique_ptr<Link> link;
  bool open = false;
  std::optional<Status> closed;

  LinkHandlers Handlers() {
    LinkHandlers handlers;
    handlers.on_open = [this] { open = true; };
    handlers.on_closed = [this](Status status) { closed = std::move(status); };
    return handlers;
  }
};

class LinkMembershipTest : public testing::Test {
 protected:
  LinkMembershipTest() {
    for (Member* const member : {&a_, &b_}) {
      LinkHubOptions options;
      options.listen = "127.0.0.1:0";
      options.identity = member->identity;
      options.upload = options.download = std::make_shared<RateLimiter>(&SystemClock());
      options.members = member->check;
      On([&] { member->hub = NewGrpcLinkHub(options, executor_.get()).value(); });
    }
  }
  ~LinkMembershipTest() override {
    On([this] {
      for (Member* const member : {&a_, &b_}) {
        member->link.reset();
        member->hub.reset();
      }
    });
  }
  template <typename Task>
  void On(Task task) {
    RunOn(executor_.get(), [&task] {
      task();
      return 0;
    });
  }
  bool Wait(const std::function<bool()>& holds) { return WaitUntil(executor_.get(), holds); }

  // As the scheduler would give it `ago_s` seconds before it gives the other's.
  void Give(Member* member, std::uint64_t ago_s, const Identity& scheduler) {
    const Membership membership =
        NewMembership(kRun, member->identity->id, kNow - ago_s, ++serial_);
    const std::string bytes = SignMembership(membership, scheduler).value();
    ASSERT_TRUE(
        member->check->Renew(bytes, scheduler.id, member->identity->id, SystemClock().Now()).ok());
  }
  void Connect() {
    On([this] {
      b_.link = b_.hub->Accept(TargetOf(a_), b_.Handlers());
      a_.link = a_.hub->Dial(TargetOf(b_), a_.Handlers());
    });
  }
  static LinkTarget TargetOf(const Member& member) {
    LinkTarget target;
    target.peer = member.identity->id;
    target.addresses = {"127.0.0.1:" + std::to_string(member.hub->port())};
    target.run = kRun;
    target.generation = 1;
    target.channel = "boundary/0/1";
    return target;
  }

  std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
  const std::shared_ptr<const Identity> scheduler_ = MakeIdentity();
  std::uint64_t serial_ = 0;
  Member a_, b_;
};

TEST_F(LinkMembershipTest, MembersOfOneRunLink) {
  Give(&a_, 0, *scheduler_);
  Give(&b_, 0, *scheduler_);
  Connect();
  EXPECT_TRUE(Wait([this] { return a_.open && b_.open; }));
  EXPECT_FALSE(a_.closed);
}

TEST_F(LinkMembershipTest, WhoseMembershipIsNotOfThisSchedulerFindsNoLink) {
  const auto other = MakeIdentity();
  Give(&a_, 0, *other);
  Give(&b_, 0, *scheduler_);
  Connect();
  ASSERT_TRUE(Wait([this] { return a_.closed.has_value(); }));
  EXPECT_THAT(a_.closed->message(), HasSubstr("not signed by this run's scheduler"));
  EXPECT_FALSE(b_.open);
}

TEST_F(LinkMembershipTest, TheEndThatDialsChecksToo) {
  // The other end takes whatever comes, and has nothing to show.
  On([this] { b_.hub.reset(); });
  LinkHubOptions options;
  options.listen = "127.0.0.1:0";
  options.identity = b_.identity;
  options.upload = options.download = std::make_shared<RateLimiter>(&SystemClock());
  On([&] { b_.hub = NewGrpcLinkHub(options, executor_.get()).value(); });
  Give(&a_, 0, *scheduler_);
  Connect();
  ASSERT_TRUE(Wait([this] { return a_.closed.has_value(); }));
  EXPECT_THAT(a_.closed->message(), HasSubstr("shows no membership"));
  EXPECT_FALSE(a_.open);
}

TEST_F(LinkMembershipTest, ALinkEndsWithAMembershipThatIsNotRenewed) {
  Give(&a_, 23 * 3600 - 2, *scheduler_);  // two seconds are left
  Give(&b_, 0, *scheduler_);
  Connect();
  ASSERT_TRUE(Wait([this] { return b_.open; }));
  ASSERT_TRUE(Wait([this] { return b_.closed.has_value(); }));
  EXPECT_THAT(b_.closed->message(), HasSubstr("has ended"));
}

TEST_F(LinkMembershipTest, ARenewedMembershipKeepsTheLink) {
  Give(&a_, 23 * 3600 - 4, *scheduler_);
  Give(&b_, 0, *scheduler_);
  Connect();
  ASSERT_TRUE(Wait([this] { return a_.open && b_.open; }));
  Give(&a_, 0, *scheduler_);
  std::this_thread::sleep_for(std::chrono::seconds(6));
  On([this] {
    EXPECT_FALSE(b_.closed) << b_.closed->ToString();
    EXPECT_FALSE(a_.closed);
  });
}

}  // namespace
}  // namespace shoal::net
