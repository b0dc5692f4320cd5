// Membership certificates, and what peers make of those that others show.

#include "net/identity/membership.h"

#include <gmock/gmock.h>
#include <sodium.h>

#include "net/identity/certificate.h"
#include "net/identity/membership_check.h"
#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

constexpr RunId kRun{0x1122334455667788};
constexpr std::uint64_t kNow = 1'700'000'000;
constexpr Duration kHour = std::chrono::hours(1);

// Made once with the openssl tool: the key of 32 bytes 07.
constexpr char kKeyPem[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH\n"
    "-----END PRIVATE KEY-----\n";

std::string Hex(std::string_view bytes) {
  std::string hex(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(hex.data(), hex.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                 bytes.size());
  hex.pop_back();
  return hex;
}

Identity FixedScheduler() {
  Identity scheduler;
  scheduler.private_key_pem = kKeyPem;
  scheduler.certificate_pem = SelfSignedCertificate(kKeyPem, nullptr).value();
  scheduler.id = PeerIdOfCertificate(scheduler.certificate_pem).value();
  return scheduler;
}

PeerId SomePeer(std::uint8_t number) {
  PeerId peer;
  for (std::size_t i = 0; i < peer.key.size(); ++i) {
    peer.key[i] = static_cast<std::uint8_t>(number + i);
  }
  return peer;
}

TEST(Membership, IsAsDocumented) {
  const Identity scheduler = FixedScheduler();
  const Membership membership = NewMembership(kRun, SomePeer(0x80), kNow, 9);
  const std::string bytes = SignMembership(membership, scheduler).value();
  EXPECT_EQ(Hex(bytes),
            "018877665544332211808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e"
            "9ff0e253650000000070345565000000000900000000000000ff291a17596a0c2166e2da55b1570f"
            "feaca02e4877954399c5e85072e3e841534e3910786df7155c097a94c42f2baa3b296e03fd188e16"
            "4f32e23b779dcded0e");
  EXPECT_EQ(ReadMembership(bytes, scheduler.id).value(), membership);
  EXPECT_EQ(membership.not_after_s - membership.not_before_s, kMembershipSecondsMax);
}

TEST(Membership, AnyOtherByteIsRefused) {
  const Identity scheduler = FixedScheduler();
  const std::string bytes =
      SignMembership(NewMembership(kRun, SomePeer(1), kNow, 1), scheduler).value();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string other = bytes;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_FALSE(ReadMembership(other, scheduler.id).ok()) << i;
    EXPECT_FALSE(ReadMembership(bytes.substr(0, i), scheduler.id).ok()) << i;
  }
  EXPECT_FALSE(ReadMembership(bytes + "x", scheduler.id).ok());
  EXPECT_FALSE(ReadMembership(bytes, SomePeer(1)).ok()) << "another scheduler";
  Membership longer = NewMembership(kRun, SomePeer(1), kNow, 1);
  ++longer.not_after_s;
  EXPECT_THAT(
      ReadMembership(SignMembership(longer, scheduler).value(), scheduler.id).status().message(),
      HasSubstr("longer than a day"));
  longer.not_after_s = longer.not_before_s - 1;
  EXPECT_FALSE(ReadMembership(SignMembership(longer, scheduler).value(), scheduler.id).ok());
}

class MembershipCheckTest : public testing::Test {
 protected:
  std::string Given(std::uint8_t peer, std::uint64_t now_s, RunId run = kRun) {
    return SignMembership(NewMembership(run, SomePeer(peer), now_s, 1), scheduler_).value();
  }
  Status Renew(std::uint64_t now_s) {
    return check_.Renew(Given(1, now_s), scheduler_.id, SomePeer(1), at_);
  }
  Result<TimePoint> Until(const std::string& bytes, std::uint8_t peer = 2) {
    return check_.Until(bytes, SomePeer(peer), kRun, at_);
  }

  const Identity scheduler_ = FixedScheduler();
  MembershipCheck check_;
  TimePoint at_ = TimePoint{} + kHour;
};

TEST_F(MembershipCheckTest, LastsForTheDayThatTheSchedulersClockHas) {
  EXPECT_THAT(Until(Given(2, kNow)).status().message(), HasSubstr("no member of a run yet"));
  ASSERT_TRUE(Renew(kNow).ok());
  EXPECT_EQ(check_.version(), 1u);
  const std::string other = Given(2, kNow);
  EXPECT_EQ(Until(other).value(), at_ + 23 * kHour);
  at_ += 22 * kHour;
  EXPECT_EQ(Until(other).value(), at_ + kHour);
  at_ += kHour;
  EXPECT_THAT(Until(other).status().message(), HasSubstr("has ended"));
}

TEST_F(MembershipCheckTest, WhatIsNotOfThisPeerAndRunIsRefused) {
  ASSERT_TRUE(Renew(kNow).ok());
  EXPECT_THAT(Until("").status().message(), HasSubstr("shows no membership"));
  EXPECT_THAT(Until(Given(3, kNow)).status().message(), HasSubstr("another peer's"));
  EXPECT_THAT(Until(Given(2, kNow, RunId{5})).status().message(), HasSubstr("another run"));
  const auto stranger = MakeIdentity();
  const std::string self_made =
      SignMembership(NewMembership(kRun, SomePeer(2), kNow, 1), *stranger).value();
  EXPECT_THAT(Until(self_made).status().message(), HasSubstr("not signed by this run's"));
}

TEST_F(MembershipCheckTest, ItsOwnMustHoldAndTheOneBeforeStays) {
  ASSERT_TRUE(Renew(kNow).ok());
  const std::string own = check_.own();
  EXPECT_FALSE(check_.Renew(Given(2, kNow), scheduler_.id, SomePeer(1), at_).ok());
  EXPECT_FALSE(check_.Renew("", scheduler_.id, SomePeer(1), at_).ok());
  EXPECT_FALSE(check_.Renew(own, SomePeer(9), SomePeer(1), at_).ok());
  EXPECT_EQ(check_.own(), own);
  EXPECT_EQ(check_.version(), 1u);
}

TEST_F(MembershipCheckTest, AClockThatTheSchedulerSetsHoldsNobodyUp) {
  ASSERT_TRUE(Renew(kNow).ok());
  const std::string before = Given(2, kNow);
  // Forward by a year: who got a new one first is taken, and moves no clock: the others wait for
  // theirs.
  const std::string later = Given(3, kNow + 365 * 86400);
  EXPECT_EQ(Until(later, 3).value(), at_ + 23 * kHour);
  EXPECT_TRUE(Until(before).ok());
  ASSERT_TRUE(Renew(kNow + 365 * 86400).ok());
  EXPECT_FALSE(Until(before).ok());
  // And back.
  ASSERT_TRUE(Renew(kNow + 5).ok());
  EXPECT_TRUE(Until(before).ok());
}

}  // namespace
}  // namespace shoal::net
