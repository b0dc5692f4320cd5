// The server over real sockets and disk, on loopback.

#include "scheduler/server/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "dataset/prepare/prepare_data.h"
#include "model/families/open_model.h"
#include "net/base/host_port.h"
#include "net/identity/identity.h"
#include "net/pacing/rate_limiter.h"
#include "scheduler/server/artefact_ref.h"
#include "scheduler/server/run_report.h"
#include "tests/unit/scheduler/server/server_fixture.h"

namespace shoal::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

std::string HttpGet(const std::string& address, const std::string& path) {
  const auto target = net::ParseHostPort(address);
  if (!target.ok()) return "";
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(target->port);
  inet_pton(AF_INET, target->host.c_str(), &to.sin_addr);
  std::string reply;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) {
    const std::string request =
        "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\n\r\n";
    if (send(fd, request.data(), request.size(), 0) > 0) {
      char buffer[4096];
      ssize_t got = 0;
      while ((got = recv(fd, buffer, sizeof(buffer), 0)) > 0) {
        reply.append(buffer, static_cast<std::size_t>(got));
      }
    }
  }
  close(fd);
  return reply;
}

// Artefacts that are what adapters leave as it is.
std::ptrdiff_t BasesOf(const control::v1::Plan& plan) {
  return std::ranges::count_if(
      plan.artefacts(), [](const auto& artefact) { return artefact.name().ends_with(".base"); });
}

// The scheduler never serves its own damage: what is flipped, cut, empty or gone is made again.
void ExpectDamageIsMadeAgain(const std::string& directory, TestPeer* peer,
                             const control::v1::Plan& got) {
  for (int harm = 0; harm < 4; ++harm) {
    for (const control::v1::ArtefactRef& artefact : got.artefacts()) {
      std::string bytes = peer->FetchWhole(artefact);
      const std::string blob = directory + "/artefacts/blobs/" + FromProto(artefact).hash.ToHex();
      fs::remove(blob);  // the data's is a hard link
      if (harm == 0) bytes[bytes.size() / 2] ^= 1;
      if (harm == 1) bytes.resize(bytes.size() / 2);
      if (harm == 2) bytes.clear();
      if (harm < 3) std::ofstream(blob) << bytes;
      EXPECT_EQ(peer->FetchWhole(artefact).size(), artefact.size());
    }
  }
}

TEST_F(ServerTest, WritesItsFilesAndAnswersOverHttp) {
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  const auto invite = ReadFile(config_.directory + "/invite", 4096);
  ASSERT_TRUE(invite.ok());
  EXPECT_EQ(*invite, server->invite() + "\n");
  struct stat info {};
  for (const char* secret : {"invite", "join_secret", "identity.key"}) {
    ASSERT_EQ(stat((config_.directory + "/" + secret).c_str(), &info), 0) << secret;
    EXPECT_EQ(info.st_mode & 0777, 0600u) << secret;
  }
  ASSERT_EQ(stat(config_.directory.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  const auto parsed = net::ParseInvite(server->invite());
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->addresses,
            std::vector<std::string>{"127.0.0.1:" + std::to_string(server->port())});
  const auto address = ReadFile(config_.directory + "/status.addr", 4096);
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(*address, server->status_address() + "\n");

  const std::string status = HttpGet(server->status_address(), "/api/v1/status");
  EXPECT_THAT(status, HasSubstr("200 OK"));
  EXPECT_THAT(status, HasSubstr("{\"schemaVersion\":2,"));
  EXPECT_THAT(status, HasSubstr("waiting for 1 more peer"));
  EXPECT_THAT(HttpGet(server->status_address(), "/metrics"), HasSubstr("shoal_run_state"));
  EXPECT_THAT(HttpGet(server->status_address(), "/healthz"), HasSubstr("200 OK"));
  EXPECT_THAT(HttpGet(server->status_address(), "/readyz"), HasSubstr("200 OK"));
  EXPECT_THAT(HttpGet(server->status_address(), "/"), HasSubstr("<html"));
  EXPECT_THAT(HttpGet(server->status_address(), "/none"), HasSubstr("404"));
}

TEST_F(ServerTest, CommandsAndExport) {
  config_.auto_start = false;
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Command("invite", {{"standing", ""}})->message, server->invite());
  EXPECT_THAT(Command("pause")->message, HasSubstr("paused"));
  EXPECT_EQ(StatusNow()["run"]["state"], "paused");
  EXPECT_TRUE(Command("resume").ok());
  EXPECT_THAT(Command("dance").status().message(), HasSubstr("export"));

  EXPECT_FALSE(Command("export", {{"path", "relative"}}).ok());
  const std::string out = folder_ + "/out";
  const auto exported = Command("export", {{"path", out}});
  ASSERT_TRUE(exported.ok()) << exported.status().ToString();
  EXPECT_TRUE(fs::exists(out + "/model.safetensors"));
  EXPECT_TRUE(fs::exists(out + "/tokenizer.json"));
  EXPECT_TRUE(fs::exists(out + "/MODEL_CARD.md"));
  EXPECT_TRUE(model::OpenModel(out).ok());
  EXPECT_FALSE(Command("export", {{"path", out}}).ok()) << "nothing may be written over";
  EXPECT_THAT(exported->message, HasSubstr("; try it with: shoal try --model " + out));
  const std::string file = folder_ + "/file";
  ASSERT_TRUE(Command("export", {{"path", file}, {"as", "gguf"}, {"type", "q8_0"}}).ok());
  EXPECT_TRUE(fs::exists(file + "/model.gguf"));
  EXPECT_TRUE(fs::exists(file + "/Modelfile"));
  // What the run keeps of the model stands in for a folder that went away meanwhile.
  fs::rename(config_.model, config_.model + ".gone");
  for (const std::string kind : {"directory", "gguf"}) {
    const auto kept = Command("export", {{"path", folder_ + "/kept." + kind}, {"as", kind}});
    EXPECT_TRUE(kept.ok()) << kept.status().ToString();
  }
  fs::rename(config_.model + ".gone", config_.model);
  EXPECT_TRUE(fs::exists(folder_ + "/kept.directory/tokenizer.json"));
  const std::string none = folder_ + "/none";
  EXPECT_THAT(Command("export", {{"path", none}, {"as", "zip"}}).status().message(),
              HasSubstr("directory, merged, adapter, gguf"));
  EXPECT_FALSE(Command("export", {{"path", none}, {"as", "gguf"}, {"dtype", "bf16"}}).ok());
  EXPECT_FALSE(fs::exists(none));
  EXPECT_THAT(Command("stop")->message, HasSubstr("the run goes on when it is started again"));
  for (int i = 0; i < 1000 && !stopped_; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(stopped_);
}

TEST_F(ServerTest, AnExportWithoutTokenizerIsNotToBeTriedWithText) {
  for (const char* name : {"tokenizer.json", "vocab.json", "merges.txt"}) {
    fs::remove(config_.model + "/" + name);
  }
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  const auto exported = Command("export", {{"path", folder_ + "/out"}});
  ASSERT_TRUE(exported.ok()) << exported.status().ToString();
  EXPECT_THAT(exported->message, Not(HasSubstr("try it with")));
}

TEST_F(ServerTest, AFinishedRunDoesNotGoOn) {
  EXPECT_FALSE(Open()->finished());
  {
    const auto log = storage::OpenRocksEventLog(config_.directory + "/events").value();
    ASSERT_TRUE(log->Append(EncodeEvent(RunFinished{config_.steps})).ok());
  }
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  EXPECT_TRUE(server->finished());
  EXPECT_THAT(Command("start").status().message(), HasSubstr(ExportCommand(config_)));
  EXPECT_THAT(Command("stop")->message,
              AllOf(HasSubstr("the run is finished"), Not(HasSubstr("goes on"))));
}

TEST_F(ServerTest, AStartThatCannotListenIsNoEvent) {
  { ASSERT_NE(Open(), nullptr); }
  const auto starts = [this] {
    const auto events = ReadEvents(config_.directory);
    EXPECT_TRUE(events.ok()) << events.status().ToString();
    return events.ok() ? std::ranges::count_if(
                             *events,
                             [](const TimedEvent& timed) {
                               return std::holds_alternative<SchedulerStarted>(timed.event);
                             })
                       : -1;
  };
  RunConfig other = config_;
  other.directory = folder_ + "/other";
  const auto holder = SchedulerServer::Open(other, [](const Status&) {});
  ASSERT_TRUE(holder.ok()) << holder.status().ToString();
  const RunConfig good = config_;
  config_.listen = "127.0.0.1:" + std::to_string((*holder)->port());
  EXPECT_THAT(OpenError(), HasSubstr("in use"));
  config_ = good;
  config_.status_listen = (*holder)->status_address();
  EXPECT_THAT(OpenError(), HasSubstr("in use"));
  EXPECT_EQ(starts(), 0);
  config_ = good;
  { ASSERT_NE(Open(), nullptr); }
  EXPECT_EQ(starts(), 1);
}

TEST_F(ServerTest, RunAndInviteSurviveARestart) {
  std::string run, secret;
  {
    const auto server = Open();
    ASSERT_NE(server, nullptr);
    // The first tick begins the history.
    run = StatusNow()["run"]["id"];
    secret = net::ParseInvite(server->invite())->secret;
  }
  EXPECT_FALSE(fs::exists(config_.directory + "/status.addr"));
  {
    const auto server = Open();
    ASSERT_NE(server, nullptr);
    EXPECT_EQ(StatusNow()["run"]["id"], run);
    EXPECT_EQ(net::ParseInvite(server->invite())->secret, secret);
  }
  config_.seed = 5;
  EXPECT_THAT(OpenError(),
              testing::StartsWith("model, data, seed, stages, cuts or micro-batches differ"));
}

TEST_F(ServerTest, ItsLogSaysWhenItStartedAndHowSamplesAreDealtOut) {
  const auto now_ms = [] {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  };
  const std::uint64_t before = now_ms();
  for (int start = 0; start < 2; ++start) {
    const auto server = Open();
    ASSERT_NE(server, nullptr);
    const TestPeer anna(*server, folder_ + "/peer", "anna");
    // While it runs; its first event may still be on the way to the disk.
    for (int i = 0; i < 1000 && !ReadEvents(config_.directory).ok(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_TRUE(ReadEvents(config_.directory).ok());
  }
  const auto events = ReadEvents(config_.directory);
  ASSERT_TRUE(events.ok()) << events.status().ToString();
  for (const TimedEvent& timed : *events) {
    EXPECT_GE(timed.at_ms.value_or(0), before);
    EXPECT_LE(timed.at_ms.value_or(0), now_ms());
  }
  const auto audit = ReportAudit(*events, {});
  ASSERT_TRUE(audit.ok()) << audit.status().ToString();
  EXPECT_TRUE(audit->right);
  std::vector<std::string> kinds;
  const Json report = Json::parse(ReportEvents(*events, 0));
  for (const Json& entry : report["events"]) kinds.push_back(entry["kind"]);
  const auto first = std::ranges::find(kinds, "scheduler");
  EXPECT_EQ(kinds.front(), "began");
  EXPECT_EQ(std::count(kinds.begin(), first, "joined"), 1);
  EXPECT_EQ(std::count(first, kinds.end(), "joined"), 1);
  EXPECT_EQ(std::ranges::count(kinds, "generation"), 2);
}

TEST_F(ServerTest, APeerJoinsAndFetchesItsStage) {
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  TestPeer anna(*server, folder_ + "/peer", "anna");
  const control::v1::Plan got = anna.Plan();
  ASSERT_EQ(got.positions_size(), 1);
  EXPECT_EQ(got.positions(0).addresses(0), "127.0.0.1:4000");
  ASSERT_GT(got.artefacts_size(), 2);
  EXPECT_EQ(BasesOf(got), 0);
  ExpectDamageIsMadeAgain(config_.directory, &anna, got);
  EXPECT_EQ(StatusNow()["members"][0]["name"], "anna");
  EXPECT_EQ(StatusNow()["run"]["state"], "preparing");
}

TEST_F(ServerTest, APeerFetchesWhatAdaptersLeaveAsItIs) {
  config_.adapter_kind = "lora";
  config_.base = "nf4";
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  TestPeer anna(*server, folder_ + "/peer", "anna");
  const control::v1::Plan got = anna.Plan();
  // Each part has one, and then there is the data.
  ASSERT_GT(got.artefacts_size(), 2);
  EXPECT_EQ(BasesOf(got), (got.artefacts_size() - 1) / 2);
  ExpectDamageIsMadeAgain(config_.directory, &anna, got);
}

TEST_F(ServerTest, PeersUploadNothingButWhatTheRunNeeds) {
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  TestPeer anna(*server, folder_ + "/anna", "anna");
  const control::v1::ArtefactRef needed = anna.Plan().artefacts(0);
  const Status refused = anna.Upload("anything");
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(refused.message(), HasSubstr("the run does not need the artefact"));
  const std::string folder = config_.directory + "/artefacts/";
  EXPECT_TRUE(fs::is_empty(folder + "partial/"));
  const std::string bytes = anna.FetchWhole(needed);
  EXPECT_TRUE(anna.Upload(bytes).ok()) << "it is here";
  // Where the disk fails, no peer is told where its files are.
  const std::string name = storage::HashOf(std::as_bytes(std::span(bytes))).ToHex();
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() == name) fs::remove(entry.path());
  }
  ASSERT_EQ(::mkfifo((folder + "partial/" + name).c_str(), 0600), 0);
  EXPECT_EQ(anna.Upload(bytes).message(), "the scheduler's disk failed; its log says how");
}

TEST_F(ServerTest, ARunGoesOnWithoutItsModelAndDataFromWhatItsFolderKeeps) {
  std::string run;
  {
    const auto server = Open();
    ASSERT_NE(server, nullptr);
    run = server->config().run.ToHex();
  }
  const std::string weights = config_.model + "/model.safetensors";
  const std::string whole = ReadFile(weights, 1 << 26).value();
  std::string flipped = whole;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  std::ofstream(weights) << flipped;
  EXPECT_THAT(OpenError(),
              AllOf(HasSubstr("differ from those that run " + run), HasSubstr("changed since: "),
                    HasSubstr(" of " + config_.model), HasSubstr("moved away")));
  std::ofstream(weights) << whole;
  fs::rename(config_.model, config_.model + "-moved");
  fs::rename(config_.data, config_.data + "-moved");
  {
    const auto server = Open();
    ASSERT_NE(server, nullptr);
    EXPECT_EQ(server->config().run.ToHex(), run);
    EXPECT_EQ(StatusNow()["run"]["state"], "waiting");
    const auto exported = Command("export", {{"path", folder_ + "/tuned"}});
    ASSERT_TRUE(exported.ok()) << exported.status().ToString();
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
      EXPECT_TRUE(fs::exists(folder_ + "/tuned/" + name)) << name;
    }
  }
  // Then the artefacts, too: the run says what is missing, and waits for peers that have it.
  fs::remove_all(config_.directory + "/artefacts");
  {
    ASSERT_NE(Open(), nullptr);
    const auto server = Open();
    EXPECT_THAT(StatusNow()["run"]["reason"].get<std::string>(),
                HasSubstr("7 artefacts are damaged or gone at the scheduler"));
  }
  // Starting anew needs the model; the old run loses nothing by the attempt.
  EXPECT_THAT(SchedulerServer::Open(
                  config_, [](const Status&) {}, History::kForget)
                  .status()
                  .message(),
              HasSubstr(config_.model + " is no folder"));
  EXPECT_FALSE(fs::exists(config_.directory + "/set-aside-1"));
  fs::rename(config_.model + "-moved", config_.model);
  fs::rename(config_.data + "-moved", config_.data);
  { ASSERT_NE(Open(), nullptr); }  // makes the artefacts again
  fs::rename(config_.model, config_.model + "-moved");
  const std::string kept = config_.directory + "/origin/model/config.json";
  std::ofstream(kept, std::ios::app) << " ";
  EXPECT_THAT(OpenError(), AllOf(HasSubstr(config_.model + " is no folder"),
                                 HasSubstr(kept + " is damaged"), HasSubstr("put model and data")));
  fs::remove_all(config_.directory + "/origin");
  EXPECT_THAT(OpenError(), AllOf(HasSubstr(config_.model + " is no folder"),
                                 HasSubstr("origin.json"), HasSubstr("put model and data")));
}

TEST_F(ServerTest, WhatIsKeptOfModelAndDataIsReadWholeOrNotAtAll) {
  { ASSERT_NE(Open(), nullptr); }
  const std::string path = config_.directory + "/origin/origin.json";
  const std::string whole = ReadFile(path, 1 << 20).value();
  const auto origin = ReadOrigin(config_.directory);
  ASSERT_TRUE(origin.ok()) << origin.status().ToString();
  EXPECT_EQ(origin->artefacts.count("data"), 1u);
  EXPECT_GT(origin->data.train_rows, 0u);
  for (std::size_t cut = 0; cut < whole.size(); cut += 31) {
    std::ofstream(path) << whole.substr(0, cut);
    EXPECT_EQ(ReadOrigin(config_.directory).status().code(), StatusCode::kDataLoss) << cut;
    std::string flipped = whole;
    flipped[cut] = static_cast<char>(flipped[cut] ^ 4);
    std::ofstream(path) << flipped;
    EXPECT_EQ(ReadOrigin(config_.directory).status().code(), StatusCode::kDataLoss) << cut;
  }
  RunOrigin of_classes = *origin;
  of_classes.data.kind = dataset::DataKind::kClasses;
  of_classes.data.segmented = true;
  of_classes.data.classes = 3;
  ASSERT_TRUE(KeepOrigin(config_.directory, of_classes).ok());
  const auto again = ReadOrigin(config_.directory);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->data.kind, dataset::DataKind::kClasses);
  EXPECT_TRUE(again->data.segmented);
  EXPECT_EQ(again->data.classes, 3u);
}

TEST_F(ServerTest, AMissingHistoryIsNamedAndForgottenOnlyWhenToldSo) {
  std::string first;
  {
    const auto server = Open();
    ASSERT_NE(server, nullptr);
    first = server->config().run.ToHex();
  }
  // No checkpoint yet: nothing is lost with the history.
  fs::remove_all(config_.directory + "/events");
  { ASSERT_NE(Open(), nullptr); }
  const std::string blob = config_.directory + "/artefacts/blobs/" + std::string(64, 'a');
  std::ofstream(blob) << "of a checkpoint";
  { ASSERT_NE(Open(), nullptr); }  // which the history names
  fs::remove_all(config_.directory + "/events");
  EXPECT_THAT(OpenError(), AllOf(HasSubstr("/events is empty"), HasSubstr("holds 1 files"),
                                 HasSubstr("--forget-history")));
  const auto forget = [&] {
    const auto server = SchedulerServer::Open(
        config_, [](const Status&) {}, History::kForget);
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    return server.ok() ? (*server)->config().run.ToHex() : "";
  };
  EXPECT_NE(forget(), first);
  EXPECT_TRUE(
      fs::exists(config_.directory + "/set-aside-1/artefacts/blobs/" + std::string(64, 'a')));
  EXPECT_FALSE(fs::exists(blob));
  EXPECT_NE(Open(), nullptr);
  // A damaged one says the same; nothing that was set aside is lost.
  for (const auto& file : fs::directory_iterator(config_.directory + "/events")) {
    if (file.path().filename().string().starts_with("MANIFEST")) {
      std::ofstream(file.path()) << "no manifest";
    }
  }
  EXPECT_THAT(OpenError(),
              AllOf(HasSubstr("history of this run is damaged"), HasSubstr("--forget-history")));
  forget();
  EXPECT_TRUE(fs::exists(config_.directory + "/set-aside-2/events"));
  EXPECT_TRUE(fs::exists(config_.directory + "/set-aside-1/events"));
  const auto running = Open();
  ASSERT_NE(running, nullptr);
  const auto second = SchedulerServer::Open(
                          config_, [](const Status&) {}, History::kForget)
                          .status();
  EXPECT_THAT(second.message(), HasSubstr("another shoal-scheduler"));
}

TEST_F(ServerTest, BadConfigurationsAreNamed) {
  RunConfig good = config_;
  config_.model = folder_ + "/none";
  EXPECT_THAT(OpenError(), HasSubstr("none"));
  config_ = good;
  config_.data = folder_ + "/text.txt";
  EXPECT_THAT(OpenError(), HasSubstr("text.txt"));
  config_ = good;
  config_.stages = 200;
  EXPECT_THAT(OpenError(), HasSubstr("layers"));
  config_ = good;
  config_.micro_batch_rows = 60000;
  EXPECT_THAT(OpenError(), HasSubstr("micro_batch_rows"));
  config_ = good;
  config_.stages = 2;
  config_.cuts = {99};
  EXPECT_THAT(OpenError(), HasSubstr("cuts"));
  config_ = good;
  config_.forward = "aqsgd:bits=9";
  EXPECT_THAT(OpenError(), AllOf(HasSubstr("codecs.forward"), HasSubstr("bits")));
  config_ = good;
  config_.backward = "aqsgd:bits=4";
  EXPECT_THAT(OpenError(), HasSubstr("is not right on average"));
  config_ = good;
  // A tokenizer that lacks the last merge.
  const auto merges = ReadFile(folder_ + "/model/merges.txt", 1 << 24);
  ASSERT_TRUE(merges.ok());
  std::ofstream(folder_ + "/model/merges.txt")
      << merges->substr(0, merges->find_last_of('\n', merges->size() - 2) + 1);
  fs::remove(folder_ + "/model/tokenizer.json");
  EXPECT_THAT(OpenError(), HasSubstr("another tokenizer"));
}

TEST_F(ServerTest, ADamagedJoinSecretIsNamed) {
  { ASSERT_NE(Open(), nullptr); }
  const std::string path = config_.directory + "/join_secret";
  for (const std::string& text : {std::string(), std::string(300, 'a'), std::string(32, '\xff')}) {
    std::ofstream(path) << text;
    EXPECT_THAT(OpenError(), HasSubstr(path + " is damaged; delete it"));
  }
}

TEST_F(ServerTest, TakenPortsAndFoldersAreNamed) {
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(OpenError(), HasSubstr(config_.directory));
  config_.directory = folder_ + "/other";
  config_.listen = "127.0.0.1:" + std::to_string(server->port());
  EXPECT_THAT(OpenError(), HasSubstr(std::to_string(server->port())));
  config_.listen = "127.0.0.1:0";
  config_.status_listen = server->status_address();
  EXPECT_THAT(OpenError(), HasSubstr(server->status_address()));
}

}  // namespace
}  // namespace shoal::scheduler
