// Bytes between a relay and its peers: golden vectors, cut and foreign bytes.

#include "net/relay/relay_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "net/relay/relay_address.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

template <std::size_t kSize, typename Byte>
void Count(std::array<Byte, kSize>* bytes, unsigned char from) {
  std::iota(bytes->begin(), bytes->end(), from);
}

std::string Hex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex.push_back(kDigits[(static_cast<unsigned char>(c) >> 4) & 15]);
    hex.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return hex;
}

// Of each kind one, with the bytes that docs/WIRE.md gives it.
std::vector<std::pair<RelayMessage, std::string>> Golden() {
  RelayRegister reg;
  Count(&reg.key.key, 0);
  RelayChallenge challenge;
  Count(&challenge.bytes, 0x40);
  RelayProof proof;
  Count(&proof.code, 0x80);
  Count(&proof.signature, 0);
  RelayIncoming incoming{{}, "1.2.3.4:5"};
  Count(&incoming.session, 0xf0);
  RelayJoin join;
  Count(&join.session, 0xf0);
  RelayPunch punch;
  Count(&punch.other.key, 0);
  RelayPunching punching{{}, true, {}};
  Count(&punching.session, 0xf0);
  Count(&punching.other.key, 0);
  RelayPunchJoin punch_join;
  Count(&punch_join.session, 0xf0);
  const std::string from0 = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
  const std::string from40 = "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f";
  const std::string from80 = "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f";
  const std::string from20 = "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f";
  const std::string fromf0 = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";
  return {
      {reg, "012000" + from0},
      {challenge, "022000" + from40},
      {proof, "036000" + from80 + from0 + from20},
      {RelayRegistered{"1.2.3.4:5"}, "040900312e322e332e343a35"},
      {incoming, "051900" + fromf0 + "312e322e332e343a35"},
      {join, "061000" + fromf0},
      {RelayJoined{}, "070000"},
      {RelayRefused{StatusCode::kNotFound, "no"}, "080300056e6f"},
      {RelayPing{}, "090000"},
      {RelayPong{}, "0a0000"},
      {RelayDialBack{8782}, "0b02004e22"},
      {RelayDialled{true}, "0c010001"},
      {punch, "0d2000" + from0},
      {punching, "0e3100" + fromf0 + "01" + from0},
      {punch_join, "0f1000" + fromf0},
      {RelayPunchTarget{"1.2.3.4:5"}, "100900312e322e332e343a35"},
  };
}

TEST(RelayMessage, BytesAreAsDocumented) {
  EXPECT_EQ(kRelayPreface, "shoal-relay/2\n");
  EXPECT_EQ(kRelayPrefaceWithoutPunches, "shoal-relay/1\n");
  for (const auto& [message, hex] : Golden()) EXPECT_EQ(Hex(EncodeRelayMessage(message)), hex);
}

TEST(RelayMessage, IsTakenWholeOrNotYet) {
  for (const auto& [message, hex] : Golden()) {
    const std::string bytes = EncodeRelayMessage(message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto taken = TakeRelayMessage(std::string_view(bytes).substr(0, size));
      ASSERT_TRUE(taken.ok());
      EXPECT_FALSE(*taken) << hex << " after " << size;
    }
    const auto taken = TakeRelayMessage(bytes + "more");
    ASSERT_TRUE(taken.ok() && *taken);
    EXPECT_EQ((*taken)->bytes, bytes.size());
    EXPECT_EQ(EncodeRelayMessage((*taken)->message), bytes);
  }
}

TEST(RelayMessage, ForeignBytesAreRefused) {
  const std::string join = EncodeRelayMessage(RelayJoin{});
  std::string longer = join;
  longer[1] = 17;
  longer += 'x';
  std::string shorter = join.substr(0, join.size() - 1);
  shorter[1] = 15;
  for (const std::string& bytes :
       {std::string("\x11\x00\x00", 3), std::string("\x00\x00\x00", 3),
        std::string("\x07\x01\x00x", 4), std::string("\x04\xff\xff", 3), longer, shorter}) {
    EXPECT_EQ(TakeRelayMessage(bytes).status().code(), StatusCode::kDataLoss) << Hex(bytes);
  }
}

TEST(RelayMessage, TextsOfOthersAreCutAndClean) {
  const std::string bytes = EncodeRelayMessage(RelayRegistered{std::string(5000, 'x')});
  EXPECT_EQ(bytes.size(), kRelayHeaderBytes + kRelayTextMax);
  const auto taken = TakeRelayMessage(std::string("\x04\x02\x00\x1b[", 5));
  ASSERT_TRUE(taken.ok() && *taken);
  EXPECT_THAT(std::get<RelayRegistered>((*taken)->message).seen_address,
              testing::Not(HasSubstr("\x1b")));
}

TEST(RelayCall, IsWhatGrpcWrites) {
  PeerId key;
  Count(&key.key, 7);
  const std::string head = "CONNECT " + RelayCallTarget(key) +
                           " HTTP/1.0\r\nHost: " + RelayCallTarget(key) +
                           "\r\nConnection: close\r\nshoal-ticket:  12.ab \r\n\r\n";
  const auto call = ParseRelayCall(head);
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->target, key);
  EXPECT_EQ(call->ticket, "12.ab");
}

TEST(RelayCall, NothingElseIsOne) {
  PeerId key;
  for (const std::string& head :
       {std::string("GET / HTTP/1.0\r\n\r\n"),
        std::string("CONNECT example.org:80 HTTP/1.0\r\n\r\n"),
        "CONNECT " + RelayCallTarget(key).substr(1) + " HTTP/1.0\r\n\r\n", std::string(),
        "CONNECT " + RelayCallTarget(key) + " HTTP/1.0\r\n" + std::string(3000, 'x'),
        "CONNECT " + RelayCallTarget(key) + " HTTP/1.0\r\n" +
            RelayCallHeader(std::string(kRelayTicketBytesMax + 1, 'x')) + "\r\n\r\n"}) {
    EXPECT_EQ(ParseRelayCall(head).status().code(), StatusCode::kInvalidArgument) << head;
  }
}

TEST(RelayAddress, IsParsedAndNeverShown) {
  const std::string secret = "00112233445566778899aabbccddeeff";
  const auto relay = ParseRelayAddress(secret + "@relay.example.org:8783");
  ASSERT_TRUE(relay.ok());
  EXPECT_EQ(relay->secret, secret);
  EXPECT_EQ(relay->host_port, "relay.example.org:8783");
  EXPECT_EQ(FormatRelayAddress(*relay), secret + "@relay.example.org:8783");
  EXPECT_EQ(ShownAddress(FormatRelayAddress(*relay)), "relay relay.example.org:8783");
  EXPECT_EQ(ShownAddress("10.0.0.1:80"), "10.0.0.1:80");
  const std::string punch = PunchAddress(FormatRelayAddress(*relay));
  EXPECT_TRUE(IsPunchAddress(punch));
  EXPECT_FALSE(IsPunchAddress(FormatRelayAddress(*relay)));
  EXPECT_EQ(*RelayOfPunch(punch), *relay);
  EXPECT_FALSE(RelayOfPunch(FormatRelayAddress(*relay)).ok());
  EXPECT_FALSE(ParseRelayAddress(punch).ok()) << "no peer is known by it";
  EXPECT_EQ(ShownAddress(punch), "punched with relay relay.example.org:8783");
  for (const std::string& bad :
       {secret + "@relay.example.org", secret + "@:80", secret.substr(1) + "@relay.example.org:1",
        std::string("@a:1"), secret + "@a\x1b:1", secret + "@b@a:1", std::string("a:1"),
        secret + "@a:0", secret + "@a:" + std::string(27, '0') + "65535"}) {
    const Status status = ParseRelayAddress(bad).status();
    EXPECT_FALSE(status.ok()) << bad;
    EXPECT_THAT(status.message(), testing::Not(HasSubstr(secret.substr(1))));
  }
}

TEST(RelayAddress, RelaysAmongOthersAreFound) {
  const std::string relay = "00112233445566778899aabbccddeeff@[2001:db8::1]:8783";
  const auto found = RelaysAmong({"10.0.0.1:80", relay, "bad@host:1"});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].host_port, "[2001:db8::1]:8783");
}

}  // namespace
}  // namespace shoal::net
