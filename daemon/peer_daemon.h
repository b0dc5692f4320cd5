// PeerDaemon: the composition root of shoald. It opens stores and ports for a PeerNode, and answers
// the CLI and the status page.

#ifndef SHOAL_DAEMON_PEER_DAEMON_H_
#define SHOAL_DAEMON_PEER_DAEMON_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/executor.h"
#include "common/exit_code.h"
#include "common/status.h"
#include "daemon/config.h"
#include "daemon/gpu/gpu_watch.h"
#include "daemon/peer_node.h"
#include "daemon/settings_overlay.h"
#include "daemon/terms/machine.h"
#include "daemon/terms/stage_memory.h"
#include "daemon/terms/usage_ledger.h"
#include "net/control/local_control.h"
#include "net/http/http_server.h"
#include "net/identity/identity.h"
#include "net/links/link.h"
#include "storage/checkpoints/checkpoint_store.h"
#include "storage/delta/delta_store.h"
#include "storage/files/content_store.h"
#include "storage/history/usage_history.h"

namespace shoal::model {
struct TorchDevice;
}

namespace shoal::daemon {

// What shoald returns that ends because of `status`. Aborted: what is missing may come back.
ExitCode PeerExitCode(const Status& status);

// Thread: main.
class PeerDaemon {
 public:
  // Opens everything; the error says what cannot be opened and why. `on_stop` is called (control
  // thread) when the daemon wants to end: by command, or refused by the scheduler (not OK).
  static Result<std::unique_ptr<PeerDaemon>> Open(const DaemonConfig& config, NewStage new_stage,
                                                  std::function<void(Status)> on_stop);
  // Leaves the run in order: tells the scheduler, stops the stage, flushes the store.
  ~PeerDaemon();
  // Before that: lets the run save its steps first, if this peer trains; waits some seconds for it.
  void HandOver();

  // From now on, as long as the control thread works, the service manager is told that it does.
  // Thread: any.
  void FeedWatchdog();

  // Constant.
  std::string status_address() const;  // host:port of the status page
  const PeerId& id() const { return identity_->id; }

 private:
  explicit PeerDaemon(const DaemonConfig& config);
  Status OpenStores(SettingsOverlay* overlay);
  void OpenGpu(const std::string& bus_id, const SettingsOverlay& overlay);
  Status OpenNetwork(SettingsOverlay* overlay);
  Status OpenMemory(const model::TorchDevice& device, const SettingsOverlay& overlay);
  void MakeNode(SettingsOverlay overlay, NewStage new_stage, std::function<void(Status)> on_stop);
  Status OpenDoors();
  Status OpenPage();
  net::HttpResponse OnHttp(const net::PageRequest& request) const;
  void OnPageOrder(const net::PageRequest& request, std::function<void(net::HttpResponse)> reply);
  Result<net::CommandResult> PageLink() const;
  void EndIfHanging();
  void EndGpuThread();

  DaemonConfig config_;  // constant once the stores are open
  const LinuxMachine machine_{"/proc", "/sys/class/power_supply"};
  UsageLedger ledger_;  // as read; the node's is newer
  storage::UsageHistory history_;
  std::shared_ptr<const net::Identity> identity_;
  std::shared_ptr<net::RateLimiter> upload_;
  std::shared_ptr<net::RateLimiter> download_;

  // Destroyed in reverse order: doors, network, stores, threads, node, memory.
  std::unique_ptr<StagePool> memory_;
  std::uint64_t memory_asked_ = 0, memory_bytes_ = 0;  // at the start
  std::unique_ptr<PeerNode> node_;
  std::unique_ptr<Executor> control_;
  std::unique_ptr<Executor> compute_;
  std::unique_ptr<Executor> codec_;
  std::unique_ptr<Executor> store_;
  std::unique_ptr<Executor> gpu_thread_;  // null: there is no driver
  WatchedGpu gpu_;
  std::unique_ptr<storage::ContentStore> content_;
  std::unique_ptr<storage::DeltaStore> delta_store_;
  std::unique_ptr<storage::CheckpointStore> checkpoints_;
  const std::shared_ptr<net::MembershipCheck> members_ = std::make_shared<net::MembershipCheck>();
  std::unique_ptr<net::LinkHub> hub_;
  std::unique_ptr<net::LocalServer> local_;
  // With the token of this start: who has it may change settings there. Thread: control.
  std::string page_link_;
  ExitCode exit_code_ = ExitCode::kOk;  // of why the node wants to end; thread: control
  std::unique_ptr<net::HttpServer> http_;
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_PEER_DAEMON_H_
