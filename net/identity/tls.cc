#include "net/identity/tls.h"

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "net/identity/join_ticket.h"

namespace shoal::net {
namespace {

namespace tls = ::grpc::experimental;

// The whole trust decision: gRPC's own chain and host name checks are off. Always answers at once;
// calling `callback` from within Verify would deadlock.
class KeyVerifier final : public tls::ExternalCertificateVerifier {
 public:
  explicit KeyVerifier(Admission admission) : admission_(std::move(admission)) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    const grpc::string_ref pem = request->peer_cert();
    const auto peer = PeerIdOfCertificate({pem.data(), pem.size()});
    Status status = peer.status();
    if (peer.ok()) status = admission_(*peer, {pem.data(), pem.size()});
    if (!status.ok()) {
      SHOAL_LOG(kDebug, "net", "tls.refused", {"error", status.message()});
      *sync_status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, status.message());
    }
    return true;
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}

 private:
  const Admission admission_;
};

std::vector<tls::IdentityKeyCertPair> OwnPair(const Identity& identity) {
  return {{identity.private_key_pem, identity.certificate_pem}};
}

Result<std::string> CertificateOf(const grpc::AuthContext* context) {
  if (context == nullptr) return Unauthenticated("the connection is not encrypted");
  const auto values = context->FindPropertyValues("x509_pem_cert");
  if (values.size() != 1) return Unauthenticated("the other end showed no certificate");
  return std::string(values[0].data(), values[0].size());
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> ServerTls(const Identity& identity, Admission admission) {
  tls::TlsServerCredentialsOptions options(
      std::make_shared<tls::StaticDataCertificateProvider>(OwnPair(identity)));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(
      tls::ExternalCertificateVerifier::Create<KeyVerifier>(std::move(admission)));
  return tls::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ClientTls(const Identity& identity,
                                                    const PeerId& expected,
                                                    std::shared_ptr<std::atomic<bool>> reached) {
  const Admission admission = [expected, reached = std::move(reached)](const PeerId& key,
                                                                       std::string_view) {
    if (key != expected) {
      return Unauthenticated(std::string(kOtherKey) + key.ToShort() + " instead of " +
                             expected.ToShort());
    }
    if (reached) *reached = true;
    return Status::Ok();
  };
  tls::TlsChannelCredentialsOptions options;
  // Nobody asks for the root, but without one gRPC wants those of the machine, which may have none.
  options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
      identity.certificate_pem, OwnPair(identity)));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      tls::ExternalCertificateVerifier::Create<KeyVerifier>(admission));
  return tls::TlsCredentials(options);
}

Result<PeerId> PeerOf(const grpc::AuthContext* context) {
  SHOAL_ASSIGN_OR_RETURN(const std::string pem, CertificateOf(context));
  return PeerIdOfCertificate(pem);
}

InviteId InviteOf(const grpc::AuthContext* context) {
  const Result<std::string> pem = CertificateOf(context);
  const auto ticket = pem.ok() ? ReadTicket(*pem) : std::nullopt;
  return ticket ? ticket->invite : InviteId{};
}

}  // namespace shoal::net
