// PeerNode: what a peer does from its first hello to its last: it keeps the connection to the
// scheduler, hosts the stage that the plan gives, and does what its owner orders. Executors, stores
// and network come from outside, so that a simulation runs it in virtual time.

#ifndef SHOAL_DAEMON_PEER_NODE_H_
#define SHOAL_DAEMON_PEER_NODE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/executor.h"
#include "common/status.h"
#include "daemon/artefacts/artefact_offer.h"
#include "daemon/artefacts/disk_keeper.h"
#include "daemon/config.h"
#include "daemon/gpu/gpu_watch.h"
#include "daemon/scheduler_connection.h"
#include "daemon/settings_overlay.h"
#include "daemon/stage_host.h"
#include "daemon/status_snapshot.h"
#include "daemon/terms/machine.h"
#include "daemon/terms/own_network.h"
#include "daemon/terms/stage_memory.h"
#include "daemon/terms/terms_keeper.h"
#include "net/control/local_control.h"
#include "net/identity/identity.h"
#include "net/identity/membership_check.h"
#include "net/links/link.h"
#include "storage/checkpoints/checkpoint_store.h"
#include "storage/delta/delta_store.h"
#include "storage/files/content_store.h"
#include "storage/history/history_keeper.h"

namespace shoal::daemon {

// What a PeerNode stands on. All that is pointed to outlives it.
struct PeerParts {
  const DaemonConfig* config = nullptr;
  StagePool* memory = nullptr;     // without one no stage is bounded
  std::uint64_t memory_asked = 0;  // bounded at the start; 0: what there is
  std::uint64_t memory_bytes = 0;  // that a stage may use; 0: unknown
  std::shared_ptr<const net::Identity> identity;
  Executor* control = nullptr;
  Executor* compute = nullptr;
  Executor* codec = nullptr;
  Executor* store = nullptr;
  storage::ContentStore* content = nullptr;
  storage::DeltaStore* delta_store = nullptr;
  storage::CheckpointStore* checkpoints = nullptr;
  net::LinkHub* hub = nullptr;
  OwnNetwork::Find local_addresses;
  NewClient new_client;
  std::shared_ptr<net::MembershipCheck> members;  // null: links show none
  SettingsOverlay overlay;
  const Machine* machine = nullptr;  // without one no terms are kept but caps
  UsageLedger ledger;
  storage::UsageHistory history;
  WatchedGpu gpu;
  NewStage new_stage = model::NewTorchStage;
};

// Thread: control. Destroyed after its executors, whose tasks may know it.
class PeerNode : private SchedulerConnection::Owner,
                 private StageHost::Owner,
                 private TermsKeeper::Owner,
                 private GpuWatch::Owner,
                 private StageMemory::Owner {
 public:
  // `on_stop` is called when the peer wants to end: by command, or refused by the scheduler (not
  // OK). Thread: any.
  PeerNode(PeerParts parts, std::function<void(Status)> on_stop);
  ~PeerNode() override;

  // Joins if there is an invite.
  void Begin();
  // Leaves the run in order: tells the scheduler, ends the stage. `stopped` comes once the farewell
  // had time to leave the machine; Close follows.
  void Stop(std::function<void()> stopped);
  // Before that: lets the run save its steps, if this peer trains. `done` comes then. False: there
  // is nothing to save; it came at once.
  bool HandOver(std::function<void()> done);
  // Ends stage and connection without a word, as the end of the process does.
  void Close();

  void OnCommand(const std::string& name, const std::map<std::string, std::string>& arguments,
                 std::function<void(Result<net::CommandResult>)> reply);
  StatusSnapshot Snapshot() const;
  // GET /history, as HistoryJson of storage/history/usage_history.h.
  Result<std::string> History(std::string_view query) const {
    SHOAL_ASSERT_ON(*control_);
    return history_->Json(query, terms_->now_ms());
  }
  // What of this machine hangs; empty: nothing.
  const std::string& hang() const;

 private:
  // What follows once the run has saved this peer's steps; the last three end the process.
  enum class Handover : std::uint8_t { kNone, kPause, kShrink, kLeave, kFinish, kStop };

  // SchedulerConnection::Owner
  control::v1::PeerMessage MakeHello() override;
  bool ReadyForHello() const override;
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
  void OnLinkTrouble(const std::string& text) override;
  void OnStageHangs(const std::string& what) override;

  void AwaitEndOfHang();
  void Rejoin(const std::string& why);
  bool rests() const { return paused_ || ruled_ || !hang_.empty(); }  // takes no stage
  std::string PauseReason() const;
  void TakeMembership(const std::string& bytes);
  void OnQuarantine(const control::v1::Quarantine& told);
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
  void GoOnAlone();
  void OnGoOn();
  void LetGoLater();
  void AddHeld(control::v1::Held* held) const;
  void ChangeState(PeerState state, const std::string& reason);
  void SendHeartbeat(std::uint64_t round);

  Result<net::CommandResult> Pause(const std::map<std::string, std::string>& arguments);
  Result<net::CommandResult> Resume();
  Result<net::CommandResult> Leave(bool now);
  Result<net::CommandResult> Finish(bool now);
  std::string KeepSettings();
  bool BeginHandover(Handover how, const std::string& reason);
  bool Closes() const;
  void FinishHandover();

  // ---- peer_membership.cc ----
  Result<net::CommandResult> Join(const std::map<std::string, std::string>& arguments);
  Result<net::CommandResult> Set(const std::map<std::string, std::string>& arguments);
  Result<net::CommandResult> Settings() const;
  Status OpenConnection(const std::string& invite);
  void ForgetInvite();  // in the overlay, which the caller saves, and the file
  std::string CapsText() const;

  // ---- peer_terms.cc: owner of TermsKeeper, GpuWatch and StageMemory, and what follows ----
  TermSettings Terms(std::int64_t now_ms) const override {
    SHOAL_ASSERT_ON(*control_);
    return TermsInForce(config_, overlay_, now_ms);
  }
  Usage Measured() const override;
  bool Trains() const override;
  std::uint64_t HandoverBytes() const override;
  void OnGpuUser(const std::string& program) override;
  void OnGpuLost(const std::string& why) override;
  void OnTerms() override;
  void OnSecond(std::int64_t now_ms) override;
  void OnSlept(Duration slept) override;
  void OnStageTooLarge(std::uint64_t limit_bytes) override;
  std::optional<std::uint64_t> StageBytes() const;
  void TellMemory();
  void LookForNetwork();
  void KeepDisk(std::uint64_t bytes_max);
  void RestByRule();
  void TakePart();
  void AddTerms(StatusSnapshot* s) const;
  void Stats(std::function<void(Result<net::CommandResult>)> reply);
  void AddStage(StatusSnapshot* s) const;

  const DaemonConfig& config_;
  const std::function<void(Status)> on_stop_;
  const std::shared_ptr<const net::Identity> identity_;
  Executor* const control_;
  Executor* const compute_;
  Executor* const codec_;
  Executor* const store_;
  storage::ContentStore* const content_;
  storage::DeltaStore* const delta_store_;
  storage::CheckpointStore* const checkpoints_;
  net::LinkHub* const hub_;
  const NewStage new_stage_;
  OwnNetwork network_;
  const std::shared_ptr<net::MembershipCheck> members_;
  std::unique_ptr<SchedulerConnection> connection_;
  std::unique_ptr<TermsKeeper> terms_;
  std::unique_ptr<storage::HistoryKeeper> history_;
  std::unique_ptr<GpuWatch> gpu_;
  std::unique_ptr<StageMemory> memory_;
  std::unique_ptr<DiskKeeper> disk_;
  CheckpointSaver saver_;
  std::unique_ptr<StageHost> stage_;
  std::unique_ptr<ArtefactOffer> offer_, lost_offer_;  // of checkpoints; of what it lost
  std::uint64_t closed_ = 0;     // the generation that was to be saved last, until the next plan
  bool awaits_request_ = false;  // it was saved just now, and the scheduler may ask for some of it

  // State below lives on control.
  SettingsOverlay overlay_;
  PeerState state_ = PeerState::kStarting;
  std::vector<std::string> reasons_;
  std::string link_trouble_;  // why the newest link failed; empty again once this peer trains
  std::int64_t since_unix_ms_ = 0;
  std::string invite_text_, scheduler_trouble_, run_id_, run_name_;
  std::string hang_;  // what of this machine hangs; empty: nothing
  net::Invite invite_;
  bool paused_ = false, rests_told_ = false;  // by its user; by the last hello
  bool ruled_ = false;                        // a rule of the terms keeps it from training
  std::optional<TimePoint> hold_until_;       // the stage, unless a scheduler needs it
  QuarantineNotice quarantine_;
  Handover handover_ = Handover::kNone;
  std::uint64_t memory_told_ = 0;      // by the last hello
  std::function<void()> handed_over_;  // of kStop
  Timeouts timeouts_ = TimeoutsOf(kPeerTimeoutDefault);
  Duration heartbeat_ = timeouts_.heartbeat_interval;
  std::uint64_t heartbeat_round_ = 0, step_ = 0;
  TimePoint status_told_{}, last_apply_{};  // with a heartbeat; a step
  control::v1::RunStatus run_status_;
  std::deque<std::pair<std::uint64_t, double>> losses_, held_out_;
  double loss_ = 0, samples_per_second_ = 0;
  std::map<PeerId, std::string> names_;
  TrafficTotals past_;  // of ended generations
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_PEER_NODE_H_
