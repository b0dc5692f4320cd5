#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "common/mutex.h"
#include "net/base/host_port.h"
#include "net/etcd/etcd.h"
#include "net/etcd/etcd_answers.h"
#include "net/identity/grpc_setup.h"
#include "proto/etcd.grpc.pb.h"

namespace shoal::net {
namespace {

namespace pb = etcdserverpb;

// A member that is not heard within this is left for the next.
constexpr Duration kAttempt = std::chrono::milliseconds(700);
constexpr std::size_t kTokenBytesMax = 4096;
constexpr Duration kRoundPause = std::chrono::milliseconds(50);
constexpr int kAnswerBytesMax =
    static_cast<int>(kEtcdPageEntriesMax * (kEtcdValueBytesMax + (1 << 16)));
// Of a member that came back; gRPC's own choice grows to two minutes.
constexpr int kReconnectFirstMs = 100, kReconnectMaxMs = 500;

struct Member {
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<pb::KV::Stub> kv;
  std::unique_ptr<pb::Lease::Stub> lease;
  std::unique_ptr<pb::Auth::Stub> auth;
};

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(bool tls, const EtcdAccess& access) {
  if (!tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({access.ca_pem, access.key_pem, access.cert_pem});
}

Member MakeMember(const std::string& address,
                  const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectFirstMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  arguments.SetMaxReceiveMessageSize(kAnswerBytesMax);
  arguments.SetServiceConfigJSON("{}");
  Member member;
  member.address = address;
  member.channel = grpc::CreateCustomChannel(address, credentials, arguments);
  member.kv = pb::KV::NewStub(member.channel);
  member.lease = pb::Lease::NewStub(member.channel);
  member.auth = pb::Auth::NewStub(member.channel);
  return member;
}

void Fill(const EtcdRange& range, pb::RangeRequest* request) {
  request->set_key(range.from);
  request->set_range_end(range.end);
  request->set_limit(range.limit);
  request->set_revision(range.revision);
  request->set_sort_order(range.last_first ? pb::RangeRequest::DESCEND : pb::RangeRequest::ASCEND);
}

// etcd did nothing, as the token is too old, or of an etcd that was started again.
bool RefusesToken(const Status& status) {
  return status.code() == StatusCode::kUnauthenticated ||
         status.message().find("revision of auth store is old") != std::string::npos;
}

class GrpcEtcd final : public Etcd {
 public:
  GrpcEtcd(std::vector<Member> members, EtcdAccess access)
      : access_(std::move(access)), members_(std::move(members)) {}

  Result<EtcdPage> Read(const EtcdRange& range, Duration timeout) override {
    SHOAL_CHECK(range.limit > 0 && range.limit <= kEtcdPageEntriesMax);
    pb::RangeRequest request;
    Fill(range, &request);
    pb::RangeResponse answer;
    SHOAL_RETURN_IF_ERROR(Ask("read", timeout, [&](Member& member, grpc::ClientContext* context) {
      return member.kv->Range(context, request, &answer);
    }));
    return ReadEtcdPage(answer, range);
  }

  Result<EtcdOutcome> Commit(const EtcdCommit& commit, Duration timeout) override {
    pb::TxnRequest request;
    for (const EtcdCommit::Condition& condition : commit.conditions) {
      pb::Compare* compare = request.add_compare();
      compare->set_result(pb::Compare::EQUAL);
      compare->set_target(pb::Compare::CREATE);
      compare->set_key(condition.key);
      compare->set_create_revision(condition.create_revision);
    }
    pb::PutRequest* put = request.add_success()->mutable_request_put();
    put->set_key(commit.key);
    put->set_value(commit.value);
    put->set_lease(commit.lease);
    for (const std::string& key : commit.otherwise) {
      request.add_failure()->mutable_request_range()->set_key(key);
    }
    pb::TxnResponse answer;
    SHOAL_RETURN_IF_ERROR(Ask("write", timeout, [&](Member& member, grpc::ClientContext* context) {
      return member.kv->Txn(context, request, &answer);
    }));
    return ReadEtcdOutcome(answer, commit);
  }

  Result<EtcdLease> Grant(Duration ttl, Duration timeout) override {
    pb::LeaseGrantRequest request;
    request.set_ttl(std::chrono::ceil<std::chrono::seconds>(ttl).count());
    pb::LeaseGrantResponse answer;
    SHOAL_RETURN_IF_ERROR(Ask("lease", timeout, [&](Member& member, grpc::ClientContext* context) {
      return member.lease->LeaseGrant(context, request, &answer);
    }));
    if (answer.id() == 0) return DataLoss("etcd gave a lease without a number");
    SHOAL_ASSIGN_OR_RETURN(const Duration granted, ReadEtcdTtl(answer.ttl()));
    return EtcdLease{answer.id(), granted};
  }

  // A stream of one question: the next may go to another member.
  Result<Duration> KeepAlive(std::int64_t lease, Duration timeout) override {
    pb::LeaseKeepAliveRequest request;
    request.set_id(lease);
    pb::LeaseKeepAliveResponse answer;
    SHOAL_RETURN_IF_ERROR(Ask("renew", timeout, [&](Member& member, grpc::ClientContext* context) {
      const auto stream = member.lease->LeaseKeepAlive(context);
      const bool heard = stream->Write(request) && stream->Read(&answer);
      stream->WritesDone();
      if (heard) context->TryCancel();
      const grpc::Status ended = stream->Finish();
      return heard ? grpc::Status::OK : ended;
    }));
    if (answer.id() != lease) return DataLoss("etcd renewed another lease");
    return ReadEtcdTtl(answer.ttl());
  }

  Status Revoke(std::int64_t lease, Duration timeout) override {
    pb::LeaseRevokeRequest request;
    request.set_id(lease);
    return Ask("revoke", timeout, [&](Member& member, grpc::ClientContext* context) {
      pb::LeaseRevokeResponse answer;
      return member.lease->LeaseRevoke(context, request, &answer);
    });
  }

 private:
  using Call = std::function<grpc::Status(Member& member, grpc::ClientContext* context)>;

  static void Limit(TimePoint until, grpc::ClientContext* context) {
    const Duration left = until - SystemClock().Now();
    context->set_deadline(
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(std::min(left, kAttempt)));
  }

  // The token of the last login, which every member takes.
  Result<std::string> Token(Member& member, TimePoint until) {
    {
      MutexLock lock(mutex_);
      if (!token_.empty()) return token_;
    }
    pb::AuthenticateRequest request;
    request.set_name(access_.user);
    request.set_password(access_.password);
    pb::AuthenticateResponse answer;
    grpc::ClientContext context;
    Limit(until, &context);
    const Status status = FromGrpc(member.auth->Authenticate(&context, request, &answer));
    if (status.code() == StatusCode::kInvalidArgument) return PermissionDenied(status.message());
    if (!status.ok()) return status.WithContext("log in as " + access_.user);
    if (answer.token().empty() || answer.token().size() > kTokenBytesMax) {
      return DataLoss("etcd gave a token of " + std::to_string(answer.token().size()) + " bytes");
    }
    MutexLock lock(mutex_);
    return token_ = answer.token();
  }

  // A newer token, which another thread has got meanwhile, stays.
  void Forget(const std::string& token) {
    MutexLock lock(mutex_);
    if (token_ == token) token_.clear();
  }

  Status AskOne(Member& member, TimePoint until, const Call& call) {
    if (access_.user.empty()) {
      grpc::ClientContext context;
      Limit(until, &context);
      return FromGrpc(call(member, &context));
    }
    Status status;
    for (const bool again : {false, true}) {
      SHOAL_ASSIGN_OR_RETURN(const std::string token, Token(member, until));
      grpc::ClientContext context;
      Limit(until, &context);
      context.AddMetadata("token", token);
      status = FromGrpc(call(member, &context));
      if (!RefusesToken(status)) return status;
      Forget(token);
      if (again) break;
    }
    return status;
  }

  // Begins with the member that answered last, or behind the one that did not.
  Status Ask(const char* what, Duration timeout, const Call& call) {
    const TimePoint until = SystemClock().Now() + timeout;
    const std::size_t first = current_;
    for (std::size_t tries = 0;; ++tries) {
      Member& member = members_[(first + tries) % members_.size()];
      const Status status = AskOne(member, until, call);
      const bool answered = status.code() != StatusCode::kUnavailable &&
                            status.code() != StatusCode::kDeadlineExceeded;
      current_ = (first + tries + (answered ? 0 : 1)) % members_.size();
      if (answered) return status.WithContext(std::string("etcd, ") + what);
      const Duration pause = (tries + 1) % members_.size() == 0 ? kRoundPause : Duration::zero();
      if (SystemClock().Now() + pause >= until) {
        return status.WithContext(std::string("etcd, ") + what + ", " + member.address);
      }
      std::this_thread::sleep_for(pause);
    }
  }

  const EtcdAccess access_;
  std::vector<Member> members_;  // constant but for what gRPC does inside
  std::atomic<std::size_t> current_ = 0;
  Mutex mutex_;
  std::string token_ SHOAL_GUARDED_BY(mutex_);  // empty: log in
};

bool IsThisMachine(std::string_view host) {
  const bool number = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || (number && host.starts_with("127."));
}

}  // namespace

Result<EtcdAddress> ParseEtcdAddress(std::string_view text) {
  constexpr std::string_view kPlain = "http://", kTls = "https://";
  EtcdAddress parsed;
  parsed.tls = text.starts_with(kTls);
  const std::string_view scheme = parsed.tls ? kTls : kPlain;
  const auto address = ParseHostPort(text.starts_with(scheme) ? text.substr(scheme.size()) : "");
  if (!address.ok() || address->port == 0) {
    return InvalidArgument("\"" + std::string(text) +
                           "\" is no address of etcd; write https://HOST:PORT or "
                           "http://HOST:PORT");
  }
  parsed.host_port = FormatHostPort(*address);
  parsed.loopback = IsThisMachine(address->host);
  return parsed;
}

Result<std::unique_ptr<Etcd>> OpenEtcd(const std::vector<std::string>& addresses,
                                       const EtcdAccess& access) {
  if (addresses.empty() || addresses.size() > kEtcdAddressesMax) {
    return InvalidArgument("1 to " + std::to_string(kEtcdAddressesMax) +
                           " addresses of etcd are right");
  }
  PrepareGrpc();
  std::vector<Member> members;
  for (const std::string& text : addresses) {
    SHOAL_ASSIGN_OR_RETURN(const EtcdAddress address, ParseEtcdAddress(text));
    if (address.tls == access.ca_pem.empty()) {
      return InvalidArgument(address.tls
                                 ? text + " needs the certificate of etcd's authority"
                                 : "a certificate of etcd's authority needs https://, not " + text);
    }
    if (!access.user.empty() && !address.tls && !address.loopback) {
      return InvalidArgument("whoever is on the way to " + text +
                             " could read the password: write https://");
    }
    members.push_back(MakeMember(address.host_port, CredentialsOf(address.tls, access)));
  }
  return std::unique_ptr<Etcd>(std::make_unique<GrpcEtcd>(std::move(members), access));
}

}  // namespace shoal::net
