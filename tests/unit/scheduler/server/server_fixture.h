// A server on loopback with a tiny model, and peers that talk to it.

#ifndef SHOAL_TESTS_UNIT_SCHEDULER_SERVER_SERVER_FIXTURE_H_
#define SHOAL_TESTS_UNIT_SCHEDULER_SERVER_SERVER_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "dataset/prepare/prepare_data.h"
#include "net/control/control.h"
#include "net/control/local_control.h"
#include "net/identity/identity.h"
#include "net/pacing/rate_limiter.h"
#include "scheduler/server/server.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/scheduler/server/zero_model.h"

namespace shoal::scheduler {

using Json = nlohmann::json;

inline constexpr Duration kCall = std::chrono::seconds(20);

// A peer that has said hello.
class TestPeer {
 public:
  TestPeer(SchedulerServer& server, const std::string& folder, const std::string& name) {
    const net::Invite invite = *net::ParseInvite(server.invite());
    net::ControlClientOptions options;
    options.addresses = {"127.0.0.1:" + std::to_string(server.port())};
    options.scheduler = invite.scheduler;
    options.identity = *net::LoadOrCreateIdentity(folder);
    options.join_secret = invite.secret;
    std::promise<void> opened;
    net::ControlClientHandlers handlers;
    handlers.on_open = [&] { opened.set_value(); };
    handlers.on_message = [this](const control::v1::SchedulerMessage& message) {
      if (message.has_plan() && !std::exchange(planned_, true)) plan_.set_value(message.plan());
      if (message.has_run_status() && !std::exchange(heard_, true)) member_.set_value();
    };
    handlers.on_closed = [](const Status&) {};
    const auto limiter = std::make_shared<net::RateLimiter>(&SystemClock());
    client_ = net::NewControlClient(options, control_.get(), limiter, limiter, handlers);
    EXPECT_EQ(opened.get_future().wait_for(kCall), std::future_status::ready);
    control_->Post("hello", [&] {
      control::v1::PeerMessage message;
      control::v1::Hello* hello = message.mutable_hello();
      hello->set_protocol(net::kProtocolVersion);
      hello->set_name(name);
      hello->set_listen_port(4000);
      EXPECT_TRUE(client_->Send(message).ok());
    });
    EXPECT_EQ(member_.get_future().wait_for(kCall), std::future_status::ready);
  }
  ~TestPeer() {
    std::promise<void> closed;
    control_->Post("close", [&] {
      client_.reset();
      closed.set_value();
    });
    closed.get_future().wait();
  }
  // Once.
  control::v1::Plan Plan() {
    auto plan = plan_.get_future();
    EXPECT_EQ(plan.wait_for(kCall), std::future_status::ready);
    return plan.get();
  }
  void Say(const control::v1::PeerMessage& message) {
    control_->Post("say", [this, message] { EXPECT_TRUE(client_->Send(message).ok()); });
  }
  // The artefact's bytes, which are what its hash says.
  std::string FetchWhole(const control::v1::ArtefactRef& artefact) {
    std::string bytes;
    std::promise<Status> fetched;
    control_->Post("fetch", [&] {
      client_->Fetch(
          artefact.hash(), 0,
          [&](std::string chunk) {
            bytes += chunk;
            return Status::Ok();
          },
          [&](Status status) { fetched.set_value(std::move(status)); });
    });
    const Status status = fetched.get_future().get();
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(HashOfText(bytes), artefact.hash());
    return bytes;
  }
  Status Upload(const std::string& bytes) {
    std::promise<Status> uploaded;
    control_->Post("upload", [&] {
      client_->Upload(
          HashOfText(bytes), bytes.size(),
          [&](std::uint64_t offset, std::size_t size) -> Result<std::string> {
            return bytes.substr(offset, size);
          },
          [&](Status status) { uploaded.set_value(std::move(status)); });
    });
    return uploaded.get_future().get();
  }

 private:
  static std::string HashOfText(const std::string& bytes) {
    const auto hash = storage::HashOf(std::as_bytes(std::span(bytes)));
    return std::string(hash.digest.begin(), hash.digest.end());
  }
  std::promise<control::v1::Plan> plan_;
  std::promise<void> member_;
  bool planned_ = false, heard_ = false;
  const std::unique_ptr<Executor> control_ = NewThreadExecutor("peer");
  std::unique_ptr<net::ControlClient> client_;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    WriteModel(folder_ + "/model");
    dataset::PrepareOptions options;
    options.tokenizer_directory = folder_ + "/model";
    std::ofstream(folder_ + "/text.txt") << Text();
    options.text_files = {folder_ + "/text.txt"};
    options.row_tokens = 16;
    options.output = folder_ + "/data.shoal";
    options.threads = 1;
    const auto report = dataset::PrepareData(options);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    config_.model = folder_ + "/model";
    config_.data = folder_ + "/data.shoal";
    config_.directory = folder_ + "/run";
    config_.stages = 1;
    config_.micro_batches = 2;
    config_.listen = "127.0.0.1:0";
    config_.status_listen = "127.0.0.1:0";
  }

  static std::string Text() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "The fish number " + std::to_string(i) + " swims.\n";
    return text;
  }
  std::unique_ptr<SchedulerServer> Open() {
    auto server = SchedulerServer::Open(config_, [this](const Status&) { stopped_ = true; });
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    return server.ok() ? *std::move(server) : nullptr;
  }
  std::string OpenError() {
    const auto server = SchedulerServer::Open(config_, [](const Status&) {});
    EXPECT_FALSE(server.ok());
    const std::string message = server.ok() ? "" : server.status().message();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  Json StatusNow() const {
    const auto text = net::LocalStatus(config_.directory + "/scheduler.sock", kCall);
    EXPECT_TRUE(text.ok()) << text.status().ToString();
    return text.ok() ? Json::parse(*text) : Json();
  }
  Result<net::CommandResult> Command(const std::string& name,
                                     const std::map<std::string, std::string>& arguments = {}) {
    return net::LocalCommand(config_.directory + "/scheduler.sock", name, arguments, kCall);
  }

  const test_support::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
  RunConfig config_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_UNIT_SCHEDULER_SERVER_SERVER_FIXTURE_H_
