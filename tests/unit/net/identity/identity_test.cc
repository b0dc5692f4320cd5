#include "net/identity/identity.h"

#include <gmock/gmock.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sodium.h>
#include <sys/stat.h>

#include <fstream>
#include <random>

#include "common/file.h"
#include "net/identity/certificate.h"
#include "net/identity/join_ticket.h"
#include "net/identity/secret_file.h"
#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

// Made once with the openssl tool: RSA key, and Ed25519 with dates in the past.
constexpr char kExpired[] = R"(-----BEGIN CERTIFICATE-----
MIHHMHugAwIBAgIBATAFBgMrZXAwDjEMMAoGA1UEAwwDb2xkMB4XDTI2MTEwMTE5
NTYwNVoXDTI2MTExMTE5NTYwNVowDjEMMAoGA1UEAwwDb2xkMCowBQYDK2VwAyEA
lTXPLUIVsOrxyV1/qMc5QOJLnjR0qcIZmnMUF1LvZrswBQYDK2VwA0EAdqfDXN0n
cRG//+KdmyQeoHn9ehyKNzEiBhqw5jzteNmTg78Q0oKqY1w7A9ZFv7ClYhTWw0LA
NaPgrDcnv9trCw==
-----END CERTIFICATE-----
)";
constexpr char kRsa[] = R"(-----BEGIN CERTIFICATE-----
MIIC/zCCAeegAwIBAgIUbAVa4QZkLoMYjiGTKZlgnB8Iih8wDQYJKoZIhvcNAQEL
BQAwDjEMMAoGA1UEAwwDcnNhMCAXDTI2MTEyMTE5NTYwNFoYDzIwODEwODI0MTk1
NjA0WjAOMQwwCgYDVQQDDANyc2EwggEiMA0GCSqGSIb3DQEBAQUAA4IBDwAwggEK
AoIBAQCNVTTSDf9uCg8UfbLNbDi/1Pnt+jvwuYYI8ArsRj2XkF4JoTLLnt4YawJU
CZtAIPLRVYKIryRJXCzyB7L3ZvVgPSGggVA3kWoK9Hk6qlxnsl9PDRdpxlgZcsRK
notdWSNogs/IBpAyA0hO1ukMMaDzLdpOcEWlNbjvNh05BFx31AE5zmZ59+cAgJ25
6dlZ/XQoJtP18jCxuwW84evXRthBrSq+VAdHta3gQpzB9MTp/adKkmNZFgIdlQt5
9K0RYhdfkm1sXstPNy4n5T+531L9TcC/hYrqfWeIejoipFBFvsyERkv8ntLkQQHo
sOAlWuppmEvoLmOx+J/zbz2VXEWBAgMBAAGjUzBRMB0GA1UdDgQWBBQpQ3EtfNmc
jJahtoQOSCc13SSiuzAfBgNVHSMEGDAWgBQpQ3EtfNmcjJahtoQOSCc13SSiuzAP
BgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3DQEBCwUAA4IBAQA+83wCxuC4NnSGquIf
Il3dLxAS5cN/yWLLVge53zbrd+IlR/x/h5o9UfRPu31ou/k8U4sRLL8VV6Y00UYb
74ptetl3jmv54ACrk+S4NPmQt8gNgTSQvGb45y2/9kxSi9gIv0qDxbuVQI0MyqI9
Wdzan224Ug3bWb91uTKdwAVSYsxWEA9R6HATVwLUbNJCFALuo14aeEZ4IjWc+pVS
XpkkwJOdkrzgh1iPo2x/7u7Z32wp8aCU+eaOEgenuhsddxlqbrOSfGeyorrUXvXB
De9TSZqv56HL6aN8P/5win1ivfY1BwZ4SnvyNr//fAR9vry6EMGB5IT4qdN20MEx
f+Y7
-----END CERTIFICATE-----
)";

TEST(Identity, IsMadeOnceAndKept) {
  const TemporaryFolder folder;
  const auto first = LoadOrCreateIdentity(folder.path() + "/state").value();
  struct stat info {};
  ASSERT_EQ(::stat((folder.path() + "/state/identity.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat((folder.path() + "/state").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  const auto second = LoadOrCreateIdentity(folder.path() + "/state").value();
  EXPECT_EQ(first->id, second->id);
  EXPECT_EQ(first->private_key_pem, second->private_key_pem);
  EXPECT_NE(MakeIdentity()->id, first->id);
}

TEST(Identity, CertificateTellsTheKey) {
  const auto identity = MakeIdentity();
  EXPECT_EQ(PeerIdOfCertificate(identity->certificate_pem).value(), identity->id);
}

TEST(Identity, TicketsAreAsDocumented) {
  PeerId scheduler, key;
  for (std::size_t i = 0; i < key.key.size(); ++i) {
    scheduler.key[i] = static_cast<std::uint8_t>(i);
    key.key[i] = static_cast<std::uint8_t>(0x80 + i);
  }
  EXPECT_EQ(InviteKeyOf(kJoinSecret)->id().ToHex(), "5b36108da8f4a640");
  const JoinTicketBytes ticket = MakeJoinTicket(kJoinSecret, scheduler, key).value();
  char hex[2 * sizeof(ticket) + 1];
  sodium_bin2hex(hex, sizeof(hex), ticket.data(), ticket.size());
  EXPECT_STREQ(hex,
               "025b36108da8f4a6406fc4cbc470ad5670433174fe462a49a457c527518f711b5cda3aa6e34f453b"
               "3257a85934bd2350046e43d21dffc7fd24b7255881043f90d597b307cca274cb06");
  EXPECT_FALSE(MakeJoinTicket("00", scheduler, key).ok());
  EXPECT_FALSE(MakeJoinTicket(std::string(32, 'x'), scheduler, key).ok());
  EXPECT_FALSE(MakeJoinTicket(std::string(34, '0'), scheduler, key).ok());
  EXPECT_FALSE(InviteKeyOf("00").ok());
}

TEST(Identity, ATicketIsOfOneKeyOneSchedulerAndOneInvite) {
  const auto scheduler = MakeIdentity(), peer = MakeIdentity(), other = MakeIdentity();
  const InviteKey invite = *InviteKeyOf(kJoinSecret);
  const InviteKey another = *InviteKeyOf(std::string(32, '0'));
  const auto shown = WithTicket(*peer, kJoinSecret, scheduler->id).value();
  EXPECT_EQ(PeerIdOfCertificate(shown->certificate_pem).value(), peer->id);
  const std::string& pem = shown->certificate_pem;
  EXPECT_TRUE(CheckTicket(pem, peer->id, invite, scheduler->id).ok());
  EXPECT_FALSE(CheckTicket(pem, other->id, invite, scheduler->id).ok());
  EXPECT_FALSE(CheckTicket(pem, peer->id, invite, other->id).ok());
  EXPECT_FALSE(CheckTicket(pem, peer->id, another, scheduler->id).ok());
  EXPECT_FALSE(CheckTicket(peer->certificate_pem, peer->id, invite, scheduler->id).ok());
  EXPECT_FALSE(CheckTicket("", peer->id, invite, scheduler->id).ok());
  const auto ticket = ReadTicket(pem);
  ASSERT_TRUE(ticket);
  EXPECT_EQ(ticket->invite, invite.id());
  EXPECT_TRUE(TicketHolds(*ticket, &invite, peer->id, scheduler->id));
  EXPECT_FALSE(TicketHolds(*ticket, nullptr, peer->id, scheduler->id)) << "an unknown invite";
  JoinTicket claims = *ticket;
  claims.invite = another.id();
  EXPECT_FALSE(TicketHolds(claims, &another, peer->id, scheduler->id));
  EXPECT_FALSE(TicketHolds(claims, &invite, peer->id, scheduler->id));
  // The stand-in for unknown invites is of a secret that anybody may know.
  const auto known = WithTicket(*peer, std::string(32, '0'), scheduler->id).value();
  EXPECT_FALSE(TicketHolds(*ReadTicket(known->certificate_pem), nullptr, peer->id, scheduler->id));
}

TEST(Identity, WiderModeIsRefused) {
  const TemporaryFolder folder;
  ASSERT_TRUE(LoadOrCreateIdentity(folder.path()).ok());
  const std::string path = folder.path() + "/identity.key";
  for (const mode_t mode : {0640, 0604, 0660, 0644}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto refused = LoadOrCreateIdentity(folder.path());
    EXPECT_EQ(refused.status().code(), StatusCode::kPermissionDenied);
    EXPECT_THAT(refused.status().message(), HasSubstr("chmod 600 " + path));
  }
}

TEST(Identity, DamagedKeyIsRefusedAndKept) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/identity.key";
  ASSERT_TRUE(WriteFileAtomic(path, "nonsense", 0600).ok());
  const auto refused = LoadOrCreateIdentity(folder.path());
  EXPECT_EQ(refused.status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ReadFile(path, 100).value(), "nonsense");
}

TEST(Identity, ForeignCertificatesAreRefused) {
  EXPECT_THAT(PeerIdOfCertificate(kRsa).status().message(), HasSubstr("not an Ed25519 key"));
  EXPECT_THAT(PeerIdOfCertificate(kExpired).status().message(), HasSubstr("has expired"));
  EXPECT_FALSE(PeerIdOfCertificate("").ok());
  EXPECT_FALSE(PeerIdOfCertificate(std::string(1 << 20, 'x')).ok());
}

TEST(Identity, ACertificateThatIsNotValidYetIsRefused) {
  const auto identity = MakeIdentity();
  const std::string& pem = identity->private_key_pem;
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free_all);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  const CertificatePtr certificate = ParseCertificate(identity->certificate_pem).value();
  ASSERT_NE(X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 3600), nullptr);
  ASSERT_GT(X509_sign(certificate.get(), key.get(), nullptr), 0);
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> out(BIO_new(BIO_s_mem()), &BIO_free_all);
  ASSERT_EQ(PEM_write_bio_X509(out.get(), certificate.get()), 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  EXPECT_THAT(PeerIdOfCertificate({text, static_cast<std::size_t>(size)}).status().message(),
              HasSubstr("not valid yet"));
}

TEST(Identity, TamperedCertificateIsRefused) {
  // One bit of the base64 text at a time: nothing that still reads may pass with another key.
  const auto identity = MakeIdentity();
  int refused = 0;
  for (std::size_t i = 30; i + 30 < identity->certificate_pem.size(); i += 3) {
    std::string pem = identity->certificate_pem;
    pem[i] = pem[i] == 'A' ? 'B' : 'A';
    if (pem == identity->certificate_pem) continue;
    const auto id = PeerIdOfCertificate(pem);
    if (!id.ok()) ++refused;
    EXPECT_FALSE(id.ok() && *id != identity->id);
  }
  EXPECT_GT(refused, 50);
}

Invite SomeInvite() {
  Invite invite;
  invite.addresses = {"203.0.113.7:8781", "[2001:db8::1]:8781", "scheduler.example:9000"};
  for (std::size_t i = 0; i < invite.scheduler.key.size(); ++i) {
    invite.scheduler.key[i] = static_cast<std::uint8_t>(i * 5);
  }
  invite.secret = "00112233445566778899aabbccddeeff";
  return invite;
}

TEST(InviteText, RoundTrip) {
  const Invite invite = SomeInvite();
  const std::string text = FormatInvite(invite);
  // A terminal, a mail or a chat breaks lines.
  const auto parsed = ParseInvite("  " + text.substr(0, 9) + "\r\n " + text.substr(9, 3) + " " +
                                  text.substr(12) + "\n")
                          .value();
  EXPECT_EQ(parsed.addresses, invite.addresses);
  EXPECT_EQ(parsed.scheduler, invite.scheduler);
  EXPECT_EQ(parsed.secret, invite.secret);
}

TEST(InviteText, GoldenVector) {
  EXPECT_EQ(
      FormatInvite(SomeInvite()),
      "shoal1_AAUKDxQZHiMoLTI3PEFGS1BVWl9kaW5zeH2Ch4yRlpsAESIzRFVmd4iZqrvM3e7_AxAAMjAzLjAuMTEzLjc6"
      "ODc4MRIAWzIwMDE6ZGI4OjoxXTo4NzgxFgBzY2hlZHVsZXIuZXhhbXBsZTo5MDAwHPFjJA");
}

TEST(InviteText, EveryTypingErrorIsToldFromAForeignText) {
  const std::string text = FormatInvite(SomeInvite());
  for (std::size_t i = 7; i < text.size(); ++i) {
    std::string wrong = text;
    wrong[i] = wrong[i] == 'x' ? 'y' : 'x';
    const auto parsed = ParseInvite(wrong);
    ASSERT_FALSE(parsed.ok()) << i;
    EXPECT_THAT(parsed.status().message(), HasSubstr("typing error")) << i;
  }
  for (std::size_t size = 7; size < text.size(); ++size) {
    EXPECT_THAT(ParseInvite(text.substr(0, size)).status().message(), HasSubstr("typing error"));
  }
  EXPECT_THAT(ParseInvite("tskey-abc").status().message(), HasSubstr("starts with shoal1_"));
  EXPECT_THAT(ParseInvite("shoal2_AAAA").status().message(), HasSubstr("another version"));
  EXPECT_THAT(ParseInvite(" \n").status().message(), HasSubstr("empty"));
  EXPECT_FALSE(ParseInvite("shoal1_" + std::string(100000, 'A')).ok());
}

TEST(InviteText, RandomBytesNeverCrash) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text(random() % 200, '\0');
    for (char& c : text) c = static_cast<char>(random());
    EXPECT_FALSE(ParseInvite("shoal1_" + text).ok());
    EXPECT_FALSE(ParseInvite(text).ok());
  }
}

TEST(Invite, AnAddressMayNameARelayAndItsSecret) {
  Invite invite;
  invite.addresses = {"10.0.0.1:8781", std::string(32, 'a') + "@relay.example.org:8790"};
  invite.secret = kJoinSecret;
  const auto read = ParseInvite(FormatInvite(invite));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->addresses, invite.addresses);
}

TEST(JoinSecret, IsRandomHex) {
  const std::string a = NewJoinSecret();
  EXPECT_EQ(a.size(), 32u);
  EXPECT_EQ(a.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(a, NewJoinSecret());
}

TEST(JoinSecret, IsKeptWhereItsUserAloneCanReadIt) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/secret";
  const std::string secret = LoadOrCreateSecret(path, "").value();
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(LoadOrCreateSecret(path, "").value(), secret);
}

// A damaged file with one ended the scheduler when it wrote its invite.
TEST(JoinSecret, HasOneForm) {
  EXPECT_TRUE(IsJoinSecret(NewJoinSecret()));
  for (const char* text :
       {"", "0011", "00112233445566778899aabbccddeefg", "00112233445566778899aabbccddeeff00",
        "00112233445566778899AABBCCDDEEFF"}) {
    EXPECT_FALSE(IsJoinSecret(text)) << text;
  }
}

}  // namespace
}  // namespace shoal::net
