#include "tests/support/whole_swarm.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/file.h"
#include "daemon/peer_node.h"
#include "dataset/prepare/prepare_data.h"
#include "model/init_weights.h"
#include "scheduler/server/artefact_ref.h"
#include "tests/support/full_disk.h"
#include "tests/support/sim_machine.h"
#include "tests/support/stallable_executor.h"

namespace shoal::test_support {
namespace {

using control::v1::PeerMessage;
using control::v1::SchedulerMessage;
using scheduler::ConnectionId;

constexpr const char* kSecret = "00112233445566778899aabbccddeeff";
constexpr std::uint32_t kRowTokens = 8;
constexpr Duration kTick = std::chrono::milliseconds(250);
// After which a line that carries nothing is given up by both ends.
constexpr Duration kSilence = std::chrono::seconds(20);
constexpr std::size_t kPieceBytes = 1 << 20;
constexpr double kLateMs = 3000;  // less than what counts as a hang

PeerId IdOf(std::size_t number) {
  PeerId id;
  id.key[0] = static_cast<std::uint8_t>(37 * (number + 1));
  id.key[1] = static_cast<std::uint8_t>(number & 255);
  id.key[2] = static_cast<std::uint8_t>(number >> 8);
  return id;
}

storage::ContentHash HashOf(const std::string& raw) {
  storage::ContentHash hash;
  SHOAL_CHECK(raw.size() == hash.digest.size());
  std::copy(raw.begin(), raw.end(), hash.digest.begin());
  return hash;
}

template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) fprintf(stderr, "%s\n", result.status().ToString().c_str());
  SHOAL_CHECK(result.ok());
  return *std::move(result);
}

void Must(const Status& status) {
  if (!status.ok()) fprintf(stderr, "%s\n", status.ToString().c_str());
  SHOAL_CHECK(status.ok());
}

}  // namespace

WholeInput::WholeInput(std::uint32_t layers)
    : folder(TemporaryFolder::InMemory()), model(folder / "model"), data(folder / "data") {
  const std::string source = folder / "source";
  std::filesystem::create_directories(source);
  for (const char* file : {"tokenizer.json", "vocab.json", "merges.txt"}) {
    std::filesystem::copy_file(Environment("SHOAL_SOURCE_DIR") + "/examples/tiny-gpt2/" + file,
                               source + "/" + file);
  }
  Must(WriteFileAtomic(source + "/config.json",
                       R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"n_layer":)" +
                           std::to_string(layers) +
                           R"(,"n_embd":8,"n_head":2,"n_positions":8,"vocab_size":1024,)"
                           R"("activation_function":"gelu_new"})"));
  Must(model::InitModelDirectory(source + "/config.json", model, 5));
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the ship and the sea, line " + std::to_string(i) + "\n";
  Must(WriteFileAtomic(folder / "text.txt", text));
  dataset::PrepareOptions options;
  options.tokenizer_directory = model;
  options.text_files = {folder / "text.txt"};
  options.row_tokens = kRowTokens;
  options.output = data;
  options.threads = 1;
  Must(dataset::PrepareData(options).status());
}

// What ends with a peer's process.
struct WholeSwarm::Process {
  std::unique_ptr<daemon::PeerNode> node;  // destroyed after its executors
  std::unique_ptr<StallableExecutor> control, compute, codec, store;
  std::unique_ptr<storage::ContentStore> content;
  std::unique_ptr<storage::DeltaStore> deltas;
  std::unique_ptr<storage::CheckpointStore> checkpoints;
  std::unique_ptr<net::LinkHub> hub;
};

namespace {

class SimCard final : public daemon::GpuDriver {
 public:
  daemon::GpuReading Read(bool) override {
    daemon::GpuReading reading;
    reading.name = "card";
    if (lost) reading.lost = "GPU is lost";
    return reading;
  }
  Status LimitPower(std::uint32_t) override { return Status::Ok(); }

  bool lost = false;
};

}  // namespace

struct WholeSwarm::Peer {
  daemon::DaemonConfig config;
  std::shared_ptr<net::Identity> identity = std::make_shared<net::Identity>();
  std::unique_ptr<Process> process;
  bool sends = true, receives = true;  // its line
  bool stalled = false;
  bool disk_full = false;
  double bytes_per_second = 0;
  std::unique_ptr<SimMachine> machine;  // null: without terms
  const std::shared_ptr<SimCard> card = std::make_shared<SimCard>();
  Status ended;

  bool cut() const { return !sends || !receives; }
};

// A control stream, as both ends and what is on its way see it.
struct WholeSwarm::Connection {
  std::size_t peer = 0;
  Client* client = nullptr;  // null: the peer's end is closed
  bool open = true;          // the scheduler's end
  TimePoint to_peer{}, to_scheduler{};
};

class WholeSwarm::Client final : public net::ControlClient {
 public:
  Client(WholeSwarm* swarm, std::size_t peer, Executor* executor,
         net::ControlClientHandlers handlers)
      : swarm_(swarm), executor_(executor), handlers_(std::move(handlers)), peer_(peer) {}
  ~Client() override {
    *alive_ = false;
    if (!connection_) return;
    connection_->client = nullptr;
    swarm_->Break(id_, "the peer closed the stream");
  }

  Status Send(PeerMessage message) override {
    if (!connection_ || !connection_->open) return Unavailable("the stream is closed");
    if (!swarm_->peers_[peer_]->sends) return Status::Ok();
    TimePoint& last = connection_->to_scheduler;
    last = std::max(last, swarm_->world_.Now() + swarm_->Delay(10));
    swarm_->world_.At(last, [swarm = swarm_, id = id_, message = std::move(message)] {
      swarm->Arrive(id, message);
    });
    return Status::Ok();
  }
  std::string address() const override { return ""; }
  void Fetch(const std::string& hash, std::uint64_t offset,
             std::function<Status(std::string)> on_chunk,
             std::function<void(Status)> on_done) override {
    Later(20, [this, alive = alive_, hash, offset, on_chunk = std::move(on_chunk),
               on_done = std::move(on_done)] {
      if (!connection_ || !connection_->open || swarm_->peers_[peer_]->cut()) return;
      auto piece = swarm_->content_->Read(HashOf(hash), offset, kPieceBytes);
      if (!piece.ok()) return on_done(piece.status());
      if (piece->empty()) return on_done(Status::Ok());
      const std::uint64_t next = offset + piece->size();
      const Status status = on_chunk(*std::move(piece));
      if (!*alive) return;
      status.ok() ? Fetch(hash, next, on_chunk, on_done) : on_done(status);
    });
  }
  void Upload(const std::string& hash, std::uint64_t size,
              std::function<Result<std::string>(std::uint64_t, std::size_t)> read,
              std::function<void(Status)> on_done) override {
    Later(40,
          [this, alive = alive_, hash, size, read = std::move(read), on_done = std::move(on_done)] {
            if (!connection_ || !connection_->open || swarm_->peers_[peer_]->cut()) return;
            std::string bytes;
            while (bytes.size() < size) {
              const auto piece = read(bytes.size(), std::min<std::uint64_t>(kPieceBytes, size));
              if (!*alive) return;
              if (!piece.ok()) return on_done(piece.status());
              bytes += *piece;
            }
            on_done(swarm_->Take(hash, bytes));
          });
  }
  net::ControlStats stats() const override { return {}; }

  void Open(ConnectionId id, std::shared_ptr<Connection> connection) {
    id_ = id;
    connection_ = std::move(connection);
    Later(10, [this] {
      if (connection_ && connection_->open) handlers_.on_open();
    });
  }
  void Deliver(const SchedulerMessage& message) {
    Post([this, message] {
      if (connection_) handlers_.on_message(message);
    });
  }
  void Closed(const std::string& reason) {
    Post([this, reason] {
      if (connection_) connection_->client = nullptr;
      connection_.reset();
      const auto closed = std::move(handlers_.on_closed);
      if (closed) closed(Unavailable(reason));
    });
  }

 private:
  template <typename Task>
  void Post(Task task) {
    executor_->Post("control.stream", [alive = alive_, task = std::move(task)] {
      if (*alive) task();
    });
  }
  template <typename Task>
  void Later(double ms, Task task) {
    executor_->PostAfter("control.stream", swarm_->Delay(ms),
                         [alive = alive_, task = std::move(task)] {
                           if (*alive) task();
                         });
  }

  WholeSwarm* const swarm_;
  Executor* const executor_;
  net::ControlClientHandlers handlers_;
  const std::size_t peer_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  ConnectionId id_ = 0;
  std::shared_ptr<Connection> connection_;
};

SimNetwork::Options WholeSwarm::NetworkOptions() {
  return {[this] { return Delay(5); }, 0,
          [this](const PeerId& from) { return PeerOf(from).bytes_per_second; }};
}

WholeSwarm::Peer& WholeSwarm::PeerOf(const PeerId& id) {
  return **std::ranges::find_if(peers_, [&](const auto& peer) { return peer->identity->id == id; });
}

WholeSwarm::WholeSwarm(const WholeOptions& options, const WholeInput& input)
    : options_(options),
      folder_(TemporaryFolder::InMemory()),
      random_(options.seed),
      network_(&world_, NetworkOptions()) {
  network_.tap = [this](const PeerId& from, const PeerId& to, net::Frame*) {
    return PeerOf(from).sends && PeerOf(to).receives ? 1 : 0;
  };
  content_ = Must(storage::OpenFileContentStore(folder_ / "scheduler"));
  config_.model = input.model;
  config_.data = input.data;
  config_.directory = folder_.path();
  config_.steps = options.steps;
  config_.stages = options.stages;
  config_.pipelines = options.pipelines;
  config_.micro_batches = options.micro_batches;
  config_.micro_batch_rows = 1;
  config_.compute = "fp32";
  config_.checkpoint_every = options.checkpoint_every;
  config_.evaluate_every = 0;
  config_.forward = options.forward;
  config_.backward = options.backward;
  config_.replica_method = options.replica;
  config_.learning_rate = 1e-3;
  config_.warmup_steps = 2;
  config_.decay = "none";
  config_.run = RunId{0x5ea1};
  artefacts_ = Must(scheduler::MakeRunArtefacts(content_.get(), &config_));
  StartScheduler();
}

WholeSwarm::~WholeSwarm() {
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) Kill(peer);
}

Duration WholeSwarm::Delay(double mean_ms) {
  double ms = mean_ms * (0.5 + static_cast<double>(random_() % 1024) / 1024);
  if (options_.late && random_() % 1000 == 0) ms = std::max(ms, std::min(100 * ms, kLateMs));
  return std::chrono::nanoseconds(static_cast<std::int64_t>(ms * 1e6));
}

// ---- peers ----

std::size_t WholeSwarm::AddPeer() {
  const std::size_t number = peers_.size();
  auto peer = std::make_unique<Peer>();
  peer->identity->id = IdOf(number);
  peer->config.name = "p" + std::to_string(number);
  peer->config.directory = folder_ / peer->config.name;
  peer->config.advertise = {"127.0.0.1"};
  peer->config.device = "cpu";
  peer->config.threads = 1;
  net::Invite invite;
  invite.addresses = {"127.0.0.1:1"};
  invite.secret = kSecret;
  peer->config.invite = net::FormatInvite(invite);
  Must(MakeOwnFolder(peer->config.directory));
  if (options_.terms) {
    peer->config.exclusive = "game";
    peer->machine = std::make_unique<SimMachine>(&world_);
  }
  if (options_.slow_lines) peer->bytes_per_second = 1e5 * (1 + static_cast<double>(random_() % 10));
  peers_.push_back(std::move(peer));
  Start(number);
  return number;
}

void WholeSwarm::Start(std::size_t number) {
  Peer& peer = *peers_[number];
  if (peer.process) return;
  peer.stalled = false;
  peer.process = std::make_unique<Process>();
  Process& process = *peer.process;
  const auto executor = [&](const char* name, double cost_ms) {
    SimWorld::Cost cost = [this, cost_ms](const char*) { return Delay(cost_ms); };
    return std::make_unique<StallableExecutor>(
        world_.NewExecutor(peer.config.name + "." + name, std::move(cost)));
  };
  process.control = executor("control", 0.05);
  process.compute = executor("compute", options_.compute_ms);
  process.codec = executor("codec", 1);
  process.store = executor("store", 2);
  const std::string& folder = peer.config.directory;
  process.content = std::make_unique<FullContentStore>(
      Must(storage::OpenFileContentStore(folder + "/content")), &peer.disk_full);
  process.checkpoints = std::make_unique<FullCheckpointStore>(
      Must(storage::OpenCheckpointStore(folder + "/checkpoints")), &peer.disk_full);
  process.deltas = storage::NewMemoryDeltaStore(64 << 20);
  process.hub = network_.NewHub(peer.identity->id, process.control.get());
  daemon::PeerParts parts;
  parts.config = &peer.config;
  parts.identity = peer.identity;
  parts.control = process.control.get();
  parts.compute = process.compute.get();
  parts.codec = process.codec.get();
  parts.store = process.store.get();
  parts.content = process.content.get();
  parts.delta_store = process.deltas.get();
  parts.checkpoints = process.checkpoints.get();
  parts.hub = process.hub.get();
  parts.machine = peer.machine.get();
  parts.gpu = {peer.card, process.store.get(), {}, true};
  parts.new_client = [this, number](const net::ControlClientOptions&,
                                    net::ControlClientHandlers handlers) {
    return Dial(number, std::move(handlers));
  };
  process.node =
      std::make_unique<daemon::PeerNode>(std::move(parts), [this, number](Status status) {
        peers_[number]->ended = std::move(status);
        world_.At(world_.Now(), [this, number] { Kill(number); });
      });
  process.control->Post("begin", [node = process.node.get()] { node->Begin(); });
}

void WholeSwarm::Kill(std::size_t number) {
  const std::unique_ptr<Process> process = std::move(peers_[number]->process);
  if (!process) return;
  peers_[number]->stalled = false;
  process->node->Close();
  process->control.reset();
  process->compute.reset();
  process->codec.reset();
  process->store.reset();
}

bool WholeSwarm::Lives(std::size_t peer) const { return peers_[peer]->process != nullptr; }

void WholeSwarm::Stall(std::size_t number) {
  Peer& peer = *peers_[number];
  if (!peer.process || std::exchange(peer.stalled, true)) return;
  Process& process = *peer.process;
  for (auto* executor : {&process.control, &process.compute, &process.codec, &process.store}) {
    (*executor)->Stall();
  }
}

void WholeSwarm::GoOn(std::size_t number) {
  Peer& peer = *peers_[number];
  if (!peer.process || !std::exchange(peer.stalled, false)) return;
  Process& process = *peer.process;
  for (auto* executor : {&process.control, &process.compute, &process.codec, &process.store}) {
    (*executor)->GoOn();
  }
}

void WholeSwarm::Cut(std::size_t number, Lost lost) {
  Peer& peer = *peers_[number];
  if (peer.cut()) return;
  peer.sends = lost == Lost::kReceived;
  peer.receives = lost == Lost::kSent;
  world_.At(world_.Now() + kSilence, [this, number] {
    if (peers_[number]->cut()) BreakAll(number, "nothing comes");
  });
}

// The line has another address than before.
void WholeSwarm::Mend(std::size_t number) {
  Peer& peer = *peers_[number];
  if (!peer.cut()) return;
  peer.sends = peer.receives = true;
  BreakAll(number, "the connection was reset");
}

void WholeSwarm::FillDisk(std::size_t peer, bool full) { peers_[peer]->disk_full = full; }

void WholeSwarm::Occupy(std::size_t peer, bool busy) { peers_[peer]->machine->busy = busy; }

void WholeSwarm::Slept(std::size_t peer, Duration time) { peers_[peer]->machine->slept += time; }

void WholeSwarm::LoseGpu(std::size_t peer, bool lost) { peers_[peer]->card->lost = lost; }

const Status& WholeSwarm::ended(std::size_t peer) const { return peers_[peer]->ended; }

void WholeSwarm::BreakAll(std::size_t number, const std::string& reason) {
  network_.Kill(peers_[number]->identity->id);
  std::vector<ConnectionId> own;
  for (const auto& [id, connection] : connections_) {
    if (connection->peer == number) own.push_back(id);
  }
  for (const ConnectionId id : own) Break(id, reason);
}

void WholeSwarm::Order(std::size_t number, const std::string& command) {
  Peer& peer = *peers_[number];
  if (!peer.process) return;
  peer.process->control->Post("order", [node = peer.process->node.get(), command] {
    node->OnCommand(command, {}, [](const Result<net::CommandResult>&) {});
  });
}

std::unique_ptr<net::ControlClient> WholeSwarm::Dial(std::size_t number,
                                                     net::ControlClientHandlers handlers) {
  auto client = std::make_unique<Client>(this, number, peers_[number]->process->control.get(),
                                         std::move(handlers));
  if (!state_ || peers_[number]->cut()) {
    client->Closed(state_ ? "no answer" : "connection refused");
    return client;
  }
  const ConnectionId id = ++last_connection_;
  auto connection = std::make_shared<Connection>();
  connection->peer = number;
  connection->client = client.get();
  connections_[id] = connection;
  client->Open(id, connection);
  world_.At(world_.Now(), [this, id, number] {
    if (connections_.contains(id)) {
      Feed(scheduler::PeerConnected{id, peers_[number]->identity->id, "127.0.0.1"});
    }
  });
  return client;
}

// ---- scheduler ----

void WholeSwarm::StartScheduler() {
  if (state_) return;
  state_ = scheduler::NewSwarmState(config_, artefacts_.initial);
  for (const std::string& event : log_) {
    const std::uint64_t at_ms = scheduler::DecodeTimedEvent(event)->at_ms.value_or(0);
    Must(state_->Restore(event, TimePoint(std::chrono::milliseconds(at_ms))));
  }
  Tick(++scheduler_life_);
}

void WholeSwarm::KillScheduler() {
  if (!state_) return;
  state_.reset();
  ++scheduler_life_;
  for (const auto& [id, connection] : std::exchange(connections_, {})) {
    connection->open = false;
    if (connection->client) connection->client->Closed("connection reset by peer");
  }
}

void WholeSwarm::Tick(std::uint64_t life) {
  if (life != scheduler_life_) return;
  Feed(scheduler::Tick{});
  world_.At(world_.Now() + kTick, [this, life] { Tick(life); });
}

void WholeSwarm::Feed(const scheduler::Event& event) {
  if (!state_) return;
  for (const scheduler::Action& action : state_->Handle(event, world_.Now())) Carry(action);
}

void WholeSwarm::Carry(const scheduler::Action& action) {
  if (const auto* send = std::get_if<scheduler::SendTo>(&action)) {
    ToPeer(send->connection, send->message);
  } else if (const auto* drop = std::get_if<scheduler::Disconnect>(&action)) {
    Break(drop->connection, drop->reason.message());
  } else if (const auto* persist = std::get_if<scheduler::Persist>(&action)) {
    const auto ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(world_.Now().time_since_epoch());
    log_.push_back(scheduler::StampEvent(persist->event, static_cast<std::uint64_t>(ms.count())));
  } else if (std::holds_alternative<scheduler::CheckpointComplete>(action) ||
             std::holds_alternative<scheduler::ArtefactsUnneeded>(action)) {
    SHOAL_CHECK(content_->KeepOnly(Needed()).ok());
  } else if (const auto* want = std::get_if<scheduler::WantArtefacts>(&action)) {
    for (const auto& file : want->files) {
      if (!content_->Has(HashOf(file.hash()))) continue;
      world_.At(world_.Now(), [this, hash = file.hash()] { Feed(scheduler::ArtefactHere{hash}); });
    }
  }
}

std::vector<storage::ContentHash> WholeSwarm::Needed() const {
  std::vector<storage::ContentHash> needed;
  for (const auto& file : state_->NeededArtefacts()) needed.push_back(HashOf(file.hash()));
  return needed;
}

// An upload, as the server takes it.
Status WholeSwarm::Take(const std::string& hash, const std::string& bytes) {
  if (!state_ || std::ranges::count(Needed(), HashOf(hash)) == 0) {
    return PermissionDenied("the run does not need it");
  }
  const auto put = content_->Put(std::as_bytes(std::span(bytes.data(), bytes.size())));
  if (!put.ok()) return put.status();
  if (*put != HashOf(hash)) return DataLoss("another file");
  world_.At(world_.Now(), [this, hash] { Feed(scheduler::ArtefactHere{hash}); });
  return Status::Ok();
}

void WholeSwarm::Arrive(ConnectionId id, const PeerMessage& message) {
  if (!connections_.contains(id)) return;
  Feed(scheduler::PeerMessageReceived{id, message});
}

void WholeSwarm::ToPeer(ConnectionId id, SchedulerMessage message) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || !peers_[found->second->peer]->receives) return;
  const std::shared_ptr<Connection> connection = found->second;
  connection->to_peer = std::max(connection->to_peer, world_.Now() + Delay(10));
  world_.At(connection->to_peer, [connection, message = std::move(message)] {
    if (connection->client) connection->client->Deliver(message);
  });
}

// Both ends hear of it; what is on its way to the peer arrives before.
void WholeSwarm::Break(ConnectionId id, const std::string& reason) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const std::shared_ptr<Connection> connection = found->second;
  connections_.erase(found);
  connection->open = false;
  world_.At(std::max(connection->to_peer, world_.Now() + Delay(10)), [connection, reason] {
    if (connection->client) connection->client->Closed(reason);
  });
  world_.At(world_.Now() + Delay(10), [this, id, reason, life = scheduler_life_] {
    if (life == scheduler_life_) Feed(scheduler::PeerDisconnected{id, reason});
  });
}

void WholeSwarm::OrderRun(scheduler::AdminCommand::Kind kind) {
  Feed(scheduler::AdminCommand{kind});
}

// ---- the world ----

bool WholeSwarm::RunUntil(const std::function<bool()>& holds, Duration limit) {
  const TimePoint end = world_.Now() + limit;
  while (!holds()) {
    if (world_.Now() > end || !world_.Step()) return holds();
    ++tasks_;
  }
  return true;
}

void WholeSwarm::RunFor(Duration duration) {
  const TimePoint end = world_.Now() + duration;
  (void)RunUntil([&] { return world_.Now() >= end; }, duration);
}

scheduler::RunView WholeSwarm::View() const { return state_->View(world_.Now()); }

std::size_t WholeSwarm::PeerAt(std::uint32_t pipeline, std::uint32_t stage) const {
  const scheduler::RunView view = View();
  for (const auto& member : view.members) {
    if (member.pipeline != static_cast<int>(pipeline) || member.stage != static_cast<int>(stage)) {
      continue;
    }
    for (std::size_t number = 0; number < peers_.size(); ++number) {
      if (peers_[number]->identity->id == member.peer) return number;
    }
  }
  return peers_.size();
}

std::vector<scheduler::TimedEvent> WholeSwarm::Events() const {
  std::vector<scheduler::TimedEvent> events;
  for (const std::string& event : log_) events.push_back(Must(scheduler::DecodeTimedEvent(event)));
  return events;
}

}  // namespace shoal::test_support
