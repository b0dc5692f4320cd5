// What the server does on its control thread.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/file.h"
#include "common/log.h"
#include "dataset/tokenizer.h"
#include "scheduler/door/wall_clock.h"
#include "scheduler/server/run_export.h"
#include "scheduler/server/run_report.h"
#include "scheduler/server/run_status.h"
#include "scheduler/server/server.h"

namespace shoal::scheduler {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(250);
constexpr const char* kJsonType = "application/json";
constexpr std::uint64_t kTokenizerConfigMax = 16 << 20;
constexpr std::size_t kEventsShown = 50;  // on the page, the newest

Result<net::CommandResult> RunIs(const RunView& view) {
  std::string message = "the run is " + std::string(RunStateName(view.state));
  if (!view.reason.empty()) message += ": " + view.reason;
  return net::CommandResult{message, ""};
}

// "" where there is no tokenizer for texts. A model that was trained on conversations is not one to
// continue texts.
std::string TryHint(const std::string& model, const std::string& exported, bool adapter) {
  const std::string& base = adapter ? model : exported;
  if (!dataset::HasTokenizer(base)) return "";
  const auto config = ReadFile(base + "/tokenizer_config.json", kTokenizerConfigMax);
  std::error_code error;
  const bool chats = std::filesystem::exists(base + "/chat_template.jinja", error) ||
                     (config.ok() && config->find("\"chat_template\"") != std::string::npos);
  return std::string("; try it with: ") + (chats ? "shoal chat" : "shoal try") + " --model " +
         base + (adapter ? " --adapter " + exported : "") + (chats ? "" : " TEXT");
}

}  // namespace

std::string ExportCommand(const RunConfig& config) {
  return "shoal swarm export --dir " + config.directory + " --out ./tuned";
}

void SchedulerServer::Feed(const Event& event) {
  SHOAL_ASSERT_ON(*control_);
  if (stopping_) return;
  if (leads_ && !leads_()) {
    stopping_ = true;
    return on_stop_(Aborted("another scheduler may lead now"));
  }
  const RunState before = state_->run_state();
  const std::vector<Action> actions = state_->Handle(event, SystemClock().Now());
  // Before a plan goes out, which lets its peers fetch at once.
  const auto* const said = std::get_if<PeerMessageReceived>(&event);
  if (said != nullptr && said->message.has_hello()) Admit(said->connection);
  for (const Action& action : actions) Carry(action);
  if (state_->run_state() == before) return;
  const RunView view = state_->View(SystemClock().Now());
  SHOAL_LOG(kInfo, "scheduler", "run.state", {"state", RunStateName(view.state)},
            {"step", view.step}, {"generation", view.generation}, {"reason", view.reason});
  if (view.state != RunState::kFinished) return;
  SHOAL_LOG(kInfo, "scheduler", "run.finished", {"next", ExportCommand(config_)});
}

void SchedulerServer::Admit(net::ConnectionId connection) {
  SHOAL_ASSERT_ON(*control_);
  const auto found = connections_.find(connection);
  if (found == connections_.end() || !state_->IsMember(found->second)) return;
  Joined(connection);
  MutexLock lock(members_mutex_);
  admitted_.insert(*found);
}

void SchedulerServer::Forget(net::ConnectionId connection) {
  SHOAL_ASSERT_ON(*control_);
  connections_.erase(connection);
  came_by_.erase(connection);
  office_->Forget(connection);
  MutexLock lock(members_mutex_);
  admitted_.erase(connection);
}

// Of several schedulers, the one that leads acts on an event once all events are stored.
void SchedulerServer::Carry(const Action& action) {
  SHOAL_ASSERT_ON(*control_);
  if (const auto* persist = std::get_if<Persist>(&action)) {
    Append(persist->event);
  } else if (const auto* step = std::get_if<StepApplied>(&action)) {
    Track(*step);
  } else if (leads_ && stored_ < appended_) {
    held_.emplace_back(appended_, action);
  } else {
    CarryStored(action);
  }
}

void SchedulerServer::Stored() {
  SHOAL_ASSERT_ON(*control_);
  ++stored_;
  while (!stopping_ && !held_.empty() && held_.front().first <= stored_ && leads_()) {
    const Action action = std::move(held_.front().second);
    held_.pop_front();
    CarryStored(action);
  }
}

void SchedulerServer::CarryStored(const Action& action) {
  SHOAL_ASSERT_ON(*control_);
  if (const auto* send = std::get_if<SendTo>(&action)) {
    control::v1::SchedulerMessage message = send->message;
    const auto to = connections_.find(send->connection);
    if (message.has_welcome() && to != connections_.end()) {
      message.mutable_welcome()->set_membership(
          office_->Issue(send->connection, config_.run, to->second, UnixMilliseconds()));
    }
    peers_->Send(send->connection, std::move(message));
  } else if (const auto* drop = std::get_if<Disconnect>(&action)) {
    SHOAL_LOG(kDebug, "scheduler", "peer.disconnect", {"connection", drop->connection},
              {"reason", drop->reason.message()});
    Forget(drop->connection);
    peers_->Disconnect(drop->connection, drop->reason);
  } else if (const auto* complete = std::get_if<CheckpointComplete>(&action)) {
    SHOAL_LOG(kInfo, "scheduler", "checkpoint.complete", {"step", complete->step});
    Prune();
    Mirror();
  } else if (std::holds_alternative<ArtefactsUnneeded>(action)) {
    Prune();
  } else if (const auto* want = std::get_if<WantArtefacts>(&action)) {
    Want(want->files);
  }
}

void SchedulerServer::OnMessage(net::ConnectionId connection, control::v1::PeerMessage message) {
  SHOAL_ASSERT_ON(*control_);
  if (stopping_) return;
  const auto from = connections_.find(connection);
  if (message.has_hello() && from != connections_.end()) {
    const Status may = door_->MayEnter(from->second, came_by_[connection], UnixMilliseconds());
    if (!may.ok()) return Refuse(connection, may);
  }
  Feed(PeerMessageReceived{connection, std::move(message)});
}

void SchedulerServer::Append(std::string event) {
  SHOAL_ASSERT_ON(*control_);
  // When it happened, not when the disk has it.
  event = StampEvent(std::move(event), UnixMilliseconds());
  if (const auto timed = DecodeTimedEvent(event); timed.ok()) {
    door_->Apply(*timed);
    timeline_->Add(*timed);
    if (tracker_) tracker_->Happened(*timed);
  }
  ++appended_;
  store_->Post("event.append", [this, event = std::move(event)] {
    const auto number = disk_->log().Append(event);
    if (number.ok() && leads_) control_->Post("event.stored", [this] { Stored(); });
    if (number.ok()) return;
    control_->Post("event.failed", [this, status = number.status()] {
      // A history with a hole could not be replayed: better to stop at its end.
      if (!std::exchange(stopping_, true)) {
        on_stop_(status.WithContext("the run's history could not be written"));
      }
    });
  });
}

void SchedulerServer::Want(std::vector<control::v1::ArtefactRef> files) {
  SHOAL_ASSERT_ON(*control_);
  store_->Post("artefacts.want", [this, files = std::move(files)] { disk_->Want(files); });
}

void SchedulerServer::Prune() {
  SHOAL_ASSERT_ON(*control_);
  store_->Post("artefacts.prune", [this, kept = state_->NeededArtefacts()] {
    if (Status status = disk_->Prune(kept); !status.ok()) {
      SHOAL_LOG(kWarning, "scheduler", "artefacts.prune", {"error", status.message()});
    }
  });
}

void SchedulerServer::TickAgain() {
  SHOAL_ASSERT_ON(*control_);
  if (stopping_) return;
  Feed(Tick{});
  Renew();
  TickTrackers();
  space_->Look();
  control_->PostAfter("server.tick", kTick, [this] { TickAgain(); });
}

ServerView SchedulerServer::MakeServerView() const {
  SHOAL_ASSERT_ON(*control_);
  ServerView view;
  if (peers_) view.control = peers_->stats();
  if (http_) view.status_address = http_->address();
  view.peer_port = peers_ ? peers_->port() : std::uint16_t{0};
  view.content_bytes = disk_->bytes();
  view.disk_free_bytes = space_->bytes();
  if (mirror_) view.mirror = mirror_->view();
  if (tracker_) view.logs = tracker_->view();
  view.uptime_s = std::chrono::duration<double>(SystemClock().Now() - started_).count();
  return view;
}

std::string SchedulerServer::MakeStatusJson() const {
  SHOAL_ASSERT_ON(*control_);
  return StatusJson(config_, state_->View(SystemClock().Now()), MakeServerView());
}

net::HttpResponse SchedulerServer::Serve(const net::PageRequest& request) const {
  SHOAL_ASSERT_ON(*control_);
  const std::string& path = request.path;
  if (path == "/api/v1/status") return {200, kJsonType, MakeStatusJson()};
  if (path == "/metrics") {
    return {200, "text/plain; version=0.0.4; charset=utf-8",
            MetricsText(config_, state_->View(SystemClock().Now()), MakeServerView())};
  }
  if (path == "/events") return {200, kJsonType, ReportTimeline(*timeline_, kEventsShown)};
  if (path == "/history") {
    const Result<std::string> history = activity_->Json(request.query);
    if (history.ok()) return {200, kJsonType, *history};
    return {400, "text/plain; charset=utf-8", history.status().message() + "\n"};
  }
  if (path == "/healthz") return {200, "text/plain; charset=utf-8", "ok\n"};
  if (path == "/readyz") {
    const RunView view = state_->View(SystemClock().Now());
    if (view.state != RunState::kFailed) return {200, "text/plain; charset=utf-8", "ok\n"};
    return {503, "text/plain; charset=utf-8", view.reason + "\n"};
  }
  return net::StatusPageOrNotFound(path);
}

void SchedulerServer::Command(const std::string& name,
                              const std::map<std::string, std::string>& arguments,
                              std::function<void(Result<net::CommandResult>)> reply) {
  SHOAL_ASSERT_ON(*control_);
  if (name == "start") return Order(AdminCommand::Kind::kStart, std::move(reply));
  if (name == "pause") return Order(AdminCommand::Kind::kPause, std::move(reply));
  if (name == "resume") return Order(AdminCommand::Kind::kResume, std::move(reply));
  if (name == "export") return Export(arguments, std::move(reply));
  if (CommandAtDoor(name, arguments, reply)) return;
  if (name == "stop") {
    const bool finished = state_->run_state() == RunState::kFinished;
    reply(net::CommandResult{finished ? "the scheduler stops; the run is finished, and its model "
                                        "can be exported when it is started again"
                                      : "the scheduler stops; the run goes on when it is started "
                                        "again",
                             ""});
    on_stop_(Status::Ok());
    return;
  }
  reply(InvalidArgument(
      "unknown command '" + name +
      "'; the scheduler knows start, pause, resume, export, invite, invites, revoke, "
      "members, kick, release and stop"));
}

void SchedulerServer::Order(AdminCommand::Kind kind,
                            std::function<void(Result<net::CommandResult>)> reply) {
  SHOAL_ASSERT_ON(*control_);
  const RunView view = state_->View(SystemClock().Now());
  if (view.state == RunState::kFinished) {
    return reply(
        FailedPrecondition("the run is finished; take the model with: " + ExportCommand(config_)));
  }
  if (view.state == RunState::kFailed) {
    return reply(FailedPrecondition("the run has failed: " + view.reason));
  }
  Feed(AdminCommand{kind});
  reply(RunIs(state_->View(SystemClock().Now())));
}

void SchedulerServer::Export(const std::map<std::string, std::string>& arguments,
                             std::function<void(Result<net::CommandResult>)> reply) {
  SHOAL_ASSERT_ON(*control_);
  const auto path = arguments.find("path");
  if (path == arguments.end() || !std::filesystem::path(path->second).is_absolute()) {
    return reply(InvalidArgument("export needs an absolute path of a folder that does not exist"));
  }
  const auto option = [&](const char* name, const char* otherwise) {
    const auto found = arguments.find(name);
    return found == arguments.end() ? std::string(otherwise) : found->second;
  };
  ExportRequest request;
  request.format = {option("as", "directory"), option("dtype", ""), option("type", "")};
  if (Status status = model::CheckExportFormat(request.format); !status.ok()) return reply(status);
  const RunView view = state_->View(SystemClock().Now());
  request.path = path->second;
  request.weights = state_->CurrentWeights();
  request.model_card = ModelCard(config_, view, artefacts_.data);
  // Events, weights and what peers upload do not wait for it.
  store_->Post("export.find", [this, request = std::move(request), step = view.checkpoint_step,
                               reply = std::move(reply)] {
    auto blobs = std::make_shared<BlobPaths>(FindBlobs(artefacts_, request, disk_->content()));
    std::vector<storage::ContentHash> hashes;
    for (const auto& [hash, file] : *blobs) hashes.push_back(hash);
    disk_->Pin(hashes);
    export_->Post("export", [this, request, step, reply, blobs, hashes] {
      const auto notes = ExportRun(config_, artefacts_, *blobs, request);
      store_->Post("export.unpin", [this, hashes] { disk_->Unpin(hashes); });
      control_->Post("export.done", [this, request, step, reply, notes] {
        reply(notes.ok() ? Exported(request, step, *notes)
                         : Result<net::CommandResult>(notes.status().WithContext("export")));
      });
    });
  });
}

Result<net::CommandResult> SchedulerServer::Exported(const ExportRequest& request,
                                                     std::uint64_t step,
                                                     const std::vector<std::string>& notes) const {
  const std::string& as = request.format.as;
  std::string message =
      std::string(as == "adapter" ? "wrote the adapter" : "wrote the model") + " after step " +
      std::to_string(step) + " to " + request.path +
      (as == "gguf" ? "; run it with: llama-cli -m " + request.path +
                          "/model.gguf, or: ollama create NAME -f " + request.path + "/Modelfile"
                    : TryHint(config_.model, request.path, as == "adapter"));
  for (const std::string& note : notes) message += "\nnote: " + note;
  return net::CommandResult{message, "{\"step\":" + std::to_string(step) + "}"};
}

}  // namespace shoal::scheduler
