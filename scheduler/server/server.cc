#include "scheduler/server/server.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <random>
#include <set>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "model/families/trained_part.h"
#include "net/base/host_port.h"
#include "net/identity/identity.h"
#include "net/identity/secret_file.h"
#include "scheduler/door/wall_clock.h"
#include "scheduler/server/artefact_ref.h"
#include "scheduler/server/history_place.h"
#include "scheduler/server/invite_addresses.h"
#include "scheduler/server/run_status.h"

namespace shoal::scheduler {
namespace {

std::uint64_t NewRandom() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

RunId NewRunId() {
  std::uint64_t value = 0;
  while (value == 0) value = NewRandom();
  return RunId{value};
}

// What a peer is told of our disk: that it failed, but not where its files are.
template <typename T>
Result<T> Outward(Result<T> result, const std::string& directory) {
  if (result.ok() || result.status().message().find(directory) == std::string::npos) return result;
  SHOAL_LOG(kWarning, "scheduler", "artefact.failed", {"error", result.status().ToString()});
  return Status(result.status().code(), "the scheduler's disk failed; its log says how");
}

// A port in use is no fault of run.toml: another code than that of its mistakes.
Status CannotListen(const char* key, const Status& status) {
  if (status.code() == StatusCode::kInvalidArgument) return status.WithContext(key);
  return Status(StatusCode::kUnavailable, std::string(key) + ": " + status.message());
}

// An event's time by the steady clock. One that the wall clock, set back since, puts into the
// future came just now; set forward, it lets what lasts end early.
TimePoint CameAt(const TimedEvent& timed, std::uint64_t wall_ms, TimePoint now) {
  constexpr std::uint64_t kLongAgoMs = std::uint64_t{365} * 24 * 3600 * 1000;
  const std::uint64_t at_ms = timed.at_ms.value_or(0);
  const std::uint64_t age_ms = at_ms > wall_ms ? 0 : std::min(wall_ms - at_ms, kLongAgoMs);
  return now - std::chrono::milliseconds(age_ms);
}

}  // namespace

SchedulerServer::SchedulerServer(const RunConfig& config, std::function<void(Status)> on_stop)
    : config_(config), on_stop_(std::move(on_stop)), started_(SystemClock().Now()) {}

Result<std::unique_ptr<SchedulerServer>> SchedulerServer::Open(const RunConfig& config,
                                                               std::function<void(Status)> on_stop,
                                                               History history,
                                                               const StoreAccess& access) {
  std::unique_ptr<SchedulerServer> server(new SchedulerServer(config, std::move(on_stop)));
  SHOAL_RETURN_IF_ERROR(server->Prepare(history));
  SHOAL_RETURN_IF_ERROR(server->Begin(access));
  return server;
}

Result<std::unique_ptr<SchedulerServer>> SchedulerServer::OpenLeader(
    const RunConfig& config, std::function<void(Status)> on_stop, const StoreAccess& access,
    Lead lead) {
  std::unique_ptr<SchedulerServer> server(new SchedulerServer(config, std::move(on_stop)));
  server->disk_ = std::make_unique<RunStore>(std::move(lead.log), std::move(lead.content));
  server->artefacts_ = std::move(lead.artefacts);
  server->leads_ = std::move(lead.holds);
  SHOAL_RETURN_IF_ERROR(server->Begin(access));
  return server;
}

Status SchedulerServer::Begin(const StoreAccess& access) {
  SHOAL_ASSIGN_OR_RETURN(Store store, OpenStore(access));
  SHOAL_RETURN_IF_ERROR(Listen());
  SHOAL_RETURN_IF_ERROR(WriteFiles());
  StartMirror(std::move(store));
  OnControl([&] { TickAgain(); });
  return Status::Ok();
}

SchedulerServer::~SchedulerServer() {
  if (control_) {
    OnControl([this] {
      stopping_ = true;
      http_.reset();
      local_.reset();
      peers_.reset();
      if (mirror_) mirror_->Stop();
      if (tracker_) tracker_->Stop([this] { return Traffic(); });
      if (activity_) activity_->Save();
    });
  }
  // An export that was asked for is looked up there, and made on its own thread.
  if (store_) {
    std::promise<void> looked_up;
    store_->Post("server.drain", [&looked_up] { looked_up.set_value(); });
    looked_up.get_future().wait();
  }
  export_.reset();
  // Each runs what was posted. From here on the control thread posts nothing to the store, but the
  // store may still answer the control thread.
  store_.reset();
  if (control_) OnControl([] {});  // what it answered still finds the control thread
  control_.reset();
  if (!listens_) return;
  std::error_code error;
  std::filesystem::remove(config_.directory + "/status.addr", error);
}

std::string SchedulerServer::invite() {
  std::string line;
  OnControl([&] { line = invite_; });
  return line;
}

bool SchedulerServer::finished() {
  bool finished = false;
  OnControl([&] { finished = state_->run_state() == RunState::kFinished; });
  return finished;
}

void SchedulerServer::OnControl(const std::function<void()>& task) {
  std::promise<void> done;
  control_->Post("server.call", [&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

Status SchedulerServer::Prepare(History history) {
  if (history == History::kForget) {
    // What the old run keeps of a model that is gone stays where a scheduler finds it.
    SHOAL_RETURN_IF_ERROR(ReadDeltaSize(config_).status());
    SHOAL_ASSIGN_OR_RETURN(const std::string aside, RunStore::SetAside(config_.directory));
    if (!aside.empty()) SHOAL_LOG(kWarning, "scheduler", "history.set_aside", {"folder", aside});
  }
  SHOAL_ASSIGN_OR_RETURN(const HistoryPlace place, ReadHistoryPlace(config_.directory));
  if (!place.etcd.empty()) {
    return FailedPrecondition("the history of the run in " + config_.directory +
                              " is in etcd, below " + place.prefix +
                              ": put [scheduler] etcd back into run.toml, or take another folder");
  }
  SHOAL_ASSIGN_OR_RETURN(disk_, RunStore::Open(config_.directory));
  SHOAL_ASSIGN_OR_RETURN(artefacts_, MakeRunArtefacts(&disk_->content(), &config_));
  return Status::Ok();
}

// Without its history the blobs of checkpoints have no names, and peers keep checkpoints of a run
// that nobody serves. So a run that begins anew here must be wanted.
Status SchedulerServer::CheckHistory(std::uint64_t events) const {
  if (events > 0) return Status::Ok();
  std::set<storage::ContentHash> fresh;
  for (const auto& [name, artefact] : artefacts_.initial) fresh.insert(FromProto(artefact).hash);
  std::size_t others = 0;
  for (const storage::ContentHash& hash : disk_->content().Hashes()) {
    others += fresh.contains(hash) ? 0 : 1;
  }
  if (others == 0) return Status::Ok();
  return FailedPrecondition(
      "the history of this run is missing: " + config_.directory + "/events is empty, but " +
      config_.directory + "/artefacts holds " + std::to_string(others) +
      " files that are not of the fresh model, such as those of checkpoints, which only the "
      "history names. Put `events` back from a copy; or start anew from the model's weights with "
      "--forget-history, which moves both to " +
      config_.directory + "/set-aside-1 (or the next free number)");
}

Status SchedulerServer::Replay() {
  std::uint64_t events = 0;
  const std::uint64_t wall_ms = UnixMilliseconds();
  const TimePoint now = SystemClock().Now();
  SHOAL_RETURN_IF_ERROR(disk_->log().Replay([&](std::uint64_t number, std::string_view event) {
    events = number;
    const auto timed = DecodeTimedEvent(event);
    const TimePoint at = timed.ok() ? CameAt(*timed, wall_ms, now) : now;
    const Status restored = state_->Restore(event, at);
    // Of what run.toml says, not of an event.
    if (restored.code() == StatusCode::kFailedPrecondition) return restored;
    if (!restored.ok()) return restored.WithContext("event " + std::to_string(number));
    if (timed.ok()) {
      door_->Apply(*timed);
      timeline_->Add(*timed);
    }
    return Status::Ok();
  }));
  config_ = state_->config();
  return CheckHistory(events);
}

// A file that a disk damaged, or somebody replaced, is found by its name.
Status SchedulerServer::NameChanged(Status refused) const {
  const Result<RunOrigin> origin = ReadOrigin(config_.directory);
  if (refused.code() != StatusCode::kFailedPrecondition || !origin.ok()) return refused;
  std::string changed;
  for (const auto& [name, artefact] : artefacts_.initial) {
    const auto kept = origin->artefacts.find(name);
    if (kept != origin->artefacts.end() && kept->second.hash() == artefact.hash()) continue;
    changed += (changed.empty() ? "" : ", ") +
               (name == "data" ? config_.data : name + " of " + config_.model);
  }
  if (changed.empty()) return refused;
  return Status(refused.code(), refused.message() + "; changed since: " + changed +
                                    "; the run also goes on without these files, from what its "
                                    "folder keeps, when they are moved away");
}

// Once the history agrees that model and data are those of the run.
void SchedulerServer::Keep() const {
  if (artefacts_.from_origin) return;
  const Status kept = KeepOrigin(config_.directory, OriginOf(artefacts_));
  if (kept.ok()) return;
  SHOAL_LOG(kWarning, "scheduler", "origin.not_kept", {"error", kept.message()});
}

// Verifies the files of the newest checkpoint before anybody can ask for them, or for the state of
// the run. Thread: main; store and control have nothing to do yet.
void SchedulerServer::FindLost() {
  disk_->SetRepair({[this](const storage::ContentHash& hash) {
                      return MakeArtefactAgain(config_, artefacts_, hash, &disk_->content());
                    },
                    [this](const std::string& hash) {
                      control_->Post("artefact.lost",
                                     [this, hash] { Feed(ArtefactsLost{{hash}}); });
                    },
                    [this](const std::string& hash) {
                      control_->Post("artefact.here", [this, hash] { Feed(ArtefactHere{hash}); });
                    },
                    [this](const std::string& hash, const Status& why) {
                      // Members read it: no paths.
                      const bool full = why.code() == StatusCode::kResourceExhausted;
                      const std::string reason = full ? "it is full" : "its log says why";
                      control_->Post("artefact.not_kept", [this, hash, reason] {
                        Feed(ArtefactNotKept{hash, reason});
                      });
                    }});
  std::vector<control::v1::ArtefactRef> current = {artefacts_.initial.at("data")};
  for (const auto& [name, artefact] : artefacts_.initial) {
    if (name.ends_with(model::kBaseSuffix)) current.push_back(artefact);
  }
  for (const auto& [name, artefact] : state_->CurrentWeights()) current.push_back(artefact);
  const std::vector<std::string> lost = disk_->FindLost(current);
  OnControl([&] { Feed(ArtefactsLost{lost}); });
}

Status SchedulerServer::Listen() {
  SHOAL_RETURN_IF_ERROR(OpenDoor());
  config_.run = NewRunId();
  config_.spot_check_seed = NewRandom();
  state_ = NewSwarmState(config_, artefacts_.initial);
  timeline_ = std::make_unique<RunTimeline>(config_.stages);
  if (Status replayed = Replay(); !replayed.ok()) return NameChanged(std::move(replayed));
  Keep();
  store_ = NewThreadExecutor("store");
  control_ = NewThreadExecutor("control");
  export_ = NewThreadExecutor("export");
  space_ = std::make_unique<storage::FreeSpace>(control_.get(), store_.get(), config_.directory);
  SHOAL_RETURN_IF_ERROR(OpenTracker());
  FindLost();
  // Before peers come, whom the history then tells of.
  net::HttpServerOptions http;
  http.listen = config_.status_listen;
  http.allow_remote = config_.status_allow_remote;
  auto opened = net::NewHttpServer(
      http, control_.get(), {[this](const net::PageRequest& request) { return Serve(request); }});
  if (!opened.ok()) return CannotListen("status_listen", opened.status());
  OnControl([&] { http_ = *std::move(opened); });
  SHOAL_RETURN_IF_ERROR(ListenForPeers());

  net::LocalHandlers local;
  local.on_status = [this](std::function<void(std::string)> reply) { reply(MakeStatusJson()); };
  local.on_command = [this](const std::string& name,
                            const std::map<std::string, std::string>& arguments,
                            std::function<void(Result<net::CommandResult>)> reply) {
    Command(name, arguments, std::move(reply));
  };
  SHOAL_ASSIGN_OR_RETURN(local_, net::NewLocalServer(config_.directory + "/scheduler.sock",
                                                     control_.get(), std::move(local)));
  return Status::Ok();
}

Status SchedulerServer::ListenForPeers() {
  net::ControlServerOptions options;
  options.listen = config_.listen;
  options.identity = identity_;
  options.admission = [this](const PeerId& key, std::string_view certificate_pem) {
    return door_->Check(key, certificate_pem, UnixMilliseconds());
  };
  SHOAL_ASSIGN_OR_RETURN(options.relays, StartOwnRelay());
  options.relays.insert(options.relays.end(), config_.relays.begin(), config_.relays.end());
  Status status;
  // On the control thread: no handler runs before peers_ is there.
  OnControl([&] {
    auto opened = net::NewControlServer(options, control_.get(), store_.get(), ControlHandlers());
    if (opened.ok()) {
      peers_ = *std::move(opened);
    } else {
      status = opened.status();
    }
  });
  if (!status.ok()) return CannotListen("listen", status);
  SHOAL_ASSIGN_OR_RETURN(to_here_.addresses,
                         InviteAddresses(config_.advertise, config_.listen, peers_->port()));
  std::vector<std::string>& addresses = to_here_.addresses;
  const std::size_t most = net::kInviteAddressesMax - options.relays.size();
  if (addresses.size() > most) addresses.resize(most);
  addresses.insert(addresses.end(), options.relays.begin(), options.relays.end());
  to_here_.scheduler = self_;
  to_here_.secret = secret_;
  const bool open = door_->Read([&](const InviteBook& book) {
    return book.Judge(PeerId{}, net::InviteKeyOf(secret_)->id(), 0) == Admittance::kOpen;
  });
  invite_ = open ? net::FormatInvite(to_here_) : "";
  return Status::Ok();
}

// The addresses of the relay that this program runs; none, if it runs none.
Result<std::vector<std::string>> SchedulerServer::StartOwnRelay() {
  if (config_.relay_listen.empty()) return std::vector<std::string>();
  net::RelayServerOptions options;
  options.listen = config_.relay_listen;
  SHOAL_ASSIGN_OR_RETURN(options.secret,
                         net::LoadOrCreateSecret(config_.directory + "/relay_secret",
                                                 "delete it, and send new invites to your peers"));
  auto relay = net::StartRelayServer(options);
  if (!relay.ok()) return CannotListen("relay_listen", relay.status());
  relay_ = *std::move(relay);
  SHOAL_ASSIGN_OR_RETURN(const std::vector<std::string> hosts,
                         InviteAddresses(config_.advertise, config_.relay_listen, relay_->port()));
  return OwnRelayAddresses(hosts, options.secret, relay_->port());
}

Status SchedulerServer::WriteFiles() {
  listens_ = true;
  SHOAL_RETURN_IF_ERROR(WriteInvite());
  return WriteFileAtomic(config_.directory + "/status.addr", http_->address() + "\n");
}

net::ControlServerHandlers SchedulerServer::ControlHandlers() {
  net::ControlServerHandlers handlers;
  handlers.on_connect = [this](net::ConnectionId id, const net::ControlCaller& caller) {
    SHOAL_ASSERT_ON(*control_);
    if (leads_ && caller.peer == self_) {
      standbys_.insert(id);
      return;
    }
    connections_[id] = caller.peer;
    came_by_[id] = caller.invite;
    const auto seen = net::ParseHostPort(caller.address);
    Feed(PeerConnected{id, caller.peer, seen.ok() ? seen->host : caller.address});
  };
  handlers.on_message = [this](net::ConnectionId id, control::v1::PeerMessage message) {
    if (!standbys_.contains(id)) OnMessage(id, std::move(message));
  };
  handlers.on_disconnect = [this](net::ConnectionId id, const Status& reason) {
    if (standbys_.erase(id) > 0) return;
    Forget(id);
    Feed(PeerDisconnected{id, reason.ok() ? "the connection was closed" : reason.message()});
  };
  handlers.may_fetch = [this](PeerId peer) {
    if (leads_ && peer == self_) return true;
    MutexLock lock(members_mutex_);
    return std::any_of(admitted_.begin(), admitted_.end(),
                       [&](const auto& entry) { return entry.second == peer; });
  };
  handlers.read_artefact = [this](const std::string& hash, std::uint64_t offset, std::size_t size) {
    return Outward(disk_->Read(hash, offset, size), config_.directory);
  };
  handlers.upload_offset = [this](PeerId, const std::string& hash, std::uint64_t size) {
    return Outward(disk_->UploadOffset(hash, size), config_.directory);
  };
  handlers.write_artefact = [this](PeerId, const std::string& hash, std::uint64_t size,
                                   std::uint64_t offset, const std::string& data) {
    return Outward(disk_->Write(hash, size, offset, data), config_.directory);
  };
  return handlers;
}

std::uint16_t SchedulerServer::port() const { return peers_->port(); }

const std::string& SchedulerServer::status_address() const { return http_->address(); }

storage::DeltaSize SchedulerServer::delta_size() const {
  return DeltaSizeOf(config_, artefacts_.model, artefacts_.data);
}

}  // namespace shoal::scheduler
