// Tickets and proofs for relays.

#include "net/relay/relay_ticket.h"

#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

constexpr char kOtherSecret[] = "ffeeddccbbaa99887766554433221100";
constexpr std::int64_t kNow = 1'800'000'000;

PeerId KeyOf(std::uint8_t first) {
  PeerId key;
  key.key[0] = first;
  return key;
}

TEST(RelayTicket, BytesAreAsDocumented) {
  EXPECT_EQ(MakeRelayTicket(kJoinSecret, KeyOf(1), kNow),
            "1800000000."
            "107fd84cb50b0f096814a6053042288e5632e73ec58ae313bc37a673be1cb9cf");
}

TEST(RelayTicket, OpensTheWayToOnePeerForAWhile) {
  const std::string ticket = MakeRelayTicket(kJoinSecret, KeyOf(1), kNow);
  const std::int64_t age = kRelayTicketAge.count();
  for (const std::int64_t off : {-age, std::int64_t{0}, age}) {
    EXPECT_TRUE(CheckRelayTicket(ticket, kJoinSecret, KeyOf(1), kNow + off).ok());
  }
  const auto refused = [&](const std::string& text, const std::string& secret, const PeerId& key,
                           std::int64_t now) {
    return CheckRelayTicket(text, secret, key, now).code() == StatusCode::kUnauthenticated;
  };
  EXPECT_TRUE(refused(ticket, kJoinSecret, KeyOf(1), kNow + age + 1));
  EXPECT_TRUE(refused(ticket, kJoinSecret, KeyOf(1), kNow - age - 1));
  EXPECT_TRUE(refused(ticket, kJoinSecret, KeyOf(2), kNow));
  EXPECT_TRUE(refused(ticket, kOtherSecret, KeyOf(1), kNow));
  std::string other = ticket;
  other.back() = other.back() == '0' ? '1' : '0';
  EXPECT_TRUE(refused(other, kJoinSecret, KeyOf(1), kNow));
  for (const std::string& text :
       {std::string(), std::string("."), ticket + "00", ticket.substr(0, ticket.size() - 2),
        "+" + ticket, ticket.substr(ticket.find('.')), std::string(5000, '9')}) {
    EXPECT_TRUE(refused(text, kJoinSecret, KeyOf(1), kNow)) << text;
  }
}

TEST(RelayProof, NeedsTheSecretAndTheKey) {
  const auto identity = MakeIdentity();
  RelayChallenge challenge;
  challenge.bytes[3] = 9;
  const auto proof = ProveToRelay(challenge, kJoinSecret, *identity);
  ASSERT_TRUE(proof.ok());
  EXPECT_TRUE(CheckRelayProof(*proof, challenge, kJoinSecret, identity->id).ok());
  EXPECT_FALSE(CheckRelayProof(*proof, challenge, kOtherSecret, identity->id).ok());
  EXPECT_FALSE(CheckRelayProof(*proof, RelayChallenge{}, kJoinSecret, identity->id).ok());
  EXPECT_FALSE(CheckRelayProof(*proof, challenge, kJoinSecret, MakeIdentity()->id).ok());
  // Somebody who knows the secret, but not the key.
  auto forged = *ProveToRelay(challenge, kJoinSecret, *MakeIdentity());
  forged.code = proof->code;
  EXPECT_FALSE(CheckRelayProof(forged, challenge, kJoinSecret, identity->id).ok());
}

}  // namespace
}  // namespace shoal::net
