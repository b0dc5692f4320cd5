// One end of the link bench: a real LinkHub and a real control stream, for
// tests/bench/link_bench.py.
//
//   link_peer receive --dir DIR --listen HOST [--back BYTES] [--pacing 0]
//             [--low-water 0] [--relay SECRET@HOST:PORT, by which it is reached, too]
//   link_peer send --dir DIR --listen HOST --to PEER --scheduler PEER --link HOST:PORT
//             --control HOST:PORT [--frame BYTES] [--ahead N] [--control-ms N]
//             [--gradient BYTES --gradient-ms N] [--upload BIT_PER_S] [--pacing 0]
//             [--low-water 0]
//
// The sender says small messages to the scheduler's side every so many milliseconds, which are
// answered at once. After the line "go" on its standard input it opens the link, keeps N frames
// (activations) in its queue and, if asked, sends a gradient now and then. Every other line is
// answered by one line of JSON: what was counted since such a line before. With --back the receiver
// sends frames of that size, too, all the time. Both ends end with their standard input.

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/executor.h"
#include "net/control/control.h"
#include "net/identity/identity.h"
#include "net/links/grpc_link_hub.h"
#include "net/pacing/rate_limiter.h"
#include "tests/support/on_executor.h"

namespace shoal::net {
namespace {

using nlohmann::json;
using test_support::RunOn;

constexpr RunId kRun{0x5eed};
constexpr char kChannel[] = "boundary/0/1";
constexpr char kBenchSecret[] = "00112233445566778899aabbccddeeff";

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "link_peer: %s\n", what.c_str());
  std::exit(1);
}
template <typename T>
T Need(Result<T> result) {
  if (!result.ok()) Die(result.status().ToString());
  return std::move(result).value();
}

std::map<std::string, std::string> OptionsOf(int argc, char** argv) {
  std::map<std::string, std::string> options;
  for (int i = 2; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  return options;
}
std::uint64_t NumberOf(const std::map<std::string, std::string>& options, const char* name,
                       std::uint64_t otherwise) {
  const auto found = options.find(name);
  return found == options.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 10);
}

rusage Usage() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage;
}
double Seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

std::uint64_t Nanoseconds() {
  return static_cast<std::uint64_t>(SystemClock().Now().time_since_epoch().count());
}
double MillisecondsSince(std::uint64_t then) {
  return static_cast<double>(Nanoseconds() - then) * 1e-6;
}

// What both ends have. All members but the executor are the executor's.
class Peer {
 public:
  explicit Peer(const std::map<std::string, std::string>& options)
      : executor_(NewThreadExecutor("control")),
        identity_(Need(LoadOrCreateIdentity(options.at("--dir")))),
        upload_(std::make_shared<RateLimiter>(&executor_->clock())),
        download_(std::make_shared<RateLimiter>(&executor_->clock())) {
    LinkHubOptions hub;
    hub.listen = options.at("--listen") + ":0";
    hub.identity = identity_;
    hub.upload = upload_;
    hub.download = download_;
    hub.pacing = NumberOf(options, "--pacing", 1) != 0;
    hub.low_water = NumberOf(options, "--low-water", 1) != 0;
    RunOn(executor_.get(), [&] {
      hub_ = Need(NewGrpcLinkHub(hub, executor_.get()));
      hub_->SetCaps({NumberOf(options, "--upload", 0)}, {});
      return 0;
    });
  }
  virtual ~Peer() = default;

  // Answers the lines of standard input until its end, then closes everything.
  void Serve() {
    for (std::string line; std::getline(std::cin, line);) {
      if (line == "go") {
        RunOn(executor_.get(), [this] {
          Go();
          return 0;
        });
        continue;
      }
      const json report = RunOn(executor_.get(), [this] { return Report(); });
      std::printf("%s\n", report.dump().c_str());
      std::fflush(stdout);
    }
    RunOn(executor_.get(), [this] {
      Stop();
      link_.reset();
      hub_.reset();
      return 0;
    });
  }

 protected:
  virtual void Go() = 0;
  virtual void Stop() = 0;
  virtual json Counted() = 0;

  json Report() {
    json report = Counted();
    const LinkStats stats = link_ ? link_->stats() : LinkStats{};
    report["connected"] = stats.connected;
    report["sentWireBytes"] = stats.sent_wire_bytes;
    report["receivedWireBytes"] = stats.received_wire_bytes;
    report["paceBps"] = hub_ ? hub_->upload_pace().value : 0;
    report["linkRttMs"] = stats.rtt_ms;
    report["connections"] = stats.connections;
    const rusage usage = Usage();
    report["cpuSeconds"] = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
    report["contextSwitches"] = usage.ru_nvcsw + usage.ru_nivcsw;
    report["seconds"] = static_cast<double>(Nanoseconds()) * 1e-9;
    return report;
  }

  void SendFrame(FrameKind kind, std::uint64_t bytes) {
    Frame frame;
    frame.kind = kind;
    frame.run = kRun;
    frame.generation = 1;
    frame.tag = Nanoseconds();
    frame.payload = Buffer(bytes);
    std::memset(frame.payload.data(), static_cast<int>(frame.tag & 0xff), bytes);
    if (const Status status = link_->Send(std::move(frame)); !status.ok()) Die(status.ToString());
  }

  LinkTarget Target(const PeerId& peer, const std::string& address) const {
    const std::vector<std::string> known = {address};
    return {peer, address.empty() ? std::vector<std::string>() : known, kRun, 1, kChannel};
  }

  const std::unique_ptr<Executor> executor_;
  const std::shared_ptr<const Identity> identity_;
  const std::shared_ptr<RateLimiter> upload_;
  const std::shared_ptr<RateLimiter> download_;
  std::unique_ptr<LinkHub> hub_;
  std::unique_ptr<Link> link_;
};

class Receiver final : public Peer {
 public:
  explicit Receiver(const std::map<std::string, std::string>& options)
      : Peer(options), back_bytes_(NumberOf(options, "--back", 0)) {
    ControlServerOptions server;
    server.listen = options.at("--listen") + ":0";
    // A relay knows a key at one place only.
    server.identity = Need(LoadOrCreateIdentity(options.at("--dir") + "/scheduler"));
    server.admission = [](const PeerId&, std::string_view) { return Status::Ok(); };
    if (const auto relay = options.find("--relay"); relay != options.end()) {
      server.relays = {relay->second};
    }
    RunOn(executor_.get(), [&] {
      hub_->UseRelays(server.relays);
      server_ = Need(NewControlServer(server, executor_.get(), executor_.get(), Handlers()));
      return 0;
    });
    const json ready = {
        {"peer", identity_->id.ToHex()},
        {"scheduler", server.identity->id.ToHex()},
        {"link", options.at("--listen") + ":" + std::to_string(hub_->port())},
        {"control", options.at("--listen") + ":" + std::to_string(server_->port())}};
    std::printf("%s\n", ready.dump().c_str());
    std::fflush(stdout);
  }

 private:
  ControlServerHandlers Handlers() {
    ControlServerHandlers handlers;
    // Who attends is who sends: the link from there is expected from now on.
    handlers.on_connect = [this](ConnectionId, const ControlCaller& caller) {
      LinkHandlers link;
      link.on_open = [this] {
        for (int i = 0; i < kBackAhead && back_bytes_ > 0; ++i) {
          SendFrame(FrameKind::kActivation, back_bytes_);
        }
      };
      link.on_sent = [this](FrameKind kind, MicroBatchId, double) { SendFrame(kind, back_bytes_); };
      link.on_frame = [this](Frame frame) { OnFrame(frame); };
      link.on_closed = [](const Status&) {};  // the sender goes first
      link_ = hub_->Accept(Target(caller.peer, caller.address), std::move(link));
    };
    handlers.on_message = [this](ConnectionId id, const control::v1::PeerMessage& message) {
      control::v1::SchedulerMessage answer;
      answer.mutable_reduce()->set_step(message.step_ready().step());
      server_->Send(id, answer);
    };
    handlers.on_disconnect = [](ConnectionId, const Status&) {};
    return handlers;
  }

  void OnFrame(const Frame& frame) {
    payload_bytes_ += frame.payload.size();
    if (frame.kind == FrameKind::kGradient) gradient_ms_.push_back(MillisecondsSince(frame.tag));
  }

  json Counted() override {
    json counted = {{"payloadBytes", payload_bytes_}, {"gradientMs", gradient_ms_}};
    gradient_ms_.clear();
    return counted;
  }
  void Go() override {}
  void Stop() override { server_.reset(); }

  static constexpr int kBackAhead = 4;

  const std::uint64_t back_bytes_;
  std::unique_ptr<ControlServer> server_;
  std::uint64_t payload_bytes_ = 0;
  std::vector<double> gradient_ms_;
};

class Sender final : public Peer {
 public:
  explicit Sender(const std::map<std::string, std::string>& options)
      : Peer(options),
        peer_(Need(PeerId::FromHex(options.at("--to")))),
        scheduler_(Need(PeerId::FromHex(options.at("--scheduler")))),
        link_address_(options.at("--link")),
        frame_bytes_(NumberOf(options, "--frame", 1 << 20)),
        ahead_(NumberOf(options, "--ahead", 4)),
        control_period_(std::chrono::milliseconds(NumberOf(options, "--control-ms", 50))),
        gradient_bytes_(NumberOf(options, "--gradient", 0)),
        gradient_period_(std::chrono::milliseconds(NumberOf(options, "--gradient-ms", 1000))) {
    RunOn(executor_.get(), [&] {
      ControlClientOptions client;
      client.addresses = {options.at("--control")};
      client.scheduler = scheduler_;
      client.identity = identity_;
      client.join_secret = kBenchSecret;
      client_ = NewControlClient(client, executor_.get(), upload_, download_, ControlHandlers());
      return 0;
    });
  }

 private:
  ControlClientHandlers ControlHandlers() {
    ControlClientHandlers handlers;
    handlers.on_open = [this] { SendControl(); };
    handlers.on_message = [this](const control::v1::SchedulerMessage& message) {
      control_ms_.push_back(MillisecondsSince(message.reduce().step()));
    };
    handlers.on_closed = [](const Status& status) { Die("control: " + status.ToString()); };
    return handlers;
  }

  void Go() override {
    LinkHandlers handlers;
    handlers.on_open = [this] {
      for (std::uint64_t i = 0; i < ahead_; ++i) SendFrame(FrameKind::kActivation, frame_bytes_);
      if (gradient_bytes_ > 0) SendGradient();
    };
    handlers.on_sent = [this](FrameKind kind, MicroBatchId, double) {
      if (kind == FrameKind::kActivation) SendFrame(kind, frame_bytes_);
    };
    handlers.on_closed = [](const Status& status) { Die("link: " + status.ToString()); };
    link_ = hub_->Dial(Target(peer_, link_address_), std::move(handlers));
  }

  void SendGradient() {
    SendFrame(FrameKind::kGradient, gradient_bytes_);
    executor_->PostAfter("gradient", gradient_period_, [this] {
      if (link_) SendGradient();
    });
  }

  void SendControl() {
    control::v1::PeerMessage message;
    message.mutable_step_ready()->set_step(Nanoseconds());
    if (const Status status = client_->Send(message); !status.ok()) Die(status.ToString());
    executor_->PostAfter("control", control_period_, [this] {
      if (client_) SendControl();
    });
  }

  json Counted() override {
    json counted = {{"controlMs", control_ms_}};
    control_ms_.clear();
    return counted;
  }
  void Stop() override { client_.reset(); }

  const PeerId peer_;
  const PeerId scheduler_;
  const std::string link_address_;
  const std::uint64_t frame_bytes_, ahead_;
  const Duration control_period_;
  const std::uint64_t gradient_bytes_;
  const Duration gradient_period_;
  std::unique_ptr<ControlClient> client_;
  std::vector<double> control_ms_;
};

int Main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  const auto options = OptionsOf(argc, argv);
  if (role == "receive") {
    Receiver(options).Serve();
  } else if (role == "send") {
    Sender(options).Serve();
  } else {
    Die("receive or send, not '" + role + "'; see the head of link_peer.cc");
  }
  return 0;
}

}  // namespace
}  // namespace shoal::net

int main(int argc, char** argv) { return shoal::net::Main(argc, argv); }
