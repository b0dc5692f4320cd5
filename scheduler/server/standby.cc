#include "scheduler/server/standby.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <variant>

#include "common/file.h"
#include "common/log.h"
#include "common/units.h"
#include "net/base/host_port.h"
#include "scheduler/election/etcd_event_log.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/server/artefact_ref.h"
#include "scheduler/server/invite_addresses.h"

namespace shoal::scheduler {
namespace {

constexpr const char* kJsonType = "application/json";
// Whoever asks for the status meanwhile waits as long.
constexpr Duration kNewsTimeout = std::chrono::milliseconds(400);
constexpr const char* kTextType = "text/plain; charset=utf-8";

}  // namespace

Standby::Standby(const RunConfig& config, Executor* executor, Parts parts)
    : config_(config),
      executor_(executor),
      parts_(std::move(parts)),
      unlimited_(std::make_shared<net::RateLimiter>(&SystemClock())),
      opened_(SystemClock().Now()) {}

Standby::~Standby() {
  SHOAL_ASSERT_ON(*executor_);
  DropClient();
  if (!http_) return;
  std::error_code error;
  std::filesystem::remove(config_.directory + "/status.addr", error);
}

Status Standby::Open() {
  SHOAL_ASSERT_ON(*executor_);
  net::LocalHandlers local;
  local.on_status = [this](const std::function<void(std::string)>& reply) {
    reply(StandbyJson(View()));
  };
  local.on_command = [this](const std::string& name, const std::map<std::string, std::string>&,
                            const std::function<void(Result<net::CommandResult>)>& reply) {
    if (name != "stop") {
      return reply(FailedPrecondition("this scheduler stands by; the leader is " + parts_.leader() +
                                      ": give the order there"));
    }
    reply(net::CommandResult{"this scheduler stops; the leader goes on", ""});
    parts_.on_stop();
  };
  SHOAL_ASSIGN_OR_RETURN(local_, net::NewLocalServer(config_.directory + "/scheduler.sock",
                                                     executor_, std::move(local)));
  net::HttpServerOptions http;
  http.listen = config_.status_listen;
  http.allow_remote = config_.status_allow_remote;
  auto opened = net::NewHttpServer(
      http, executor_, {[this](const net::PageRequest& request) { return Serve(request.path); }});
  if (!opened.ok()) {
    return Status(StatusCode::kUnavailable, "status_listen: " + opened.status().message());
  }
  http_ = *std::move(opened);
  return WriteFileAtomic(config_.directory + "/status.addr", http_->address() + "\n");
}

StandbyView Standby::View() const {
  SHOAL_ASSERT_ON(*executor_);
  const TimePoint now = SystemClock().Now();
  const auto seconds = [now](TimePoint since) {
    return std::chrono::duration<double>(now - since).count();
  };
  StandbyView view;
  view.run = config_.name;
  view.leader = parts_.leader();
  if (const auto seen = parts_.leader_seen()) view.leader_seen_s = seconds(*seen);
  view.events = next_event_ - 1;
  view.missing_files = missing_.size();
  view.uptime_s = seconds(opened_);
  return view;
}

std::string Standby::Page() const {
  const StandbyView view = View();
  std::string text = "run " + view.run + ", standby: the leader is " + view.leader;
  if (view.leader_seen_s) {
    text += ", seen " +
            FormatDuration(std::chrono::milliseconds(std::llround(1e3 * *view.leader_seen_s))) +
            " ago";
  }
  return text + "\n" + std::to_string(view.events) + " events of the history are here, " +
         std::to_string(view.missing_files) +
         " files of the newest checkpoint are missing\n"
         "see /api/v1/status (JSON) and /metrics (Prometheus)\n";
}

net::HttpResponse Standby::Serve(const std::string& path) const {
  SHOAL_ASSERT_ON(*executor_);
  if (path == "/api/v1/status") return {200, kJsonType, StandbyJson(View())};
  if (path == "/healthz" || path == "/readyz") return {200, kTextType, "ok\n"};
  if (path == "/metrics") {
    return {200, "text/plain; version=0.0.4; charset=utf-8", StandbyMetrics(View())};
  }
  if (path != "/") return {404, kTextType, "not found\n"};
  return {200, kTextType, Page()};
}

// Of what was read before an error nothing comes again.
Status Standby::ReadNews() {
  bool newer = false;
  Status read =
      ReadEtcdEventLog(parts_.etcd.get(), config_.etcd_prefix, next_event_, kNewsTimeout,
                       [&](std::uint64_t number, std::string_view bytes) {
                         SHOAL_ASSIGN_OR_RETURN(const StoredEvent event, DecodeEvent(bytes));
                         next_event_ = number + 1;
                         const auto* const made = std::get_if<CheckpointMade>(&event);
                         if (made == nullptr) return Status::Ok();
                         checkpoint_ = made->files;
                         newer = true;
                         return Status::Ok();
                       });
  if (!newer) return read;
  missing_.clear();
  pruned_ = false;
  for (const control::v1::ArtefactRef& file : checkpoint_) {
    if (!parts_.content->Has(FromProto(file).hash)) missing_.push_back(file);
  }
  return read;
}

void Standby::Look() {
  SHOAL_ASSERT_ON(*executor_);
  if (const Status status = ReadNews(); !status.ok()) {
    SHOAL_LOG(kWarning, "scheduler", "standby.history", {"error", status.message()});
  }
  if (!missing_.empty()) {
    if (!client_) return Dial();
    if (open_ && !fetching_) FetchNext();
    return;
  }
  DropClient();
  if (std::exchange(pruned_, true)) return;
  std::vector<storage::ContentHash> kept;
  for (const auto& [name, file] : parts_.initial) kept.push_back(FromProto(file).hash);
  for (const control::v1::ArtefactRef& file : checkpoint_) kept.push_back(FromProto(file).hash);
  const Status status = parts_.content->KeepOnly(kept);
  if (!status.ok()) {
    SHOAL_LOG(kWarning, "scheduler", "artefacts.prune", {"error", status.message()});
  }
  SHOAL_LOG(kInfo, "scheduler", "standby.checkpoint", {"files", checkpoint_.size()});
}

// Whoever answers under one of these addresses leads: the others do not listen.
void Standby::Dial() {
  const auto listen = net::ParseHostPort(config_.listen);
  const auto addresses = InviteAddresses(config_.advertise, config_.listen,
                                         listen.ok() ? listen->port : std::uint16_t{0});
  if (!addresses.ok() || addresses->empty()) return;
  net::ControlClientOptions options;
  options.addresses = *addresses;
  options.scheduler = parts_.identity->id;
  options.identity = parts_.identity;
  options.join_secret = parts_.join_secret;
  live_ = std::make_shared<bool>(true);
  net::ControlClientHandlers handlers;
  handlers.on_open = [this, live = live_] {
    if (!*live) return;
    open_ = true;
    FetchNext();
  };
  handlers.on_message = [](const control::v1::SchedulerMessage&) {};
  handlers.on_closed = [this, live = live_](const Status& status) {
    if (!*live) return;
    SHOAL_LOG(kDebug, "scheduler", "standby.closed", {"reason", status.message()});
    // The client must not die inside its own callback.
    executor_->Post("standby.drop", [this, live] {
      if (*live) DropClient();
    });
  };
  client_ = net::NewControlClient(options, executor_, unlimited_, unlimited_, std::move(handlers));
}

void Standby::DropClient() {
  if (live_) *live_ = false;
  open_ = fetching_ = false;
  client_.reset();
}

void Standby::FetchNext() {
  if (missing_.empty()) return;
  fetching_ = true;
  const control::v1::ArtefactRef file = missing_.front();
  const storage::ContentHash hash = FromProto(file).hash;
  const auto at = std::make_shared<std::uint64_t>(parts_.content->PartialSize(hash));
  client_->Fetch(
      file.hash(), *at,
      [this, live = live_, file, hash, at](const std::string& chunk) -> Status {
        if (!*live) return Cancelled("not wanted any more");
        if (chunk.size() > file.size() || *at > file.size() - chunk.size()) {
          return DataLoss(file.name() + " is longer than the history says");
        }
        SHOAL_RETURN_IF_ERROR(
            parts_.content->AppendPartial(hash, *at, std::as_bytes(std::span(chunk))));
        *at += chunk.size();
        return Status::Ok();
      },
      [this, live = live_, file](Status status) {
        if (*live) Fetched(file, std::move(status));
      });
}

void Standby::Fetched(const control::v1::ArtefactRef& file, Status status) {
  fetching_ = false;
  if (status.ok()) status = parts_.content->FinishPartial(FromProto(file).hash, file.size());
  if (!status.ok()) {
    // Also when the leader has a newer checkpoint by now, of which the next look tells.
    SHOAL_LOG(kInfo, "scheduler", "standby.not_fetched", {"file", file.name()},
              {"error", status.message()});
    return;
  }
  if (!missing_.empty() && missing_.front().hash() == file.hash()) missing_.pop_front();
  if (!missing_.empty()) FetchNext();
}

}  // namespace shoal::scheduler
