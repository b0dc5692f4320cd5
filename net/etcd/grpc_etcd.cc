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
};

Member MakeMember(const std::string& address) {
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
  member.channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  member.kv = pb::KV::NewStub(member.channel);
  member.lease = pb::Lease::NewStub(member.channel);
  return member;
}

void Fill(const EtcdRange& range, pb::RangeRequest* request) {
  request->set_key(range.from);
  request->set_range_end(range.end);
  request->set_limit(range.limit);
  request->set_revision(range.revision);
  request->set_sort_order(range.last_first ? pb::RangeRequest::DESCEND : pb::RangeRequest::ASCEND);
}

class GrpcEtcd final : public Etcd {
 public:
  explicit GrpcEtcd(std::vector<Member> members) : members_(std::move(members)) {}

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

  // Begins with the member that answered last, or behind the one that did not.
  Status Ask(const char* what, Duration timeout, const Call& call) {
    const TimePoint until = SystemClock().Now() + timeout;
    const std::size_t first = current_;
    for (std::size_t tries = 0;; ++tries) {
      Member& member = members_[(first + tries) % members_.size()];
      grpc::ClientContext context;
      const Duration left = until - SystemClock().Now();
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::system_clock::duration>(
                               std::min(left, kAttempt)));
      const Status status = FromGrpc(call(member, &context));
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

  std::vector<Member> members_;  // constant but for what gRPC does inside
  std::atomic<std::size_t> current_ = 0;
};

}  // namespace

Result<std::string> ParseEtcdAddress(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  const std::string_view rest = text.starts_with(kScheme) ? text.substr(kScheme.size()) : "";
  const auto address = ParseHostPort(rest);
  if (!address.ok() || address->port == 0) {
    return InvalidArgument("\"" + std::string(text) +
                           "\" is no address of etcd; write http://HOST:PORT");
  }
  return FormatHostPort(*address);
}

Result<std::unique_ptr<Etcd>> OpenEtcd(const std::vector<std::string>& addresses) {
  if (addresses.empty() || addresses.size() > kEtcdAddressesMax) {
    return InvalidArgument("1 to " + std::to_string(kEtcdAddressesMax) +
                           " addresses of etcd are right");
  }
  PrepareGrpc();
  std::vector<Member> members;
  for (const std::string& text : addresses) {
    SHOAL_ASSIGN_OR_RETURN(const std::string address, ParseEtcdAddress(text));
    members.push_back(MakeMember(address));
  }
  return std::unique_ptr<Etcd>(std::make_unique<GrpcEtcd>(std::move(members)));
}

}  // namespace shoal::net
