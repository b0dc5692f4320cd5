#include "daemon/peer_daemon.h"

#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdlib>
#include <future>
#include <optional>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "common/process/machine_memory.h"
#include "common/process/service_manager.h"
#include "common/units.h"
#include "daemon/gpu/gpu_watch.h"
#include "daemon/gpu/nvidia_driver.h"
#include "daemon/gpu/settled_device.h"
#include "daemon/terms/page_order.h"
#include "model/torch_device.h"
#include "net/base/local_addresses.h"
#include "net/links/grpc_link_hub.h"

namespace shoal::daemon {
namespace {

constexpr int kStoreNice = 10;
constexpr const char* kStatusListenAny = "127.0.0.1:0";

constexpr Duration kStopTimeout = std::chrono::seconds(10);
// Of a process that is told to end: less than the ten seconds that `docker stop` grants.
constexpr Duration kStopHandoverMax = std::chrono::seconds(7);
constexpr Duration kFlushMax = std::chrono::seconds(5);
constexpr Duration kGpuWaitMax = std::chrono::seconds(3);

// Runs `task` on `executor` and waits for it; for start and stop on the main thread only.
template <typename Task>
auto RunOn(Executor* executor, Task task) {
  std::packaged_task<decltype(task())()> packaged(std::move(task));
  auto future = packaged.get_future();
  auto shared = std::make_shared<decltype(packaged)>(std::move(packaged));
  executor->Post("daemon.sync", [shared] { (*shared)(); });
  return future.get();
}

class TorchPool final : public StagePool {
 public:
  explicit TorchPool(model::TorchDevice device) : device_(std::move(device)) {}

  Status Check(std::uint64_t asked_bytes) const override {
    if (asked_bytes == 0) return Status::Ok();
    return model::DeviceMemoryLimit(device_, 0, MachineMemoryBytes(), asked_bytes).status();
  }
  Result<std::uint64_t> Bound(std::uint64_t asked_bytes) override {
    SHOAL_ASSIGN_OR_RETURN(const std::uint64_t limit,
                           model::LimitDeviceMemory(device_, asked_bytes));
    const std::uint64_t bytes = limit == 0 ? MachineMemoryBytes() : limit;
    SHOAL_LOG(kInfo, "daemon", "device", {"name", device_.name}, {"memory", FormatBytes(bytes)},
              {"bounded", limit > 0 ? "yes" : "no"});
    return bytes;
  }
  std::uint64_t PeakBytes() const override { return model::DevicePeakBytes(device_); }
  void ForgetPeak() override { model::ForgetDevicePeak(device_); }

 private:
  const model::TorchDevice device_;
};

}  // namespace

ExitCode PeerExitCode(const Status& status) {
  return status.code() == StatusCode::kAborted ? ExitCode::kTryLater : ExitCodeFor(status);
}

Result<std::unique_ptr<PeerDaemon>> PeerDaemon::Open(const DaemonConfig& config, NewStage new_stage,
                                                     std::function<void(Status)> on_stop) {
  SHOAL_ASSIGN_OR_RETURN(const model::TorchDevice device, model::ChooseDevice(config.device));
  SHOAL_RETURN_IF_ERROR(TorchPool(device).Check(config.device_memory_bytes));
  std::unique_ptr<PeerDaemon> daemon(new PeerDaemon(config));
  SettingsOverlay overlay;
  SHOAL_RETURN_IF_ERROR(daemon->OpenStores(&overlay));
  // Another shoald of that folder has been refused by now.
  SHOAL_RETURN_IF_ERROR(
      SettleDevice(config.directory + "/device", config.device, !device.is_cpu()));
  SHOAL_RETURN_IF_ERROR(daemon->OpenNetwork(&overlay));
  SHOAL_RETURN_IF_ERROR(daemon->OpenMemory(device, overlay));
  daemon->OpenGpu(model::BusIdOf(device), overlay);
  daemon->MakeNode(std::move(overlay), std::move(new_stage), std::move(on_stop));
  SHOAL_RETURN_IF_ERROR(daemon->OpenDoors());
  SHOAL_RETURN_IF_ERROR(RunOn(daemon->control_.get(), [&daemon] {
    daemon->node_->Begin();
    return Status::Ok();
  }));
  return daemon;
}

PeerDaemon::PeerDaemon(const DaemonConfig& config)
    : config_(config),
      upload_(std::make_shared<net::RateLimiter>(&SystemClock())),
      download_(std::make_shared<net::RateLimiter>(&SystemClock())),
      control_(NewThreadExecutor("control")),
      compute_(NewThreadExecutor("compute")),
      codec_(NewThreadPool("codec", static_cast<int>(config.codec_threads))),
      store_(NewThreadExecutor("store")) {
  // What a step wrote is committed while the next step's first micro-batches fill the pipeline:
  // they go first. Priorities of Linux are those of threads.
  store_->Post("store.priority", [] { (void)::setpriority(PRIO_PROCESS, 0, kStoreNice); });
}

Status PeerDaemon::OpenStores(SettingsOverlay* overlay) {
  const std::string& directory = config_.directory;
  SHOAL_RETURN_IF_ERROR(MakeOwnFolder(directory));
  SHOAL_ASSIGN_OR_RETURN(identity_, net::LoadOrCreateIdentity(directory));
  SHOAL_ASSIGN_OR_RETURN(*overlay, ReadOverlay(directory + "/overlay.json"));
  if (overlay->name && !config_.typed.contains("name")) config_.name = *overlay->name;
  SHOAL_ASSIGN_OR_RETURN(ledger_, ReadUsageLedger(directory + "/usage.json"));
  SHOAL_ASSIGN_OR_RETURN(history_, storage::OpenHistory(directory + "/history.bin"));
  SHOAL_ASSIGN_OR_RETURN(content_, storage::OpenFileContentStore(directory + "/content"));
  SHOAL_ASSIGN_OR_RETURN(checkpoints_, storage::OpenCheckpointStore(directory + "/checkpoints"));
  storage::DeltaStoreOptions options;
  options.path = directory + "/deltas";
  options.bytes_max = config_.delta_store_bytes;
  options.memory_bytes = config_.store_memory_bytes - config_.store_memory_bytes / 4;
  options.space =
      config_.store_space == "tight" ? storage::StoreSpace::kTight : storage::StoreSpace::kDefault;
  SHOAL_ASSIGN_OR_RETURN(delta_store_, storage::OpenRocksDeltaStoreOrNone(options));
  return Status::Ok();
}

// A GPU that cannot be watched trains all the same.
void PeerDaemon::OpenGpu(const std::string& bus_id, const SettingsOverlay& overlay) {
  const std::string card = config_.card == "auto" ? bus_id : config_.card;
  if (card.empty() || card == "off") return;
  Result<std::unique_ptr<GpuDriver>> driver = OpenNvidiaDriver(card);
  if (!driver.ok()) {
    SHOAL_LOG(kWarning, "daemon", "gpu.not_watched", {"reason", driver.status().message()});
    return;
  }
  gpu_.driver = *std::move(driver);
  gpu_.computes = !bus_id.empty() && card == bus_id;
  gpu_thread_ = NewThreadExecutor("gpu");
  gpu_.thread = gpu_thread_.get();
  const TermSettings terms = TermsInForce(config_, overlay, machine_.UnixMs());
  auto first = std::make_shared<std::promise<GpuSight>>();
  gpu_thread_->Post("daemon.gpu", [this, first, users = terms.gpu_free.has_value()] {
    first->set_value(LookAtGpu(gpu_.driver.get(), machine_, users));
  });
  std::future<GpuSight> seen = first->get_future();
  if (seen.wait_for(kGpuWaitMax) == std::future_status::ready) gpu_.first = seen.get();
  SHOAL_LOG(kInfo, "daemon", "gpu.watched", {"card", card}, {"name", gpu_.first.reading.name});
}

Status PeerDaemon::OpenNetwork(SettingsOverlay* overlay) {
  net::LinkHubOptions options;
  options.listen = config_.listen;
  options.identity = identity_;
  options.upload = upload_;
  options.download = download_;
  options.pacing = config_.pacing == "auto";
  options.map_port = config_.map_port && config_.advertise.empty();
  options.members = members_;
  SHOAL_ASSIGN_OR_RETURN(hub_, net::NewGrpcLinkHub(options, control_.get()));
  for (const std::string& said : SettleSettings(config_, overlay)) {
    SHOAL_LOG(kWarning, "daemon", "settings", {"text", said});
  }
  return Status::Ok();
}

Status PeerDaemon::OpenMemory(const model::TorchDevice& device, const SettingsOverlay& overlay) {
  memory_ = std::make_unique<TorchPool>(device);
  memory_asked_ = TermsInForce(config_, overlay, machine_.UnixMs()).device_memory_bytes;
  const Result<std::uint64_t> bytes = memory_->Bound(memory_asked_);
  if (!bytes.ok() && memory_asked_ != config_.device_memory_bytes) {
    return bytes.status().WithContext(
        "an earlier `shoal set device_memory=...` holds; start shoald with --device-memory SIZE");
  }
  SHOAL_ASSIGN_OR_RETURN(memory_bytes_, bytes);
  return Status::Ok();
}

void PeerDaemon::MakeNode(SettingsOverlay overlay, NewStage new_stage,
                          std::function<void(Status)> on_stop) {
  PeerParts parts;
  parts.config = &config_;
  parts.memory = memory_.get();
  parts.memory_asked = memory_asked_;
  parts.memory_bytes = memory_bytes_;
  parts.identity = identity_;
  parts.control = control_.get();
  parts.compute = compute_.get();
  parts.codec = codec_.get();
  parts.store = store_.get();
  parts.content = content_.get();
  parts.delta_store = delta_store_.get();
  parts.checkpoints = checkpoints_.get();
  parts.hub = hub_.get();
  parts.local_addresses = &net::FindLocalAddresses;
  parts.members = members_;
  parts.new_client = [this](const net::ControlClientOptions& options,
                            net::ControlClientHandlers handlers) {
    return net::NewControlClient(options, control_.get(), upload_, download_, std::move(handlers));
  };
  parts.overlay = std::move(overlay);
  parts.machine = &machine_;
  parts.ledger = ledger_;
  parts.history = std::move(history_);
  parts.gpu = gpu_;
  parts.new_stage = std::move(new_stage);
  node_ = std::make_unique<PeerNode>(std::move(parts),
                                     [this, on_stop = std::move(on_stop)](Status status) {
                                       SHOAL_ASSERT_ON(*control_);
                                       exit_code_ = PeerExitCode(status);
                                       on_stop(std::move(status));
                                     });
}

Status PeerDaemon::OpenDoors() {
  net::LocalHandlers handlers;
  handlers.on_status = [this](std::function<void(std::string)> reply) {
    SHOAL_ASSERT_ON(*control_);
    reply(StatusJson(node_->Snapshot()));
  };
  handlers.on_command = [this](const std::string& name,
                               const std::map<std::string, std::string>& arguments,
                               std::function<void(Result<net::CommandResult>)> reply) {
    SHOAL_ASSERT_ON(*control_);
    if (name == "page") return reply(PageLink());
    node_->OnCommand(name, arguments, std::move(reply));
  };
  SHOAL_ASSIGN_OR_RETURN(local_, net::NewLocalServer(config_.directory + "/shoald.sock",
                                                     control_.get(), std::move(handlers)));
  SHOAL_RETURN_IF_ERROR(OpenPage());
  return WriteFileAtomic(config_.directory + "/status.addr", status_address() + "\n");
}

// A machine with two GPUs runs two of these.
Status PeerDaemon::OpenPage() {
  net::HttpServerOptions options;
  options.listen = config_.status_listen;
  options.allow_remote = config_.status_allow_remote;
  options.token = net::NewJoinSecret();
  net::HttpHandlers handlers;
  handlers.on_get = [this](const net::PageRequest& request) { return OnHttp(request); };
  handlers.on_post = [this](const net::PageRequest& request,
                            std::function<void(net::HttpResponse)> reply) {
    OnPageOrder(request, std::move(reply));
  };
  auto opened = net::NewHttpServer(options, control_.get(), handlers);
  if (!opened.ok() && config_.status_listen == kStatusListenDefault) {
    SHOAL_LOG(kInfo, "daemon", "page.elsewhere", {"why", opened.status().message()});
    options.listen = kStatusListenAny;
    opened = net::NewHttpServer(options, control_.get(), std::move(handlers));
  }
  if (!opened.ok()) {
    return Status(
        opened.status().code(),
        opened.status().message() + " (--status-listen, or status.listen in shoald.toml)");
  }
  http_ = std::move(opened).value();
  RunOn(control_.get(), [this, link = net::PageLink(status_address(), options.token)] {
    page_link_ = link;
    return 0;
  });
  return Status::Ok();
}

std::string PeerDaemon::status_address() const { return http_->address(); }

PeerDaemon::~PeerDaemon() {
  if (node_) {
    // Where control is late, that ends behind this.
    const auto stopped = std::make_shared<std::promise<void>>();
    control_->Post("daemon.stop", [this, stopped] {
      node_->Stop([this, stopped] {
        local_.reset();
        stopped->set_value();
      });
    });
    stopped->get_future().wait_for(kStopTimeout);
  }
  http_.reset();
  RunOn(control_.get(), [this] {
    local_.reset();
    if (node_) node_->Close();
    return 0;
  });
  hub_.reset();  // waits for the ends of streams, and control must not
  EndIfHanging();
  compute_.reset();  // ends what runs there, then the next in line
  codec_.reset();
  if (delta_store_) {
    const Status status = RunOn(store_.get(), [this] { return delta_store_->Flush(); });
    if (!status.ok()) {
      SHOAL_LOG(kError, "daemon", "flush.failed", {"error", status.ToString()});
    }
  }
  store_.reset();
  EndGpuThread();
  control_.reset();
}

// A driver may hang for ever, and nothing is lost with it: its thread is left to the process's end.
void PeerDaemon::EndGpuThread() {
  if (!gpu_thread_) return;
  auto done = std::make_shared<std::promise<void>>();
  gpu_thread_->Post("daemon.gpu", [done] { done->set_value(); });
  if (done->get_future().wait_for(kGpuWaitMax) == std::future_status::ready)
    return gpu_thread_.reset();
  SHOAL_LOG(kWarning, "daemon", "gpu.hangs", {"waited", FormatDuration(kGpuWaitMax)});
  std::_Exit(static_cast<int>(RunOn(control_.get(), [this] { return exit_code_; })));
}

void PeerDaemon::FeedWatchdog() {
  const std::optional<Duration> interval = WatchdogInterval();
  if (!interval) return;
  control_->PostAfter("daemon.watchdog", *interval, [this] {
    TellAlive();
    FeedWatchdog();
  });
}

void PeerDaemon::HandOver() {
  auto done = std::make_shared<std::promise<void>>();
  control_->Post("daemon.hand_over", [this, done] {
    if (!node_->HandOver([done] { done->set_value(); })) return;
    SHOAL_LOG(kInfo, "daemon", "handover", {"at_most", FormatDuration(kStopHandoverMax)},
              {"hint", "a second Ctrl-C ends shoald at once"});
  });
  done->get_future().wait_for(kStopHandoverMax);
}

// A thread that hangs cannot be joined. What the store keeps is written first.
void PeerDaemon::EndIfHanging() {
  if (!node_) return;
  if (!RunOn(control_.get(), [this] { return !node_->hang().empty(); })) return;
  auto flushed = std::make_shared<std::promise<void>>();
  store_->Post("daemon.flush", [this, flushed] {
    if (delta_store_) (void)delta_store_->Flush();
    flushed->set_value();
  });
  flushed->get_future().wait_for(kFlushMax);
  SHOAL_LOG(kError, "daemon", "ended_while_hanging", {"flushed_within", FormatDuration(kFlushMax)});
  std::_Exit(static_cast<int>(ExitCode::kFailure));
}

Result<net::CommandResult> PeerDaemon::PageLink() const {
  SHOAL_ASSERT_ON(*control_);
  if (page_link_.empty()) return FailedPrecondition("shoald starts just now; ask again");
  const nlohmann::ordered_json json = {{"schemaVersion", 1},
                                       {"url", page_link_},
                                       {"settings", page_link_.find('#') != std::string::npos}};
  return net::CommandResult{page_link_, json.dump()};
}

void PeerDaemon::OnPageOrder(const net::PageRequest& request,
                             std::function<void(net::HttpResponse)> reply) {
  SHOAL_ASSERT_ON(*control_);
  if (request.path != "/settings") return reply(net::StatusPageOrNotFound("/settings"));
  const auto refused = [reply](const Status& status) {
    const int code = status.code() == StatusCode::kInvalidArgument ? 400 : 409;
    reply({code, "text/plain; charset=utf-8", status.message() + "\n"});
  };
  Result<PageOrder> order = ParsePageOrder(request.body);
  if (!order.ok()) return refused(order.status());
  const bool idle = node_->Snapshot().state == PeerState::kIdle;
  if (idle && (order->command == "pause" || order->command == "resume")) {
    return refused(FailedPrecondition(
        "this peer is in no swarm; join one with `shoal join INVITE --no-start`"));
  }
  node_->OnCommand(order->command, order->arguments,
                   [reply, refused](Result<net::CommandResult> result) {
                     if (!result.ok()) return refused(result.status());
                     if (!result->json.empty())
                       return reply({200, "application/json", result->json});
                     const nlohmann::json json = {{"message", result->message}};
                     reply({200, "application/json",
                            json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
                   });
}

net::HttpResponse PeerDaemon::OnHttp(const net::PageRequest& request) const {
  SHOAL_ASSERT_ON(*control_);
  const std::string& path = request.path;
  if (path == "/api/v1/status") return {200, "application/json", StatusJson(node_->Snapshot())};
  if (path == "/metrics") {
    return {200, "text/plain; version=0.0.4; charset=utf-8", MetricsText(node_->Snapshot())};
  }
  if (path == "/history") {
    const Result<std::string> history = node_->History(request.query);
    if (history.ok()) return {200, "application/json", *history};
    return {400, "text/plain; charset=utf-8", history.status().message() + "\n"};
  }
  if (path == "/healthz") return {200, "text/plain", "ok\n"};
  if (path == "/readyz") {
    const StatusSnapshot now = node_->Snapshot();
    const bool ready = now.state == PeerState::kTraining || now.state == PeerState::kWaiting ||
                       now.state == PeerState::kSyncing;
    std::string text(PeerStateName(now.state));
    for (const std::string& reason : now.state_reasons) text += ": " + reason;
    return {ready ? 200 : 503, "text/plain", text + "\n"};
  }
  return net::StatusPageOrNotFound(path);
}

}  // namespace shoal::daemon
