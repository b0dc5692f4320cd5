#include "net/links/grpc_link_hub.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "net/admission/peer_server.h"
#include "net/base/host_port.h"
#include "net/identity/grpc_setup.h"
#include "net/links/bulk_stream.h"
#include "net/links/chunk.h"
#include "net/links/link_core.h"
#include "net/links/link_greeter.h"
#include "net/links/punched_stream.h"
#include "net/links/racing_stream.h"
#include "net/mapping/port_mapper.h"
#include "net/relay/relay_door.h"

namespace shoal::net {
namespace {

// Of all connections together, beside what links hold themselves (LinkLimits).
constexpr std::size_t kMemoryBytesMax = 1 << 30;

// The lower end is dialling all that time.
constexpr std::chrono::milliseconds kUpperDialsAfter{1000};

std::uint64_t UnfinishedBytesMax(const LinkLimits& limits) {
  std::uint64_t most = limits.unfinished_bytes_max;
  if (most == 0) {
    const auto pages = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
    most = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / 2;
  }
  return std::max(most, limits.frame_bytes_max);
}

class GrpcLink final : public Link {
 public:
  GrpcLink(std::shared_ptr<LinkCore> core, Executor* executor)
      : core_(std::move(core)), executor_(executor) {}
  ~GrpcLink() override {
    SHOAL_ASSERT_ON(*executor_);
    core_->Detach();
  }

  Status Send(Frame frame) override {
    SHOAL_ASSERT_ON(*executor_);
    return core_->Send(std::move(frame));
  }
  LinkStats stats() const override { return core_->stats(); }

 private:
  const std::shared_ptr<LinkCore> core_;
  Executor* const executor_;
};

class GrpcLinkHub final : public LinkHub {
 public:
  GrpcLinkHub(LinkHubOptions options, Executor* executor)
      : options_(std::move(options)),
        executor_(executor),
        streams_(std::make_shared<StreamCount>()),
        greeter_(std::make_shared<LinkGreeter>(options_.limits.timeouts.link_open, executor)) {
    if (options_.low_water) low_water_ = std::make_shared<LowWaterLoop>(executor_);
    pacing_ = std::make_shared<PacingLoop>(executor_, options_.upload, options_.pacing,
                                           [this](bool probe) { return Pulses(probe); });
  }

  // Every stream ends at gRPC's hand alone, so waiting here for the last is short, and needs
  // nothing from the executor.
  ~GrpcLinkHub() override {
    pacing_->Stop();
    mapper_.reset();
    punches_->Use(nullptr);
    door_.reset();
    for (const auto& core : Cores()) core->Fail(Cancelled("this peer is stopping"));
    greeter_->Stop();
    if (server_) server_->Stop();
    streams_->WaitForNone();
  }

  // Once, before anything else. Thread: any.
  Status Start() {
    SHOAL_ASSIGN_OR_RETURN(gate_, ConnectionGate::Listen(options_.listen, options_.connections));
    const auto accept = [greeter = greeter_, gate = gate_](
                            const std::shared_ptr<BulkStream>& stream,
                            const PeerId& peer) -> std::shared_ptr<StreamSink> {
      // The plan may be another one than at the handshake.
      const bool welcome = greeter->Admits(peer) && gate->Prove(stream->peer_address(), peer);
      return welcome ? greeter->Greet(stream, peer) : nullptr;
    };
    service_ = NewStreamService(accept, streams_);
    PeerServerOptions server;
    server.listen = options_.listen;
    server.identity = options_.identity;
    server.message_bytes_max = kBulkMessageBytesMax;
    server.memory_bytes = kMemoryBytesMax;
    server.admission = [greeter = greeter_](const PeerId& key, std::string_view) {
      return greeter->Admits(key)
                 ? Status::Ok()
                 : Unauthenticated("peer " + key.ToShort() + " is not in this peer's plan");
    };
    SHOAL_ASSIGN_OR_RETURN(server_,
                           PeerServer::Start(server, gate_, [this](grpc::ServerBuilder* builder) {
                             builder->RegisterCallbackGenericService(service_.get());
                           }));
    const auto listened = ParseHostPort(options_.listen);
    const bool any = listened.ok() && (listened->host == "0.0.0.0" || listened->host == "::");
    if (options_.map_port && any) mapper_ = NewPortMapper(gate_->port());
    return Status::Ok();
  }

  std::unique_ptr<Link> Dial(const LinkTarget& target, LinkHandlers handlers) override {
    SHOAL_ASSERT_ON(*executor_);
    return Open(target, std::move(handlers), true);
  }

  std::unique_ptr<Link> Accept(const LinkTarget& target, LinkHandlers handlers) override {
    SHOAL_ASSERT_ON(*executor_);
    return Open(target, std::move(handlers), false);
  }

  void Admit(const std::vector<PeerId>& peers) override {
    SHOAL_ASSERT_ON(*executor_);
    greeter_->Admit(peers);
  }
  void UseAddresses(const PeerId& peer, const std::vector<std::string>& addresses) override {
    SHOAL_ASSERT_ON(*executor_);
    for (const auto& core : Cores()) {
      if (core->target().peer == peer) core->UseAddresses(addresses);
    }
  }
  void SetTimeouts(const Timeouts& timeouts) override {
    SHOAL_ASSERT_ON(*executor_);
    options_.limits.timeouts = timeouts;
    greeter_->set_patience(timeouts.link_open);
  }
  void SetCaps(BitsPerSecond upload, BitsPerSecond download) override {
    options_.upload->SetRate(upload);
    options_.download->SetRate(download);
    for (const auto& core : Cores()) core->ResumeTransfers();
  }
  BitsPerSecond upload_cap() const override { return options_.upload->cap(); }
  BitsPerSecond download_cap() const override { return options_.download->cap(); }
  BitsPerSecond upload_line() const override { return pacing_->line(); }
  BitsPerSecond upload_pace() const override { return options_.upload->pace(); }
  std::uint16_t port() const override { return gate_->port(); }

  void UseRelays(const std::vector<std::string>& addresses) override {
    SHOAL_ASSERT_ON(*executor_);
    const std::vector<RelayAddress> relays = RelaysAmong(addresses);
    if (!door_ && relays.empty()) return;
    if (!door_) {
      PunchHooks hooks;
      hooks.welcome = [greeter = greeter_](const PeerId& peer) { return greeter->Admits(peer); };
      hooks.take = [gate = gate_](int fd) { gate->TakePunched(fd); };
      door_ = NewRelayDoor(
          options_.identity, gate_->port(), [gate = gate_](int fd) { gate->TakeRelayed(fd); },
          std::move(hooks));
      punches_->Use(door_.get());
    }
    door_->Use(relays);
  }
  std::vector<RelayState> relays() const override {
    SHOAL_ASSERT_ON(*executor_);
    return door_ ? door_->states() : std::vector<RelayState>();
  }

  void NetworkChanged() override {
    SHOAL_ASSERT_ON(*executor_);
    if (mapper_) mapper_->NetworkChanged();
  }
  PortMapping mapping() const override { return mapper_ ? mapper_->mapping() : PortMapping(); }

 private:
  std::unique_ptr<Link> Open(const LinkTarget& target, LinkHandlers handlers, bool lower) {
    const auto core = NewCore(target, std::move(handlers));
    if (const Status status = CheckTarget(target, lower); !status.ok()) {
      core->Fail(status);
    } else {
      const Duration delay = lower ? Duration::zero() : Duration(kUpperDialsAfter);
      core->Start(target.addresses.empty() ? nullptr : DialerOf(target), delay, lower);
      greeter_->Expect(core);
    }
    return std::make_unique<GrpcLink>(core, executor_);
  }

  LinkCore::Dialer DialerOf(const LinkTarget& target) {
    const auto dial = [identity = options_.identity, peer = target.peer, streams = streams_](
                          const std::string& address, std::shared_ptr<StreamSink> sink) {
      return DialStream(address, *identity, peer, streams, std::move(sink));
    };
    const auto one = [dial, peer = target.peer, punches = punches_, executor = executor_](
                         const std::string& address, std::shared_ptr<StreamSink> sink) {
      if (!IsPunchAddress(address)) return dial(address, std::move(sink));
      return PunchedStream::Dial(address, peer, punches.get(), dial, executor, std::move(sink));
    };
    return [one, executor = executor_](const std::vector<std::string>& addresses,
                                       std::shared_ptr<StreamSink> sink) {
      if (addresses.size() == 1) return one(addresses[0], std::move(sink));
      return RacingStream::Dial(one, addresses, executor, std::move(sink));
    };
  }

  static Status CheckTarget(const LinkTarget& target, bool dial) {
    if (target.channel.size() > kChannelNameBytesMax) {
      return InvalidArgument("the name of a link is too long");
    }
    if (dial && target.addresses.empty()) {
      return InvalidArgument("no address of peer " + target.peer.ToShort() + " is known");
    }
    return Status::Ok();
  }

  std::shared_ptr<LinkCore> NewCore(const LinkTarget& target, LinkHandlers handlers) {
    auto core = std::make_shared<LinkCore>(
        target, std::move(handlers),
        LinkContext{options_.limits, options_.upload, options_.download, executor_, stripes_most_,
                    unfinished_, low_water_, options_.members,
                    [gate = gate_](const std::string& end) { return gate->IsRelayed(end); },
                    [gate = gate_](const std::string& end) { return gate->IsPunched(end); },
                    [greeter = greeter_] { greeter->LookAgain(); }});
    pacing_->Start();
    MutexLock lock(mutex_);
    std::erase_if(cores_, [](const std::weak_ptr<LinkCore>& weak) { return weak.expired(); });
    cores_.push_back(core);
    return core;
  }

  std::vector<std::shared_ptr<LinkCore>> Cores() {
    std::vector<std::shared_ptr<LinkCore>> cores;
    MutexLock lock(mutex_);
    for (const auto& weak : cores_) {
      if (auto core = weak.lock()) cores.push_back(std::move(core));
    }
    return cores;
  }

  std::optional<std::vector<LinkPulse>> Pulses(bool probe) {
    const auto cores = Cores();
    if (cores.empty()) return std::nullopt;
    std::vector<LinkPulse> pulses;
    for (const auto& core : cores) {
      if (auto pulse = core->TakePulse(probe)) pulses.push_back(std::move(*pulse));
    }
    std::size_t most = 1;
    for (const LinkPulse& pulse : pulses) most = std::max(most, pulse.stripes);
    stripes_most_->store(most);
    return pulses;
  }

  LinkHubOptions options_;  // limits: executor only
  Executor* const executor_;
  const std::shared_ptr<StreamCount> streams_;
  const std::shared_ptr<LinkGreeter> greeter_;
  const std::shared_ptr<std::atomic<std::size_t>> stripes_most_ =
      std::make_shared<std::atomic<std::size_t>>(1);
  const std::shared_ptr<ByteBudget> unfinished_ =
      std::make_shared<ByteBudget>(UnfinishedBytesMax(options_.limits));
  std::shared_ptr<PacingLoop> pacing_;
  std::shared_ptr<ConnectionGate> gate_;
  std::shared_ptr<LowWaterLoop> low_water_;
  std::unique_ptr<grpc::CallbackGenericService> service_;
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<PortMapper> mapper_;  // null: no router is asked
  const std::shared_ptr<PunchWay> punches_ = std::make_shared<PunchWay>();
  std::unique_ptr<RelayDoor> door_;  // executor only; null: no relay was ever used
  Mutex mutex_;
  std::vector<std::weak_ptr<LinkCore>> cores_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<LinkHub>> NewGrpcLinkHub(const LinkHubOptions& options, Executor* executor) {
  SHOAL_CHECK(options.upload && options.download && options.identity);
  if (options.limits.chunk_bytes == 0 || options.limits.chunk_bytes > kChunkPayloadBytesMax) {
    return InvalidArgument("chunk_bytes must be from 1 to " +
                           std::to_string(kChunkPayloadBytesMax));
  }
  auto hub = std::make_unique<GrpcLinkHub>(options, executor);
  SHOAL_RETURN_IF_ERROR(hub->Start());
  return std::unique_ptr<LinkHub>(std::move(hub));
}

}  // namespace shoal::net
