#include "scheduler/door/door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "net/identity/identity.h"
#include "scheduler/door/admission_json.h"
#include "tests/support/temporary_folder.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr std::uint64_t kNow = 1'700'000'000'000;
constexpr char kSecret[] = "00112233445566778899aabbccddeeff";

std::shared_ptr<const net::Identity> NewIdentity() {
  const test_support::TemporaryFolder folder;
  return *net::LoadOrCreateIdentity(folder.path());
}

class DoorTest : public ::testing::Test {
 protected:
  DoorTest() { Happen(InviteMade{*net::InviteKeyOf(kSecret), "Ana", 1, kNow + 1000}); }
  void Happen(StoredEvent event) { door_.Apply({std::move(event), kNow}); }
  Status Check(const net::Identity& peer, const std::string& secret, std::uint64_t now = kNow) {
    const auto shown = net::WithTicket(peer, secret, scheduler_->id).value();
    return door_.Check(peer.id, shown->certificate_pem, now);
  }
  void Join(const net::Identity& peer) {
    Happen(MemberJoined{peer.id, "anna", net::InviteKeyOf(kSecret)->id()});
  }

  const std::shared_ptr<const net::Identity> scheduler_ = NewIdentity(), peer_ = NewIdentity(),
                                             other_ = NewIdentity();
  Door door_{scheduler_->id, false};
};

TEST_F(DoorTest, OneTextForWhateverIsWrong) {
  EXPECT_TRUE(Check(*peer_, kSecret).ok());
  const Status unknown = Check(*peer_, std::string(32, 'a'));
  EXPECT_EQ(unknown.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(unknown.message(), HasSubstr("ask the organiser for a new invite"));
  EXPECT_EQ(Check(*peer_, kSecret, kNow + 1000).message(), unknown.message()) << "expired";
  Join(*peer_);
  EXPECT_EQ(Check(*other_, kSecret).message(), unknown.message()) << "used up";
  Happen(InviteRevoked{net::InviteKeyOf(kSecret)->id()});
  EXPECT_EQ(Check(*other_, kSecret).message(), unknown.message()) << "revoked";
  EXPECT_EQ(door_.Check(other_->id, other_->certificate_pem, kNow).message(), unknown.message())
      << "no ticket";
  EXPECT_EQ(door_.Check(other_->id, "nonsense", kNow).message(), unknown.message());
  EXPECT_TRUE(Check(*peer_, kSecret).ok()) << "a member";
  Happen(MemberKicked{peer_->id, "noise"});
  EXPECT_EQ(Check(*peer_, kSecret).message(), unknown.message());
}

TEST_F(DoorTest, ATicketOfAnotherKeyDoesNotHold) {
  const auto stolen = net::WithTicket(*peer_, kSecret, scheduler_->id).value();
  EXPECT_FALSE(door_.Check(other_->id, stolen->certificate_pem, kNow).ok());
}

TEST_F(DoorTest, MembersComeBackWhateverTheyShow) {
  Join(*peer_);
  EXPECT_TRUE(door_.Check(peer_->id, peer_->certificate_pem, kNow + 5000).ok());
}

TEST_F(DoorTest, OnlySeveralSchedulersLetTheirOwnKeyIn) {
  EXPECT_FALSE(door_.Check(scheduler_->id, scheduler_->certificate_pem, kNow).ok());
  Door several(scheduler_->id, true);
  EXPECT_TRUE(several.Check(scheduler_->id, scheduler_->certificate_pem, kNow).ok());
}

TEST_F(DoorTest, ShowsInvitesAndMembers) {
  Join(*peer_);
  Happen(MemberKicked{peer_->id, "noise"});
  Join(*other_);
  const Json invites =
      Json::parse(door_.Read([](const InviteBook& book) { return InvitesJson(book, kNow); }));
  const Json& ana = invites["invites"][0];
  EXPECT_EQ(ana["id"], net::InviteKeyOf(kSecret)->id().ToHex());
  EXPECT_EQ(ana["name"], "Ana");
  EXPECT_EQ(ana["state"], "used up");
  EXPECT_EQ(ana["usesLeft"], 0);
  EXPECT_EQ(ana["expiresUnixMs"], kNow + 1000);
  EXPECT_EQ(ana["usedBy"].size(), 2u);
  RunView view;
  MemberView here;
  here.peer = other_->id;
  here.name = "otto";
  here.connected = true;
  here.state = "training";
  here.last_heard_s = 2;
  view.members = {here};
  const Json members = Json::parse(
      door_.Read([&](const InviteBook& book) { return MembersJson(book, view, kNow + 10'000); }));
  for (const Json& member : members["members"]) {
    const bool is_here = member["peer"] == other_->id.ToHex();
    EXPECT_EQ(member["state"], is_here ? "training" : "kicked");
    EXPECT_EQ(member["name"], is_here ? "otto" : "anna");
    EXPECT_EQ(member["reason"], is_here ? "" : "noise");
    EXPECT_EQ(member["inviteName"], "Ana");
    EXPECT_EQ(member["lastSeenUnixMs"], is_here ? kNow + 8000 : kNow);
  }
}

}  // namespace
}  // namespace shoal::scheduler
