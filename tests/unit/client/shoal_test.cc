// The program shoal as a user starts it, where no daemon runs.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/base/paths.h"
#include "client/base/process.h"
#include "client/finding.h"
#include "common/executor.h"
#include "common/file.h"
#include "common/version.h"
#include "net/control/local_control.h"
#include "net/identity/identity.h"
#include "tests/support/on_executor.h"
#include "tests/unit/client/shoal_program.h"

namespace shoal::client {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(Shoal, HelpNamesEveryCommand) {
  const Outcome run = Start("--help");
  EXPECT_EQ(run.exit, 0);
  for (const char* command :
       {"demo",   "prepare", "init-model", "convert", "swarm",  "join",  "status",
        "top",    "pause",   "resume",     "leave",   "set",    "logs",  "version",
        "doctor", "eval",    "try",        "chat",    "health", "store", "bench"}) {
    EXPECT_THAT(run.out, HasSubstr("\n  " + std::string(command) + " ")) << command;
  }
  EXPECT_EQ(Start("demo --help").exit, 0);
  EXPECT_THAT(Start("swarm --help").out,
              AllOf(HasSubstr("init"), HasSubstr("start"), HasSubstr("export"), HasSubstr("audit"),
                    HasSubstr("events")));
  EXPECT_THAT(Start("swarm audit --help").out,
              AllOf(HasSubstr("--sample"), HasSubstr("shoal swarm audit --dir ./run --sample 17")));
  EXPECT_THAT(Start("help swarm events").out, HasSubstr("shoal swarm events --dir ./run --last"));
}

// The most that deploy/run.toml says of a setting: "# ... (a whole number, 1 to 256)".
int MostInRunFile(const std::string& setting) {
  const std::string path = std::string(std::getenv("SHOAL_SOURCE_DIR")) + "/deploy/run.toml";
  const std::string text = ReadFile(path, 1 << 20).value();
  const std::size_t end = text.find(")\n" + setting + " = ");
  if (end == std::string::npos) return -1;
  return std::atoi(text.c_str() + text.rfind(' ', end) + 1);
}

TEST_F(Shoal, InitTakesAsManyStagesAndPipelinesAsARunFile) {
  for (const char* setting : {"stages", "pipelines"}) {
    const int most = MostInRunFile(setting);
    ASSERT_GT(most, 1) << setting;
    const auto start = [&](int value) {
      return Start("swarm init --model none --data none --dir " + At("run") + " --" + setting +
                   " " + std::to_string(value));
    };
    EXPECT_NE(start(most).exit, 2) << setting;
    EXPECT_EQ(start(most + 1).exit, 2) << setting;
  }
}

TEST_F(Shoal, WrongUsageExitsWithTwo) {
  for (const char* arguments :
       {"", "fly", "status --fly", "demo --stages 0", "demo --link 5", "set upload", "set --for 2h",
        "join", "swarm", "swarm status", "swarm audit", "swarm audit --dir d --sample -1",
        "swarm events --dir d --last x", "store", "store drop", "store drop --all --run 1",
        "logs -n none"}) {
    const Outcome run = Start(arguments);
    EXPECT_EQ(run.exit, 2) << arguments << run.error;
    ExpectOneLine(run);
  }
}

TEST_F(Shoal, WrongUsageOfWhatShoalRunDoesIsOneLine) {
  for (const char* arguments :
       {"try", "try --model m", "chat", "chat --model m --json", "eval", "eval --model m",
        "eval --model m --data d --answers a", "eval --model m --data d --show", "prepare"}) {
    const Outcome run = Start(arguments);
    EXPECT_EQ(run.exit, 2) << arguments << run.error;
    EXPECT_EQ(run.out, "") << arguments;
    EXPECT_THAT(run.error, AllOf(StartsWith("shoal-run: "), HasSubstr(" --help`"))) << arguments;
    EXPECT_EQ(std::count(run.error.begin(), run.error.end(), '\n'), 1) << run.error;
  }
}

TEST_F(Shoal, BenchChurnIsWhatShoaldDoes) {
  EXPECT_EQ(Start("bench").exit, 2);
  const Outcome wrong = Start("bench churn --fly");
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.error, AllOf(StartsWith("shoal bench churn: "), HasSubstr("--fly"),
                                 HasSubstr("`shoal bench churn --help`")));
  EXPECT_THAT(Start("help bench churn").out, HasSubstr("shoal bench churn --trace g4dn_2020.csv"));
  const Outcome churn = Start(
      "bench churn --kill-every 5m --machines 4 --for 10m --stages 2 --micro-batches 2 --rows 8 "
      "--json");
  EXPECT_EQ(churn.exit, 0) << churn.error;
  EXPECT_THAT(churn.out, HasSubstr("\"goodput\""));
}

TEST_F(Shoal, WrongUsageNamesTheHelpToRead) {
  EXPECT_THAT(Start("fly").error, AllOf(HasSubstr("'fly'"), HasSubstr("`shoal --help`")));
  EXPECT_THAT(Start("").error, HasSubstr("a command is missing"));
  EXPECT_THAT(Start("swarm").error, HasSubstr("`shoal swarm --help`"));
  EXPECT_THAT(Start("status --fly").error,
              AllOf(HasSubstr("--fly"), HasSubstr("`shoal status --help`")));
}

TEST_F(Shoal, AFolderWithoutHistoryHasNothingToLookBackAt) {
  for (const char* command : {"audit", "events", "audit --json"}) {
    const Outcome run = Start("swarm " + std::string(command) + " --dir " + At("none"));
    EXPECT_EQ(run.exit, 1) << run.error;
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.error, StartsWith("shoal-scheduler: there is no history of a run in "));
    EXPECT_FALSE(fs::exists(At("none")));
  }
}

TEST_F(Shoal, SaysItsVersion) {
  const Outcome run = Start("version --json");
  EXPECT_EQ(run.exit, 0);
  const json version = json::parse(run.out, nullptr, false);
  EXPECT_EQ(version["schemaVersion"], 1);
  EXPECT_EQ(version["version"], kVersion);
  EXPECT_EQ(Start("version").out, std::string("shoal ") + kVersion + "\n");
  EXPECT_EQ(Start("--version").out, std::string("shoal ") + kVersion + "\n");
}

TEST_F(Shoal, WithoutDaemonItSaysHowToStartOne) {
  for (const char* arguments : {"status", "status --json", "top --rounds 1", "pause", "resume",
                                "leave", "set upload=5mbit", "health"}) {
    const Outcome run = Start(arguments);
    EXPECT_EQ(run.exit, 3) << arguments;
    ExpectOneLine(run);
    EXPECT_THAT(run.error, AllOf(HasSubstr("no shoald runs in " + At("state")),
                                 HasSubstr("shoal join INVITE")));
  }
  // A member needs no invite any more.
  fs::create_directories(At("state"));
  ASSERT_TRUE(WriteFileAtomic(At("state/overlay.json"), R"({"invite": "shoal1_"})").ok());
  EXPECT_THAT(Start("status").error, HasSubstr("again with `shoald --dir " + At("state") + "`"));
  const Outcome logs = Start("logs");
  EXPECT_EQ(logs.exit, 3);
  ExpectOneLine(logs);
  EXPECT_THAT(logs.error, HasSubstr("shoal join INVITE"));
}

TEST_F(Shoal, APipeInPlaceOfTheLogHangsNobody) {
  fs::create_directories(At("state"));
  ASSERT_EQ(::mkfifo(At("state/shoald.log").c_str(), 0600), 0);
  for (const char* arguments : {"logs", "logs --follow"}) {
    const Outcome run = Start(arguments);
    EXPECT_NE(run.exit, 0);
    ExpectOneLine(run);
    EXPECT_THAT(run.error, HasSubstr("shoald.log is not a regular file"));
  }
}

TEST_F(Shoal, AFolderThatIsNoRunsIsNotSaidToHaveOne) {
  const Outcome run = Start("swarm status --dir " + At("elsewhere"));
  EXPECT_EQ(run.exit, 3);
  ExpectOneLine(run);
  EXPECT_THAT(run.error, HasSubstr("or name the folder of a run with --dir"));
}

TEST_F(Shoal, WithoutSchedulerItSaysHowToStartOne) {
  fs::create_directories(At("run"));
  ASSERT_TRUE(WriteFileAtomic(At("run/run.toml"), "").ok());
  for (const char* name : {"status", "start", "pause", "resume", "invite", "invites", "members",
                           "revoke 01ab", "kick 01ab", "stop"}) {
    const Outcome run = Start(std::string("swarm ") + name + " --dir " + At("run"));
    EXPECT_EQ(run.exit, 3) << name;
    ExpectOneLine(run);
    EXPECT_THAT(run.error, HasSubstr("shoal-scheduler --config " + At("run") + "/run.toml"));
  }
}

TEST_F(Shoal, MalformedInvitesAreRefusedBeforeAnythingStarts) {
  for (const char* invite : {"hello", "shoal1_", "shoal1_AAAA", "shoal2_AAAA", "-"}) {
    const Outcome run = Start(std::string("join ") + invite);
    EXPECT_EQ(run.exit, 2) << invite;
    ExpectOneLine(run);
  }
  const Outcome missing = Start("join file:" + At("nothing"));
  EXPECT_EQ(missing.exit, 2);
  EXPECT_THAT(missing.error, HasSubstr(At("nothing")));
  EXPECT_FALSE(fs::exists(At("state")));
}

TEST_F(Shoal, DoctorFindsTheProgramsAndPrintsJson) {
  const Outcome run = Start("doctor --json");
  EXPECT_TRUE(run.exit == 0 || run.exit == 1) << run.exit;
  const json report = json::parse(run.out, nullptr, false);
  ASSERT_TRUE(report.is_object()) << run.out;
  EXPECT_EQ(report["schemaVersion"], 1);
  bool bad = false;
  std::map<std::string, json> findings;
  for (const json& finding : report["findings"]) {
    findings[finding["check"].get<std::string>()] = finding;
    EXPECT_THAT((std::vector<std::string>{"ok", "hint", "bad"}),
                testing::Contains(finding["verdict"].get<std::string>()));
    if (finding["verdict"] != "ok") {
      EXPECT_NE(finding["fix"], "") << finding;
    }
    bad = bad || finding["verdict"] == "bad";
  }
  EXPECT_EQ(run.exit, bad ? 1 : 0);
  EXPECT_EQ(findings["shoal-run"]["verdict"], "ok");
  EXPECT_EQ(findings["daemon"]["text"], "does not run");
  for (const char* check :
       {"shoald", "shoal-scheduler", "cores", "memory", "disk", "gpu", "tcp", "identity"}) {
    EXPECT_EQ(findings.count(check), 1u) << check;
  }
  std::map<std::string, double> timeouts;
  for (const json& row : report["timeouts"]) timeouts[row["name"]] = row["seconds"];
  EXPECT_EQ(timeouts["peer silent"], 6);
  EXPECT_LT(timeouts["operation"], timeouts["step stalled"]);
  EXPECT_FALSE(fs::exists(At("state"))) << "looking must not change anything";
}

TEST_F(Shoal, DoctorFindsAKeyThatOthersCanRead) {
  fs::create_directories(At("state"));
  ASSERT_TRUE(WriteFileAtomic(At("state/identity.key"), "secret", 0644).ok());
  const Outcome run = Start("doctor");
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.out, HasSubstr("chmod 600 " + At("state/identity.key")));
}

TEST_F(Shoal, DoctorSaysWhatTheRunningPeerFinds) {
  fs::create_directories(At("state"));
  const auto doctor_of = [this](const std::string& health, const std::string& arguments) {
    const auto executor = NewThreadExecutor("peer");
    net::LocalHandlers handlers;
    handlers.on_status = [health](const std::function<void(std::string)>& reply) {
      reply("{\"limits\":{\"peerTimeoutMs\":30000},\"health\":[" + health + "]}");
    };
    std::unique_ptr<net::LocalServer> server;
    test_support::RunOn(executor.get(), [&] {
      auto made = net::NewLocalServer(At("state/shoald.sock"), executor.get(), handlers);
      EXPECT_TRUE(made.ok()) << made.status().ToString();
      if (made.ok()) server = *std::move(made);
    });
    const std::string out = Start("doctor" + arguments).out;
    test_support::RunOn(executor.get(), [&] { server.reset(); });
    return out;
  };
  const std::string sick =
      R"({"code":"delta_guard","text":"it sends\u001b whole activations","fix":"lower the rate"})";
  EXPECT_THAT(doctor_of(sick, ""), AllOf(HasSubstr("delta_guard"),
                                         HasSubstr("it sends? whole activations; lower the rate"),
                                         HasSubstr("= 30.0s, as the peer here was told")));
  const json well = json::parse(doctor_of("", " --json"), nullptr, false);
  ASSERT_TRUE(well.is_object());
  EXPECT_EQ(well["findings"].back()["check"], "health");
  EXPECT_EQ(well["findings"].back()["verdict"], "ok");
  EXPECT_THAT(doctor_of("3,null", ""), HasSubstr("health"));
}

TEST_F(Shoal, HelpIsACommandToo) {
  const Outcome help = Start("help swarm init");
  EXPECT_EQ(help.exit, 0) << help.error;
  EXPECT_EQ(help.out, Start("swarm init --help").out);
  EXPECT_THAT(Start("help").out, HasSubstr("\n  swarm "));
  EXPECT_THAT(Start("help eval").out, HasSubstr("--model"));
  EXPECT_EQ(Start("help stauts").exit, 2);
  EXPECT_THAT(Start("help stauts").error, HasSubstr("did you mean 'status'?"));
  for (const char* mistyped : {"stauts --help", "swarm stauts --help", "stauts --version"}) {
    const Outcome asked = Start(mistyped);
    EXPECT_EQ(asked.exit, 2) << mistyped;
    ExpectOneLine(asked);
    EXPECT_THAT(asked.error, HasSubstr("did you mean 'status'?")) << mistyped;
  }
}

TEST_F(Shoal, AResultThatCannotBeWrittenIsAFailure) {
  const std::string command =
      std::string(std::getenv("SHOAL_BIN")) + "/shoal version >/dev/full 2>" + At("error");
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(ReadFile(At("error"), 1000).value(), HasSubstr("No space left on device"));
}

TEST_F(Shoal, CountsOfARunBeginAtOne) {
  for (const char* flag : {"--steps", "--rows", "--micro-batches"}) {
    const Outcome run =
        Start("swarm init --model m --data d --dir " + At("run") + " " + flag + " 0");
    EXPECT_EQ(run.exit, 2) << flag;
    EXPECT_THAT(run.error, HasSubstr(flag));
    EXPECT_FALSE(fs::exists(At("run")));
  }
}

TEST_F(Shoal, MemoryOfAPeerNeedsItsUnit) {
  const Outcome run = Start("swarm init --model m --data d --memory 8 --dir " + At("run"));
  EXPECT_EQ(run.exit, 2);
  ExpectOneLine(run);
  EXPECT_THAT(run.error, AllOf(HasSubstr("--memory"), HasSubstr("for example 8GiB")));
  EXPECT_FALSE(fs::exists(At("run")));
}

TEST_F(Shoal, JoinRefusesARateBeforeAnythingStarts) {
  const Outcome run = Start("join shoal1_AAAA --upload 20Mbps");
  EXPECT_EQ(run.exit, 2);
  EXPECT_THAT(run.error, AllOf(HasSubstr("--upload"), HasSubstr("20mbit")));
}

// The scheduler was started in another folder than `shoal swarm export --out ./tuned`.
TEST_F(Shoal, ExportSendsAnAbsolutePath) {
  fs::create_directories(At("run"));
  const auto executor = NewThreadExecutor("run");
  net::LocalHandlers handlers;
  std::string path;
  bool writes = true;
  handlers.on_command = [&](const std::string&, const std::map<std::string, std::string>& given,
                            const std::function<void(Result<net::CommandResult>)>& reply) {
    path = given.at("path");
    if (writes) fs::create_directories(path);
    reply(net::CommandResult{"exported", ""});
  };
  std::unique_ptr<net::LocalServer> server;
  test_support::RunOn(executor.get(), [&] {
    server = net::NewLocalServer(At("run/scheduler.sock"), executor.get(), handlers).value();
  });
  const fs::path here = fs::current_path();
  for (const char* out : {"./tuned", "tuned", "sub/../tuned/", "tuned/"}) {
    fs::current_path(folder_);
    EXPECT_EQ(Start(std::string("swarm export --dir run --out ") + out).exit, 0) << out;
    fs::current_path(here);
    test_support::RunOn(executor.get(), [&] {
      EXPECT_EQ(path, fs::canonical(folder_).string() + "/tuned") << out;
    });
  }
  // A service has a /tmp of its own, and a container has all folders of its own.
  writes = false;
  const Outcome elsewhere = Start("swarm export --dir " + At("run") + " --out " + At("no"));
  EXPECT_EQ(elsewhere.exit, 1);
  EXPECT_THAT(elsewhere.error,
              AllOf(HasSubstr("is here"), HasSubstr("give one below " + At("run"))));
  test_support::RunOn(executor.get(), [&] { server.reset(); });
}

TEST_F(Shoal, JoinGivesItsFlagsToAShoaldThatRuns) {
  fs::create_directories(At("state"));
  const auto executor = NewThreadExecutor("peer");
  net::LocalHandlers handlers;
  std::map<std::string, std::string> got;
  handlers.on_command = [&got](const std::string&, const std::map<std::string, std::string>& given,
                               const std::function<void(Result<net::CommandResult>)>& reply) {
    got = given;
    reply(net::CommandResult{"joined", ""});
  };
  std::unique_ptr<net::LocalServer> server;
  test_support::RunOn(executor.get(), [&] {
    server = net::NewLocalServer(At("state/shoald.sock"), executor.get(), handlers).value();
  });
  net::Invite invite;
  invite.secret = std::string(32, 'a');
  invite.addresses = {"127.0.0.1:1"};
  const std::string text = net::FormatInvite(invite);
  // A line break that came along with the paste, in each of the ways that an invite is given.
  const std::string broken =
      text.substr(0, 20) + "\n  " + text.substr(20, 9) + "\r\n" + text.substr(29);
  ASSERT_TRUE(WriteFileAtomic(At("invite"), broken).ok());
  for (const std::string& given : {"'" + broken + "'", "file:" + At("invite"), std::string("-")}) {
    const std::string input = given == "-" ? "cat " + At("invite") + " | " : "";
    const std::string command = input + std::getenv("SHOAL_BIN") + "/shoal join " + given +
                                " --upload 20mbit --name attic >/dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << given;
    test_support::RunOn(executor.get(), [&] {
      EXPECT_EQ(got, (std::map<std::string, std::string>{
                         {"invite", text}, {"upload", "20mbit"}, {"name", "attic"}}));
      got.clear();
    });
  }
  test_support::RunOn(executor.get(), [&] { server.reset(); });
}

TEST(Doctor, ACardThatTrainingWouldNotUseIsBad) {
  const Finding good = JudgeGpu({true, true, true, R"({"cudaBuild":true,"codecTrouble":"",
      "devices":[{"name":"NVIDIA GeForce RTX 3060","computeCapability":"8.6",
                  "memoryBytes":12884901888,"freeMemoryBytes":11811160064,
                  "stageMemoryBytes":10737418240,"stageMemoryTrouble":"","compute":"bf16"}]})"});
  EXPECT_EQ(good.verdict, Verdict::kGood);
  EXPECT_EQ(good.text,
            "NVIDIA GeForce RTX 3060 (compute capability 8.6, 11.0 GiB of 12.0 GiB free; a stage "
            "takes up to 10.0 GiB and computes in bf16)");
  const Finding too_much = JudgeGpu({true, true, true, R"({"cudaBuild":true,"codecTrouble":"",
      "devices":[{"name":"NVIDIA GeForce RTX 3060",
                  "stageMemoryTrouble":"limits.device_memory is 13.0 GiB"}]})"});
  EXPECT_EQ(too_much.verdict, Verdict::kBad);
  EXPECT_THAT(too_much.text, HasSubstr("but limits.device_memory is 13.0 GiB"));
  const Finding no_kernels = JudgeGpu({true, true, true, R"({"cudaBuild":true,
      "codecTrouble":"no kernel image","devices":[{"name":"Tesla K80"}]})"});
  EXPECT_EQ(no_kernels.verdict, Verdict::kBad);
  EXPECT_THAT(no_kernels.text, HasSubstr("no kernel image"));
  const Finding old_driver = JudgeGpu({true, true, true, R"({"cudaBuild":true,
      "cudaRuntime":"13.0","cudaDriver":"12.2","devices":[]})"});
  EXPECT_EQ(old_driver.verdict, Verdict::kBad);
  EXPECT_THAT(old_driver.text, HasSubstr("driver is for CUDA 12.2, this build is for 13.0"));
  EXPECT_EQ(JudgeGpu({true, false, false, ""}).verdict, Verdict::kBad);
  EXPECT_EQ(JudgeGpu({true, true, false, ""}).verdict, Verdict::kBad);
  EXPECT_EQ(JudgeGpu({true, true, true, "what"}).verdict, Verdict::kHint);
  const Finding cpu_build = JudgeGpu({true, true, true, R"({"cudaBuild":false})"});
  EXPECT_EQ(cpu_build.verdict, Verdict::kBad);
  EXPECT_THAT(cpu_build.text, HasSubstr("CPU only"));
  EXPECT_THAT(cpu_build.fix, HasSubstr("./x build cuda"));
  EXPECT_EQ(JudgeGpu({}).verdict, Verdict::kHint);
}

TEST(Doctor, NamesTheLibraryThatIsMissing) {
  const Finding cuda = JudgeStart("shoald",
                                  "/opt/shoald: error while loading shared libraries: "
                                  "libcudnn.so.9: cannot open shared object file\n");
  EXPECT_EQ(cuda.text, "does not start: libcudnn.so.9 is missing");
  EXPECT_THAT(cuda.fix, HasSubstr("./x setup cuda"));
  const Finding other = JudgeStart("shoald",
                                   "x: error while loading shared libraries: "
                                   "librocksdb.so.7: cannot open shared object file\n");
  EXPECT_THAT(other.text, HasSubstr("librocksdb.so.7"));
  EXPECT_EQ(other.fix, "./x setup installs what shoal needs");
  EXPECT_EQ(JudgeStart("shoald", "killed").text, "does not start");
}

TEST(Process, CapturesBothOutputs) {
  const auto both = RunAndCaptureAll({"/bin/sh", "-c", "echo a; echo b >&2; exit 3"}, 100);
  ASSERT_TRUE(both.ok()) << both.status().message();
  EXPECT_EQ(both->output, "a\nb\n");
  EXPECT_EQ(both->exit_code, 3);
}

bool Has(const std::vector<Finding>& findings, const std::string& check, Verdict verdict) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.check == check && finding.verdict == verdict;
  });
}

TEST(Doctor, WhatAPeerCannotReachIsBadAndNothingIsWell) {
  const auto findings = JudgePeer(
      R"({"state":"joining","scheduler":{"connected":false,"addresses":["h:1"],"trouble":"x"},
          "health":[{"code":"scheduler_unreachable","severity":"error","text":"x","fix":"y"}]})");
  EXPECT_TRUE(Has(findings, "scheduler_unreachable", Verdict::kBad));
  EXPECT_FALSE(Has(findings, "health", Verdict::kGood));
  const auto links = JudgePeer(
      R"({"state":"syncing","scheduler":{"connected":true,"addresses":["h:1"],"trouble":""},
          "links":[{"name":"attic","channel":"boundary/0/0","connected":false},
                   {"name":"den","channel":"boundary/0/1","connected":true}],"health":[]})");
  EXPECT_TRUE(Has(links, "scheduler", Verdict::kGood));
  EXPECT_TRUE(Has(links, "neighbour", Verdict::kBad));
  EXPECT_FALSE(Has(links, "health", Verdict::kGood));
  const auto waiting = JudgePeer(
      R"({"state":"waiting","stateReasons":["the run is paused: attic is gone"],"health":[],
          "scheduler":{"connected":true,"addresses":["h:1"],"trouble":""}})");
  EXPECT_TRUE(Has(waiting, "state", Verdict::kHint));
  const auto dialling = JudgePeer(
      R"({"state":"joining","scheduler":{"connected":false,"addresses":["h:1"],"trouble":""},
          "health":[]})");
  EXPECT_TRUE(Has(dialling, "scheduler", Verdict::kHint));
  EXPECT_FALSE(Has(dialling, "health", Verdict::kGood));
}

TEST_F(Shoal, APeerInNoSwarmHasNothingToPause) {
  fs::create_directories(At("state"));
  const auto executor = NewThreadExecutor("peer");
  net::LocalHandlers handlers;
  handlers.on_status = [](const std::function<void(std::string)>& reply) {
    reply(R"({"schemaVersion":2,"state":"idle"})");
  };
  std::vector<std::string> ordered;
  handlers.on_command = [&ordered](const std::string& name,
                                   const std::map<std::string, std::string>&,
                                   const std::function<void(Result<net::CommandResult>)>& reply) {
    ordered.push_back(name);
    reply(InvalidArgument("that rate is nonsense"));
  };
  std::unique_ptr<net::LocalServer> server;
  test_support::RunOn(executor.get(), [&] {
    server = net::NewLocalServer(At("state/shoald.sock"), executor.get(), handlers).value();
  });
  for (const char* verb : {"pause", "resume"}) {
    const Outcome run = Start(verb);
    EXPECT_EQ(run.exit, 4) << verb;
    ExpectOneLine(run);
    EXPECT_THAT(run.error, HasSubstr("in no swarm"));
  }
  EXPECT_TRUE(ordered.empty());
  const Outcome set = Start("set upload=5mbit");
  EXPECT_EQ(set.exit, 2) << "what shoald finds wrong with an argument is wrong usage";
  EXPECT_THAT(set.error, HasSubstr("that rate is nonsense"));
  EXPECT_EQ(Start("health --json").out, "{\"schemaVersion\":1,\"state\":\"idle\"}\n");
  test_support::RunOn(executor.get(), [&] { server.reset(); });
}

TEST_F(Shoal, PassesArgumentsOnToShoalRun) {
  const Outcome help = Start("eval --help");
  EXPECT_EQ(help.exit, 0) << help.error;
  EXPECT_THAT(help.out, HasSubstr("--model"));
  const Outcome missing = Start("eval --model " + At("nothing") + " --data " + At("nothing"));
  EXPECT_NE(missing.exit, 0);
  EXPECT_THAT(missing.error, HasSubstr("nothing"));
}

TEST_F(Shoal, InitKeepsARunFileThatExists) {
  fs::create_directories(At("run"));
  ASSERT_TRUE(WriteFileAtomic(At("run/run.toml"), "precious").ok());
  const Outcome run = Start("swarm init --model m --data d --dir " + At("run"));
  EXPECT_NE(run.exit, 0);
  ExpectOneLine(run);
  EXPECT_EQ(ReadFile(At("run/run.toml"), 100).value(), "precious");
}

TEST(AbsolutePath, HoldsWhereNothingExistsYet) {
  const std::string here = fs::canonical(fs::current_path()).string();
  EXPECT_EQ(AbsolutePath("no-such"), here + "/no-such");
  EXPECT_EQ(AbsolutePath("no-such/"), here + "/no-such");
  EXPECT_EQ(AbsolutePath("./no-such/x"), here + "/no-such/x");
  EXPECT_EQ(AbsolutePath("no-such/../other/x/"), here + "/other/x");
  EXPECT_EQ(AbsolutePath("."), here);
  EXPECT_EQ(AbsolutePath("/"), "/");
}

TEST_F(Shoal, DemoLeavesAFullFolderAlone) {
  fs::create_directories(At("demo"));
  ASSERT_TRUE(WriteFileAtomic(At("demo/mine"), "precious").ok());
  const Outcome run = Start("demo --dir " + At("demo"));
  EXPECT_NE(run.exit, 0);
  ExpectOneLine(run);
  EXPECT_THAT(run.error, HasSubstr("choose another --dir"));
}

}  // namespace
}  // namespace shoal::client
