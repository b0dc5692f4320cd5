// PeerDaemon: the composition root of shoald. It opens stores and ports, keeps the connection to
// the scheduler, hosts the stage that the plan gives, and answers the CLI and the status page.

#ifndef SHOAL_DAEMON_PEER_DAEMON_H_
#define SHOAL_DAEMON_PEER_DAEMON_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/status.h"
#include "daemon/artefacts/artefact_offer.h"
#include "daemon/config.h"
#include "daemon/scheduler_connection.h"
#include "daemon/settings_overlay.h"
#include "daemon/stage_host.h"
#include "daemon/status_snapshot.h"
#include "net/control/local_control.h"
#include "net/http/http_server.h"
#include "net/identity/identity.h"
#include "net/links/link.h"
#include "storage/checkpoints/checkpoint_store.h"
#include "storage/delta/delta_store.h"
#include "storage/files/content_store.h"

namespace shoal::daemon {

// Thread: construction and destruction on main; everything else on control.
class PeerDaemon : private SchedulerConnection::Owner, private StageHost::Owner {
 public:
  // Opens everything; the error says what cannot be opened and why. `on_stop` is called (control
  // thread) when the daemon wants to end: by command, or refused by the scheduler (not OK).
  static Result<std::unique_ptr<PeerDaemon>> Open(const DaemonConfig& config,
                                                  std::function<void(Status)> on_stop);
  // Leaves the run in order: tells the scheduler, stops the stage, flushes the store.
  ~PeerDaemon() override;
  // Before that: lets the run save its steps first, if this peer trains; waits some seconds for it.
  // Thread: main.
  void HandOver();

  // Constant. Thread: main.
  std::string status_address() const;  // host:port of the status page
  const PeerId& id() const { return identity_->id; }

 private:
  // What happens once the run has saved the steps that this peer took part in.
  enum class Handover : std::uint8_t { kNone, kPause, kLeave, kStop };

  PeerDaemon(const DaemonConfig& config, std::uint64_t memory_bytes,
             std::function<void(Status)> on_stop);
  Status OpenStores();
  Status OpenNetwork();
  Status OpenDoors();

  // SchedulerConnection::Owner
  control::v1::PeerMessage MakeHello() override;
  void OnWelcome(const control::v1::Welcome& welcome) override;
  void OnSchedulerMessage(const control::v1::SchedulerMessage& message) override;
  void OnConnectionLost(const Status& status, Duration retry_in) override;
  void OnRefused(const Status& status) override;

  // StageHost::Owner
  net::ControlClient* client() override {
    SHOAL_ASSERT_ON(*control_);
    return connection_->client();
  }
  void Tell(control::v1::PeerMessage message) override {
    SHOAL_ASSERT_ON(*control_);
    connection_->Tell(std::move(message));
  }
  void OnStageState(PeerState state, const std::string& reason) override;
  void OnLinkTrouble(const std::string& text) override {
    SHOAL_ASSERT_ON(*control_);
    link_trouble_ = text;
  }

  void OnStageHangs(const std::string& what) override;

  void AwaitEndOfHang();
  void Rejoin();
  void EndIfHanging();                                      // main
  bool rests() const { return paused_ || !hang_.empty(); }  // takes no stage
  std::string PauseReason() const;
  void OnPlan(const control::v1::Plan& plan);
  void OnPrepare(const control::v1::Prepare& prepare);
  StageResources Resources();
  void OnAbort(const control::v1::Abort& abort);
  void OnApply(const control::v1::Apply& apply);
  void OnFinished(std::uint64_t generation);
  void OnWantArtefacts(const control::v1::WantArtefacts& want);
  void AddHeldOut(const control::v1::HeldOut& measured);
  void OnRunStatus(const control::v1::RunStatus& status);
  void EndStage();
  void HoldStage();
  void AddHeld(control::v1::Held* held) const;
  void ChangeState(PeerState state, const std::string& reason);
  void SendHeartbeat(std::uint64_t round);

  void OnCommand(const std::string& name, const std::map<std::string, std::string>& arguments,
                 std::function<void(Result<net::CommandResult>)> reply);
  Result<net::CommandResult> Pause(bool now);
  Result<net::CommandResult> Resume();
  Result<net::CommandResult> Leave(bool now);
  std::string KeepSettings();
  bool BeginHandover(Handover how, const std::string& reason);
  void FinishHandover();

  // ---- peer_membership.cc ----
  void Begin();  // control: joins if there is an invite
  Result<net::CommandResult> Join(const std::map<std::string, std::string>& arguments);
  Result<net::CommandResult> Set(const std::map<std::string, std::string>& arguments);
  Status OpenConnection(const std::string& invite);
  void ForgetInvite();  // in the overlay, which the caller saves, and the file
  void ApplyCaps();
  static Status ReadCaps(const std::map<std::string, std::string>& arguments,
                         SettingsOverlay* overlay);
  std::string CapsText() const;

  StatusSnapshot Snapshot() const;
  void AddStage(StatusSnapshot* s) const;
  net::HttpResponse OnHttp(const std::string& path) const;
  std::vector<std::string> Addresses() const;

  const DaemonConfig config_;
  const std::function<void(Status)> on_stop_;
  const std::uint64_t memory_bytes_;  // that a stage may use; 0: unknown
  std::shared_ptr<const net::Identity> identity_;
  std::shared_ptr<net::RateLimiter> upload_;
  std::shared_ptr<net::RateLimiter> download_;

  // Destroyed in reverse order: doors, connection, stage, network, stores, threads.
  std::unique_ptr<Executor> control_;
  std::unique_ptr<Executor> compute_;
  std::unique_ptr<Executor> codec_;
  std::unique_ptr<Executor> store_;
  std::unique_ptr<storage::ContentStore> content_;
  std::unique_ptr<storage::DeltaStore> delta_store_;
  std::unique_ptr<storage::CheckpointStore> checkpoints_;
  std::unique_ptr<net::LinkHub> hub_;
  std::unique_ptr<SchedulerConnection> connection_;
  std::unique_ptr<StageHost> stage_;
  std::unique_ptr<ArtefactOffer> offer_;
  std::unique_ptr<net::LocalServer> local_;
  std::unique_ptr<net::HttpServer> http_;

  // State below lives on control.
  SettingsOverlay overlay_;
  PeerState state_ = PeerState::kStarting;
  std::vector<std::string> reasons_;
  std::string link_trouble_;  // why the newest link failed; empty again once this peer trains
  std::int64_t since_unix_ms_ = 0;
  std::string invite_text_;
  net::Invite invite_;
  bool paused_ = false;
  std::string hang_;  // what of this machine hangs; empty: nothing
  Handover handover_ = Handover::kNone;
  std::function<void()> handed_over_;  // of kStop
  std::string run_id_, run_name_;
  Timeouts timeouts_ = TimeoutsOf(kPeerTimeoutDefault);
  Duration heartbeat_ = timeouts_.heartbeat_interval;
  std::uint64_t heartbeat_round_ = 0;
  TimePoint status_told_{};  // with a heartbeat
  control::v1::RunStatus run_status_;
  std::deque<std::pair<std::uint64_t, double>> losses_, held_out_;
  std::uint64_t step_ = 0;
  double loss_ = 0;
  TimePoint last_apply_{};
  double samples_per_second_ = 0;
  std::map<PeerId, std::string> names_;
  TrafficTotals past_;  // of ended generations
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_PEER_DAEMON_H_
