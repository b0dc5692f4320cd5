// SchedulerServer: the thin shell around SwarmState: sockets, disk, clock, status page.
//
// Threads: control owns the SwarmState and everything that changes; store does what blocks on disk
// (event log, artefacts, export). Owner: main, which also opens and closes it.

#ifndef SHOAL_SCHEDULER_SERVER_SERVER_H_
#define SHOAL_SCHEDULER_SERVER_SERVER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/executor.h"
#include "common/mutex.h"
#include "net/control/control.h"
#include "net/control/local_control.h"
#include "net/http/http_server.h"
#include "net/identity/identity.h"
#include "net/objects/object_store.h"
#include "net/relay/relay_server.h"
#include "scheduler/config/run_config.h"
#include "scheduler/door/door.h"
#include "scheduler/door/membership_office.h"
#include "scheduler/history/run_timeline.h"
#include "scheduler/mirror/checkpoint_mirror.h"
#include "scheduler/server/run_artefacts.h"
#include "scheduler/server/run_export.h"
#include "scheduler/server/run_status.h"
#include "scheduler/server/run_store.h"
#include "scheduler/server/store_access.h"
#include "scheduler/swarm/swarm_state.h"
#include "scheduler/tracking/run_activity.h"
#include "scheduler/tracking/run_tracker.h"
#include "storage/checkpoints/event_log.h"
#include "storage/files/content_store.h"
#include "storage/files/free_space.h"

namespace shoal::scheduler {

// kForget: history and artefacts in the run's folder are set aside, and the run begins anew from
// the model's weights.
enum class History : std::uint8_t { kKeep, kForget };

// What one of several schedulers brings when it begins to lead.
struct Lead {
  std::unique_ptr<storage::EventLog> log;
  std::unique_ptr<storage::ContentStore> content;
  RunArtefacts artefacts;       // in `content`, made for the config that OpenLeader gets
  std::function<bool()> holds;  // whether it still leads, by its own clock. Thread: any
};

// What writes the model of a run.
std::string ExportCommand(const RunConfig& config);

class SchedulerServer {
 public:
  // Reads model and data, replays the history of the run, listens, and writes the files `invite`,
  // `status.addr` and `scheduler.sock` into the run's folder. `on_stop` is called on the control
  // thread when the server wants to end: OK after an order, else the reason.
  static Result<std::unique_ptr<SchedulerServer>> Open(const RunConfig& config,
                                                       std::function<void(Status)> on_stop,
                                                       History history = History::kKeep,
                                                       const StoreAccess& access = {});
  // The same for the one of several schedulers that leads. It stops as soon as it does not, and
  // tells peers nothing that the log does not have: the next leader knows all that they know.
  static Result<std::unique_ptr<SchedulerServer>> OpenLeader(const RunConfig& config,
                                                             std::function<void(Status)> on_stop,
                                                             const StoreAccess& access, Lead lead);
  ~SchedulerServer();  // ordered stop; not on a thread of the server

  // Constant. Thread: main.
  std::uint16_t port() const;  // for peers
  const std::string& status_address() const;
  // Empty: nobody joins by the standing invite. Thread: main.
  std::string invite();
  // Whether the run is. Thread: main.
  bool finished();
  // Thread: main.
  const RunConfig& config() const { return config_; }
  // How much m the run will keep. Thread: main.
  storage::DeltaSize delta_size() const;

 private:
  SchedulerServer(const RunConfig& config, std::function<void(Status)> on_stop);

  Status Prepare(History history);
  Status Begin(const StoreAccess& access);
  Status Replay();
  Status NameChanged(Status refused) const;
  void Keep() const;
  Status CheckHistory(std::uint64_t events) const;
  void FindLost();
  Status Listen();
  Status ListenForPeers();
  Result<std::vector<std::string>> StartOwnRelay();
  Status WriteFiles();
  // What was opened for it; null: the run has no store.
  struct Store {
    std::unique_ptr<net::ObjectStore> objects;
    std::stop_source stop;
  };
  Result<Store> OpenStore(const StoreAccess& access) const;
  void StartMirror(Store store);
  net::ControlServerHandlers ControlHandlers();

  // Thread: control.
  void Feed(const Event& event);
  void Admit(net::ConnectionId connection);
  void Forget(net::ConnectionId connection);
  void Carry(const Action& action);
  void CarryStored(const Action& action);
  void Stored();
  void OnMessage(net::ConnectionId connection, control::v1::PeerMessage message);
  void Append(std::string event);
  void Want(std::vector<control::v1::ArtefactRef> files);
  void Prune();
  void Mirror();
  void Release(const CheckpointCopy& copy);
  void TickAgain();
  // ---- server_tracking.cc ----
  Status OpenTracker();  // Thread: main
  void TickTrackers();
  void Track(const StepApplied& step);
  std::vector<MemberTraffic> Traffic() const;
  ServerView MakeServerView() const;
  std::string MakeStatusJson() const;
  net::HttpResponse Serve(const net::PageRequest& request) const;
  void Command(const std::string& name, const std::map<std::string, std::string>& arguments,
               std::function<void(Result<net::CommandResult>)> reply);
  // ---- server_admission.cc ----
  Status OpenDoor();
  void Joined(net::ConnectionId connection);
  void Renew();
  void Refuse(net::ConnectionId connection, const Status& why);
  bool CommandAtDoor(const std::string& name, const std::map<std::string, std::string>& arguments,
                     const std::function<void(Result<net::CommandResult>)>& reply);
  void MakeInvite(const std::map<std::string, std::string>& arguments,
                  const std::function<void(Result<net::CommandResult>)>& reply);
  void Revoke(const std::map<std::string, std::string>& arguments,
              const std::function<void(Result<net::CommandResult>)>& reply);
  // That `member` names, of all who ever joined.
  Result<PeerId> NamedMember(const std::map<std::string, std::string>& arguments) const;
  void Release(const std::map<std::string, std::string>& arguments,
               const std::function<void(Result<net::CommandResult>)>& reply);
  void Kick(const std::map<std::string, std::string>& arguments,
            const std::function<void(Result<net::CommandResult>)>& reply);
  void KickOne(const PeerId& peer, const std::string& reason);
  // Answers once all that was appended is stored.
  void ReplyStored(net::CommandResult result,
                   const std::function<void(Result<net::CommandResult>)>& reply);
  Status WriteInvite() const;
  void Order(AdminCommand::Kind kind, std::function<void(Result<net::CommandResult>)> reply);
  Result<net::CommandResult> Exported(const ExportRequest& request, std::uint64_t step,
                                      const std::vector<std::string>& notes) const;
  void Export(const std::map<std::string, std::string>& arguments,
              std::function<void(Result<net::CommandResult>)> reply);
  // Runs `task` on the control thread and waits. Thread: main.
  void OnControl(const std::function<void()>& task);

  RunConfig config_;
  const std::function<void(Status)> on_stop_;
  RunArtefacts artefacts_;
  std::string invite_;
  net::Invite to_here_;  // addresses and key of any invite
  std::shared_ptr<const net::Identity> identity_;
  std::unique_ptr<Door> door_;
  std::unique_ptr<MembershipOffice> office_;  // control
  std::string secret_;                        // of the standing invite
  bool listens_ = false;
  TimePoint started_{};
  bool stopping_ = false;                            // control
  std::map<net::ConnectionId, PeerId> connections_;  // control
  std::map<net::ConnectionId, InviteId> came_by_;    // control
  // Of one of several schedulers; control, but for self_, which is constant.
  PeerId self_;
  std::function<bool()> leads_;           // empty: it is the only one
  std::set<net::ConnectionId> standbys_;  // of other schedulers, which have the same key
  std::uint64_t appended_ = 0, stored_ = 0;
  std::deque<std::pair<std::uint64_t, Action>> held_;  // until so many events are stored

  Mutex members_mutex_;
  // Connections whose hello was accepted: whose peers may fetch.
  std::map<net::ConnectionId, PeerId> admitted_ SHOAL_GUARDED_BY(members_mutex_);

  std::unique_ptr<RunStore> disk_;             // store
  std::unique_ptr<SwarmState> state_;          // control
  std::unique_ptr<RunTracker> tracker_;        // control; null: there are no logs
  std::unique_ptr<storage::FreeSpace> space_;  // control
  std::unique_ptr<RunTimeline> timeline_;      // control
  std::unique_ptr<RunActivity> activity_;      // control
  std::unique_ptr<Executor> store_;
  std::unique_ptr<Executor> control_;
  std::unique_ptr<Executor> export_;
  std::unique_ptr<CheckpointMirror> mirror_;  // control; null: there is no store
  std::unique_ptr<net::RelayServer> relay_;   // null: none here
  std::unique_ptr<net::ControlServer> peers_;
  std::unique_ptr<net::LocalServer> local_;
  std::unique_ptr<net::HttpServer> http_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_SERVER_H_
