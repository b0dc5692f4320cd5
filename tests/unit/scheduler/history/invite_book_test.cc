#include "scheduler/history/invite_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kNow = 1'700'000'000'000;

net::InviteKey KeyNumber(std::uint8_t number, std::uint8_t last = 0) {
  net::InviteKey key;
  key.key[0] = number;
  key.key[7] = last;
  return key;
}
PeerId PeerNumber(std::uint8_t number) {
  PeerId peer;
  peer.key[0] = number;
  return peer;
}

struct Book : InviteBook {
  InviteId Make(std::uint8_t number, std::uint64_t uses, std::uint64_t expires_ms = kNow + 1000) {
    Apply(InviteMade{KeyNumber(number), "Ana", uses, expires_ms}, kNow);
    return KeyNumber(number).id();
  }
  void Join(std::uint8_t peer, const InviteId& invite) {
    Apply(MemberJoined{PeerNumber(peer), "peer" + std::to_string(peer), invite}, kNow);
  }
  Admittance Judged(std::uint8_t peer, const InviteId& invite, std::uint64_t now = kNow) {
    return Judge(PeerNumber(peer), invite, now);
  }
};

TEST(InviteBook, AnIdIsTheBeginOfTheKey) {
  EXPECT_EQ(KeyNumber(0xab, 0x12).id().ToHex(), "ab00000000000012");
  EXPECT_EQ(*InviteId::FromHex("ab00000000000012"), KeyNumber(0xab, 0x12).id());
}

TEST(InviteBook, EachNewKeyBurnsOneUseAndComesBackWithoutAnother) {
  Book book;
  const InviteId two = book.Make(1, 2);
  EXPECT_EQ(book.Judged(1, two), Admittance::kOpen);
  book.Join(1, two);
  book.Join(1, two);
  EXPECT_EQ(book.UsesLeft(book.Invites()[0]), 1u);
  EXPECT_EQ(book.Judged(2, two), Admittance::kOpen);
  book.Join(2, two);
  EXPECT_EQ(book.Judged(3, two), Admittance::kUsedUp);
  EXPECT_EQ(book.Judged(1, two), Admittance::kMember);
  EXPECT_EQ(book.Judged(2, InviteId{}), Admittance::kMember) << "whatever it shows";
  EXPECT_THAT(book.UsersOf(two), ElementsAre(PeerNumber(1), PeerNumber(2)));
}

TEST(InviteBook, AnInviteEndsAtItsTimeAndItsMembersStay) {
  Book book;
  const InviteId invite = book.Make(1, 5);
  book.Join(1, invite);
  EXPECT_EQ(book.Judged(2, invite, kNow + 999), Admittance::kOpen);
  EXPECT_EQ(book.Judged(2, invite, kNow + 1000), Admittance::kExpired);
  EXPECT_EQ(book.Judged(1, invite, kNow + 1000), Admittance::kMember);
}

TEST(InviteBook, ARevokedInviteLetsNobodyNewIn) {
  Book book;
  const InviteId invite = book.Make(1, 5);
  book.Join(1, invite);
  book.Apply(InviteRevoked{invite}, kNow);
  EXPECT_EQ(book.Judged(2, invite), Admittance::kRevoked);
  EXPECT_EQ(book.Judged(1, invite), Admittance::kMember);
  EXPECT_EQ(book.Judged(2, InviteId{7}), Admittance::kUnknown);
}

TEST(InviteBook, AKickedKeyStaysOutUntilItIsTakenBack) {
  Book book;
  const InviteId invite = book.Make(1, 5);
  book.Join(1, invite);
  book.Apply(MemberKicked{PeerNumber(1), "it lies"}, kNow);
  EXPECT_EQ(book.Judged(1, invite), Admittance::kKicked);
  EXPECT_EQ(book.members().at(PeerNumber(1)).reason, "it lies");
  book.Apply(MemberTakenBack{PeerNumber(1)}, kNow);
  EXPECT_EQ(book.Judged(1, invite), Admittance::kMember);
  EXPECT_EQ(book.UsesLeft(book.Invites()[0]), 4u) << "that costs no use";
}

TEST(InviteBook, TheStandingInviteHasNoLimitsAndCanBeTurnedOffOrRevoked) {
  Book book;
  book.SetStanding(KeyNumber(9), true);
  const InviteId standing = KeyNumber(9).id();
  for (std::uint8_t peer = 0; peer < 50; ++peer) {
    ASSERT_EQ(book.Judged(peer, standing, kNow * 2), Admittance::kOpen);
    book.Join(peer, standing);
  }
  book.SetStanding(KeyNumber(9), false);
  EXPECT_EQ(book.Judged(60, standing), Admittance::kOff);
  EXPECT_EQ(book.Judged(1, standing), Admittance::kMember);
  book.Apply(InviteRevoked{standing}, kNow);
  book.SetStanding(KeyNumber(9), true);
  EXPECT_EQ(book.Judged(60, standing), Admittance::kRevoked);
}

TEST(InviteBook, KeysAndInvitesAreBounded) {
  Book book;
  book.SetStanding(KeyNumber(9), true);
  const InviteId standing = KeyNumber(9).id();
  for (std::size_t i = 0; i < kKnownKeysMax; ++i) {
    PeerId peer;
    peer.key[0] = 1;
    peer.key[30] = static_cast<std::uint8_t>(i >> 8);
    peer.key[31] = static_cast<std::uint8_t>(i);
    book.Apply(MemberJoined{peer, "", standing}, kNow);
  }
  EXPECT_EQ(book.Judged(2, standing), Admittance::kFull);
  EXPECT_EQ(book.Judge(PeerId{{1}}, standing, kNow), Admittance::kMember);
  for (std::size_t i = 0; i + 1 < kInvitesMax; ++i) {
    ASSERT_TRUE(book.MayMake(kNow).ok());
    net::InviteKey key = KeyNumber(3, static_cast<std::uint8_t>(i));
    key.key[6] = static_cast<std::uint8_t>(i >> 8);
    book.Apply(InviteMade{key, "", 1, kNow + 1000}, kNow);
  }
  EXPECT_THAT(book.MayMake(kNow).message(), HasSubstr("shoal swarm revoke"));
  EXPECT_TRUE(book.MayMake(kNow + 1000).ok()) << "by then they are over";
  book.Apply(InviteMade{KeyNumber(4), "", 1, kNow + 2000}, kNow + 1000);
  EXPECT_EQ(book.Invites().size(), kInvitesMax);
  EXPECT_EQ(book.KeyOf(KeyNumber(3, 0).id()), nullptr) << "the oldest gave way";
  EXPECT_NE(book.KeyOf(KeyNumber(3, 1).id()), nullptr);
}

TEST(InviteBook, PeopleNameWhatTheyMean) {
  Book book;
  const InviteId one = book.Make(0xab, 1);
  book.Make(0xcd, 1);
  book.Apply(InviteMade{KeyNumber(0xab, 1), "", 1, 0}, kNow);
  EXPECT_EQ(*book.FindInvite("cd00", kNow), KeyNumber(0xcd).id());
  EXPECT_EQ(*book.FindInvite(one.ToHex(), kNow), one);
  EXPECT_THAT(book.FindInvite("ab00", kNow).status().message(), HasSubstr("more than one"));
  EXPECT_THAT(book.FindInvite("cd", kNow).status().message(), HasSubstr("no invite"));
  book.Apply(InviteMade{KeyNumber(0xef), "Bob", 1, 0}, kNow);
  EXPECT_EQ(*book.FindInvite("Bob", kNow), KeyNumber(0xef).id());
  EXPECT_THAT(book.FindInvite("", kNow).status().message(), HasSubstr("no invite"));
  book.Apply(InviteMade{KeyNumber(0x12), "Bob", 1, 0}, kNow);
  EXPECT_THAT(book.FindInvite("Bob", kNow).status().message(), HasSubstr("more than one"));
  // Of those that a name stands for, the one that is open.
  book.Apply(InviteMade{KeyNumber(0x34), "Eve", 1, kNow + 5}, kNow);
  book.Apply(InviteMade{KeyNumber(0x56), "Eve", 1, kNow + 9}, kNow);
  EXPECT_THAT(book.FindInvite("Eve", kNow).status().message(), HasSubstr("more than one"));
  EXPECT_EQ(*book.FindInvite("Eve", kNow + 5), KeyNumber(0x56).id());
  EXPECT_THAT(book.FindInvite("Eve", kNow + 9).status().message(), HasSubstr("more than one"));
  book.Join(1, one);
  book.Join(2, one);
  EXPECT_EQ(*book.FindMember("peer2"), PeerNumber(2));
  EXPECT_EQ(*book.FindMember("0100"), PeerNumber(1));
  EXPECT_EQ(*book.FindMember(PeerNumber(1).ToHex()), PeerNumber(1));
  EXPECT_THAT(book.FindMember("peer").status().message(), HasSubstr("shoal swarm members"));
  book.Apply(MemberCame{PeerNumber(2), "peer1"}, kNow + 5);
  EXPECT_THAT(book.FindMember("peer1").status().message(), HasSubstr("more than one"));
  EXPECT_EQ(book.members().at(PeerNumber(2)).seen_ms, kNow + 5);
}

}  // namespace
}  // namespace shoal::scheduler
