#include "scheduler/server/replicated_server.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <span>
#include <system_error>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "net/base/host_port.h"
#include "scheduler/door/join_secret.h"
#include "scheduler/election/etcd_event_log.h"
#include "scheduler/election/etcd_keys.h"
#include "scheduler/server/etcd_access.h"
#include "scheduler/server/history_place.h"

namespace shoal::scheduler {
namespace {

constexpr Duration kLook = std::chrono::seconds(1);
constexpr int kFailedLeadsMax = 3;
constexpr Duration kJoinTimeout = std::chrono::seconds(10);

// For people: the machine, and the port that tells schedulers of one machine apart.
std::string NameOf(const RunConfig& config) {
  char host[256] = "";
  (void)::gethostname(host, sizeof(host) - 1);
  const auto listen = net::ParseHostPort(config.listen);
  return std::string(host) + ", port " + std::to_string(listen.ok() ? listen->port : 0);
}

}  // namespace

ReplicatedServer::ReplicatedServer(const RunConfig& config, const StoreAccess& access,
                                   Handlers handlers)
    : given_(config),
      access_(access),
      handlers_(std::move(handlers)),
      config_(config),
      thread_(NewThreadExecutor("replicated")) {}

Result<std::unique_ptr<ReplicatedServer>> ReplicatedServer::Open(const RunConfig& config,
                                                                 const StoreAccess& access,
                                                                 Handlers handlers) {
  std::unique_ptr<ReplicatedServer> server(
      new ReplicatedServer(config, access, std::move(handlers)));
  SHOAL_RETURN_IF_ERROR(server->Join());
  std::promise<Status> done;
  server->thread_->Post("replicated.begin", [&] {
    Status status = server->StandBy();
    if (status.ok()) server->LookAgain();
    done.set_value(std::move(status));
  });
  SHOAL_RETURN_IF_ERROR(done.get_future().get());
  return server;
}

ReplicatedServer::~ReplicatedServer() {
  std::promise<void> done;
  thread_->Post("replicated.end", [&] {
    ended_ = true;
    server_.reset();
    standby_.reset();
    candidate_.reset();
    done.set_value();
  });
  done.get_future().wait();
}

// All schedulers of a run have one key and one secret: peers take them for the same.
Status ReplicatedServer::Join() {
  SHOAL_RETURN_IF_ERROR(MakeOwnFolder(given_.directory));
  std::error_code error;
  if (std::filesystem::exists(given_.directory + "/events", error)) {
    return FailedPrecondition(given_.directory +
                              "/events is the history of a run with one scheduler; a run whose "
                              "history is in etcd begins there: take another folder");
  }
  SHOAL_ASSIGN_OR_RETURN(identity_, net::LoadOrCreateIdentity(given_.directory));
  SHOAL_ASSIGN_OR_RETURN(join_secret_, LoadOrCreateJoinSecret(given_.directory));
  SHOAL_ASSIGN_OR_RETURN(const net::EtcdAccess access, ReadEtcdAccess(given_.etcd_login));
  SHOAL_ASSIGN_OR_RETURN(etcd_, net::OpenEtcd(given_.etcd, access));
  const std::string both = identity_->id.ToHex() + join_secret_;
  net::EtcdCommit commit;
  commit.key = SwarmKey(given_.etcd_prefix);
  commit.value = storage::HashOf(std::as_bytes(std::span(both))).ToHex();
  commit.conditions = {{commit.key, 0}};
  commit.otherwise = {commit.key};
  SHOAL_ASSIGN_OR_RETURN(const net::EtcdOutcome outcome, etcd_->Commit(commit, kJoinTimeout));
  if (!outcome.done && (!outcome.found[0] || outcome.found[0]->value != commit.value)) {
    return FailedPrecondition(
        "the other schedulers of this run have another key or secret: copy identity.key and "
        "join_secret from the folder of one that runs into " +
        given_.directory + "; or give another run another [scheduler] prefix");
  }
  return WriteHistoryPlace(given_.directory, {given_.etcd, given_.etcd_prefix, given_.etcd_login});
}

Status ReplicatedServer::StandBy() {
  SHOAL_ASSERT_ON(*thread_);
  server_.reset();
  standby_.reset();
  candidate_.reset();
  config_ = given_;
  SHOAL_ASSIGN_OR_RETURN(content_, storage::OpenFileContentStore(config_.directory + "/artefacts"));
  SHOAL_ASSIGN_OR_RETURN(artefacts_, MakeRunArtefacts(content_.get(), &config_));
  Standby::Parts parts;
  parts.etcd = etcd_;
  parts.identity = identity_;
  parts.join_secret = join_secret_;
  parts.initial = artefacts_.initial;
  parts.content = content_.get();
  parts.leader = [this] { return candidate_ ? candidate_->leader() : "not known yet"; };
  parts.leader_seen = [this] {
    return candidate_ ? candidate_->leader_seen() : std::optional<TimePoint>();
  };
  parts.on_stop = [this] { thread_->Post("replicated.order", [this] { End(Status::Ok()); }); };
  standby_ = std::make_unique<Standby>(config_, thread_.get(), std::move(parts));
  SHOAL_RETURN_IF_ERROR(standby_->Open());
  candidate_ = std::make_unique<Candidate>(etcd_, config_.etcd_prefix, NameOf(config_), [this] {
    thread_->Post("replicated.changed", [this] { Changed(); });
  });
  return Status::Ok();
}

void ReplicatedServer::Changed() {
  SHOAL_ASSERT_ON(*thread_);
  if (ended_) return;
  if (!server_ && candidate_->Leads()) {
    const Status status = TakeOver();
    if (status.ok()) return;
    SHOAL_LOG(kError, "scheduler", "lead.failed", {"error", status.message()});
    // Others may do better; but what fails again and again is this machine's fault.
    if (++failed_leads_ >= kFailedLeadsMax) return End(status);
  } else if (!candidate_->lost()) {
    return;
  }
  // A message of the candidate that is gone by then does no harm: the new one is asked.
  const Status status = StandBy();
  if (!status.ok()) End(status);
}

Status ReplicatedServer::TakeOver() {
  const TimePoint began = SystemClock().Now();
  standby_.reset();
  Lead lead;
  lead.holds = [candidate = candidate_.get()] { return candidate->Leads(); };
  SHOAL_ASSIGN_OR_RETURN(
      lead.log, OpenEtcdEventLog(etcd_, config_.etcd_prefix, {candidate_->term(), lead.holds}));
  lead.content = std::move(content_);
  lead.artefacts = artefacts_;
  auto opened = SchedulerServer::OpenLeader(
      config_,
      [this](const Status& status) {
        thread_->Post("replicated.stopped", [this, status] { Stopped(status); });
      },
      access_, std::move(lead));
  if (!opened.ok()) return opened.status();
  server_ = *std::move(opened);
  failed_leads_ = 0;
  SHOAL_LOG(kInfo, "scheduler", "lead.begun", {"ms", Milliseconds(SystemClock().Now() - began)});
  handlers_.on_lead(*server_);
  return Status::Ok();
}

void ReplicatedServer::Stopped(const Status& status) {
  SHOAL_ASSERT_ON(*thread_);
  if (ended_ || !server_) return;
  // Aborted: it does not lead any more, or was not sure of it for a moment.
  if (status.code() != StatusCode::kAborted) return End(status);
  SHOAL_LOG(kError, "scheduler", "lead.lost", {"reason", status.message()});
  const Status again = StandBy();
  if (!again.ok()) End(again);
}

void ReplicatedServer::LookAgain() {
  SHOAL_ASSERT_ON(*thread_);
  if (ended_) return;
  if (standby_) standby_->Look();
  thread_->PostAfter("replicated.look", kLook, [this] { LookAgain(); });
}

void ReplicatedServer::End(const Status& status) {
  if (std::exchange(ended_, true)) return;
  handlers_.on_stop(status);
}

}  // namespace shoal::scheduler
