#include "daemon/config.h"

#include <gmock/gmock.h>

#include <map>
#include <sstream>

#include "common/exit_code.h"
#include "common/file.h"
#include "daemon_test_util.h"

namespace shoal::daemon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string ErrorOf(const std::string& toml) {
  DaemonConfig config;
  const Status status = ParseConfig(toml, "my.toml", &config);
  EXPECT_FALSE(status.ok()) << toml;
  EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
  return status.message();
}

// Section, key and value of each line that sets something.
std::map<std::string, std::string> KeysOf(const std::string& toml) {
  std::map<std::string, std::string> keys;
  std::istringstream lines(toml);
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[")) section = line.substr(1, line.size() - 2);
    const std::size_t equals = line.find(" = ");
    if (line.starts_with("#") || equals == std::string::npos) continue;
    keys[section + "." + line.substr(0, equals)] = line.substr(equals + 3);
  }
  return keys;
}

constexpr const char* kEveryKey = R"(
[peer]
name = "attic"
directory = "/srv/shoal"
invite = "file:/srv/invite"
[network]
listen = "0.0.0.0:7000"
advertise = ["attic.example", "10.0.0.2"]
upload = "20mbit"
download = "1.5MB/s"
map_port = false
pacing = "off"
[terms]
schedule = "sat-sun all"
quiet = "08:00-22:00 upload=5mbit"
budget = "300GB/month"
exclusive = "steam"
on_battery = "train"
gpu_free = "3m"
gpu_power = "200W"
disk = "100GiB"
[limits]
delta_store = "10GiB"
activations = "512MiB"
device_memory = "10GiB"
[store]
memory = "100MB"
space = "tight"
[compute]
device = "cuda:1"
card = "0000:01:00.0"
threads = 3
codec_threads = 4
[status]
listen = "127.0.0.1:9999"
allow_remote = true
[log]
level = "debug"
)";

TEST(DaemonConfig, ReadsEveryKey) {
  DaemonConfig config;
  const Status status = ParseConfig(kEveryKey, "my.toml", &config);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(config.name, "attic");
  EXPECT_EQ(config.directory, "/srv/shoal");
  EXPECT_EQ(config.invite, "file:/srv/invite");
  EXPECT_EQ(config.listen, "0.0.0.0:7000");
  EXPECT_THAT(config.advertise, ElementsAre("attic.example", "10.0.0.2"));
  EXPECT_FALSE(config.map_port);
  EXPECT_EQ(config.upload.value, 20'000'000u);
  EXPECT_EQ(config.download.value, 12'000'000u);
  EXPECT_EQ(config.pacing, "off");
  EXPECT_EQ(config.schedule, "sat-sun all");
  EXPECT_EQ(config.quiet, "08:00-22:00 upload=5mbit");
  EXPECT_EQ(config.budget, "300GB/month");
  EXPECT_EQ(config.exclusive, "steam");
  EXPECT_EQ(config.on_battery, "train");
  EXPECT_EQ(config.gpu_free, "3m");
  EXPECT_EQ(config.gpu_power, "200W");
  EXPECT_EQ(config.disk, "100GiB");
  EXPECT_EQ(config.card, "0000:01:00.0");
  EXPECT_EQ(config.delta_store_bytes, 10ull << 30);
  EXPECT_EQ(config.store_memory_bytes, 100'000'000u);
  EXPECT_EQ(config.store_space, "tight");
  EXPECT_EQ(config.activation_bytes, 512ull << 20);
  EXPECT_EQ(config.device_memory_bytes, 10ull << 30);
  EXPECT_EQ(config.device, "cuda:1");
  EXPECT_EQ(config.threads, 3u);
  EXPECT_EQ(config.codec_threads, 4u);
  EXPECT_EQ(config.status_listen, "127.0.0.1:9999");
  EXPECT_TRUE(config.status_allow_remote);
  EXPECT_EQ(config.log_level, "debug");
  // Nothing was left out: the text that names all keys has as many as this one.
  EXPECT_EQ(KeysOf(FormatConfig(config)).size(), 29u);
}

TEST(DaemonConfig, KeepsWhatTheFileDoesNotName) {
  DaemonConfig config;
  config.threads = 7;
  ASSERT_TRUE(ParseConfig("[compute]\ndevice = \"cpu\"\n", "my.toml", &config).ok());
  EXPECT_EQ(config.threads, 7u);
  EXPECT_EQ(config.device, "cpu");
}

TEST(DaemonConfig, NamesLineAndKeyOfWhatItDoesNotKnow) {
  EXPECT_THAT(ErrorOf("[peer]\nname = \"a\"\nnmae = \"b\"\n"),
              AllOf(HasSubstr("my.toml line 3"),
                    HasSubstr("unknown key 'nmae' in [peer]; did you mean 'name'?"),
                    HasSubstr("known: name, directory, invite")));
  EXPECT_THAT(ErrorOf("\n\n[ntework]\nlisten = \"x\"\n"),
              AllOf(HasSubstr("my.toml line 3"), HasSubstr("unknown section 'ntework'"),
                    HasSubstr("peer, network, terms, limits, store, compute, status, log")));
  EXPECT_THAT(ErrorOf("name = \"a\"\n"),
              AllOf(HasSubstr("my.toml line 1"), HasSubstr("unknown section 'name'")));
}

TEST(DaemonConfig, NamesLineKeyAndRemedyOfAWrongValue) {
  const struct {
    const char* toml;
    int line;
    const char* key;
    const char* remedy;
  } cases[] = {
      {"[peer]\nname = 3\n", 2, "peer.name", "text in quotes"},
      {"[network]\n\nupload = 20\n", 3, "network.upload", "like \"20mbit\""},
      {"[network]\nupload = \"20\"\n", 2, "network.upload", "20mbit"},
      {"[network]\ndownload = \"20 apples\"\n", 2, "network.download", "20mbit"},
      {"[network]\npacing = \"on\"\n", 2, "network.pacing", "none of auto, off"},
      {"[network]\nadvertise = \"a\"\n", 2, "network.advertise", "list of texts"},
      {"[network]\nadvertise = [\"a\", 3]\n", 2, "network.advertise", "list of texts"},
      {"[terms]\nschedule = \"mon\"\n", 2, "terms.schedule", "mon-fri 18:00-08:00"},
      {"[terms]\n\nbudget = \"300GB\"\n", 3, "terms.budget", "300GB/month"},
      {"[terms]\non_battery = true\n", 2, "terms.on_battery", "text in quotes"},
      {"[compute]\ncard = \"second\"\n", 2, "compute.card", "a number or a PCI bus id"},
      {"[limits]\ndelta_store = 5\n", 2, "limits.delta_store", "like \"20GiB\""},
      {"[limits]\nactivations = \"5 mbit\"\n", 2, "limits.activations", "20GiB"},
      {"[limits]\ndevice_memory = \"much\"\n", 2, "limits.device_memory", "20GiB"},
      {"[limits]\ndevice_memory = \"0\"\n", 2, "limits.device_memory", "more than 0, or empty"},
      {"[limits]\ndevice_memory = 8\n", 2, "limits.device_memory", "in quotes"},
      {"[compute]\nthreads = \"two\"\n", 2, "compute.threads", "from 0 to 1024"},
      {"[compute]\nthreads = 1025\n", 2, "compute.threads", "from 0 to 1024"},
      {"[compute]\nthreads = -1\n", 2, "compute.threads", "from 0 to 1024"},
      {"[compute]\nthreads = 1.5\n", 2, "compute.threads", "whole number"},
      {"[compute]\ncodec_threads = 0\n", 2, "compute.codec_threads", "from 1 to 64"},
      {"[compute]\ndevice = \"gpu\"\n", 2, "compute.device", "cpu, cuda, cuda:N or auto"},
      {"[compute]\ndevice = \"cuda:\"\n", 2, "compute.device", "cpu, cuda, cuda:N or auto"},
      {"[compute]\ndevice = \"cuda:1x\"\n", 2, "compute.device", "cpu, cuda, cuda:N or auto"},
      {"[status]\nallow_remote = \"yes\"\n", 2, "status.allow_remote", "true or false"},
      {"[log]\nlevel = \"loud\"\n", 2, "log.level", "debug"},
      {"[peer]\nname = \"a\\nb\"\n", 2, "peer.name", "control characters"},
  };
  for (const auto& [toml, line, key, remedy] : cases) {
    EXPECT_THAT(ErrorOf(toml), AllOf(HasSubstr("my.toml line " + std::to_string(line) + ": "),
                                     HasSubstr(key), HasSubstr(remedy)))
        << toml;
  }
  EXPECT_THAT(ErrorOf("[peer]\nname = \"" + std::string(65, 'a') + "\"\n"),
              HasSubstr("at most 64"));
}

TEST(DaemonConfig, NamesTheLineOfAFileThatIsNoToml) {
  EXPECT_THAT(ErrorOf("[peer]\nname = \n"), HasSubstr("my.toml line 2"));
  EXPECT_THAT(ErrorOf("[peer\n"), HasSubstr("my.toml line 1"));
}

TEST(DaemonConfig, ChecksValuesThatCameFromElsewhere) {
  DaemonConfig config;
  config.device = "toaster";
  const Status status = ParseConfig("", "settings", &config);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("settings: compute.device: 'toaster'"));
}

TEST(DaemonConfig, WritesWhatItReads) {
  DaemonConfig config;
  config.name = "a \"quoted\" \\ näme";
  config.directory = "/a b";
  config.invite = "file:x";
  config.listen = "[::1]:9";
  config.advertise = {"one", "t\"wo"};
  config.upload = BitsPerSecond{1'234'567};
  config.download = BitsPerSecond{2'500'000'000};
  config.delta_store_bytes = (1ull << 40) + 1;
  config.store_memory_bytes = 3ull << 10;
  config.store_space = "tight";
  config.activation_bytes = 0;
  config.device_memory_bytes = 3ull << 29;
  config.device = "cuda:12";
  config.threads = 1024;
  config.codec_threads = 64;
  config.status_listen = "0.0.0.0:1";
  config.status_allow_remote = true;
  config.log_level = "off";
  const std::string text = FormatConfig(config);
  EXPECT_THAT(text, AllOf(HasSubstr("upload = \"1234567bit\""),
                          HasSubstr("download = \"2500mbit\""), HasSubstr("memory = \"3KiB\"")));
  DaemonConfig back;
  const Status status = ParseConfig(text, "again", &back);
  ASSERT_TRUE(status.ok()) << status.ToString() << "\n" << text;
  EXPECT_EQ(FormatConfig(back), text);
  EXPECT_EQ(back.name, config.name);
  EXPECT_EQ(back.advertise, config.advertise);
  EXPECT_EQ(back.upload, config.upload);
  EXPECT_EQ(back.delta_store_bytes, config.delta_store_bytes);
  EXPECT_EQ(back.activation_bytes, 0u);
  EXPECT_EQ(back.device_memory_bytes, 3ull << 29);
}

TEST(DaemonConfig, SampleFileHoldsTheDefaults) {
  const Result<std::string> sample = ReadFile(SourceFile("deploy/shoald.toml"), 1 << 20);
  ASSERT_TRUE(sample.ok()) << sample.status().ToString();
  EXPECT_EQ(*sample, FormatConfig(DaemonConfig{})) << "run: shoald --print-config's defaults";
  DaemonConfig back;
  back.device = "cpu";
  back.threads = 9;
  ASSERT_TRUE(ParseConfig(*sample, "shoald.toml", &back).ok());
  EXPECT_EQ(FormatConfig(back), *sample);
}

TEST(DaemonConfig, SampleFileDescribesEverySetting) {
  const std::string sample = FormatConfig(DaemonConfig{});
  auto keys = KeysOf(sample);
  std::istringstream settings(DescribeSettings());
  for (std::string line; std::getline(settings, line);) {
    const std::size_t colon = line.find(": ");
    ASSERT_NE(colon, std::string::npos) << line;
    const auto key = keys.extract(line.substr(0, colon));
    ASSERT_FALSE(key.empty()) << line;
    const std::string name = key.key().substr(key.key().find('.') + 1);
    const std::string described =
        "\n# " + line.substr(colon + 2) + "\n" + name + " = " + key.mapped() + "\n";
    EXPECT_THAT(sample, HasSubstr(described));
  }
  EXPECT_TRUE(keys.empty()) << keys.begin()->first << " is not described";
}

TEST(DaemonConfig, OperationsPageListsEveryExitCode) {
  const Result<std::string> page = ReadFile(SourceFile("docs/OPERATIONS.md"), 1 << 20);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  const std::pair<ExitCode, const char*> codes[] = {
      {ExitCode::kOk, " ok, "},
      {ExitCode::kFailure, " failure, "},
      {ExitCode::kUsage, " wrong usage, "},
      {ExitCode::kDaemonNotRunning, " daemon not running, "},
      {ExitCode::kNotMember, " in no swarm, "},
      {ExitCode::kUnreachable, " a store cannot be reached, "},
      {ExitCode::kTryLater, " try later, "},
      {ExitCode::kPermission, " permission, "},
      {ExitCode::kBadConfig, " bad configuration; "}};
  for (const auto& [code, what] : codes) {
    EXPECT_THAT(*page, HasSubstr(" " + std::to_string(static_cast<int>(code)) + what));
  }
}

TEST(DaemonConfig, MemoryOfPendingWeightGradientsCountsAsActivations) {
  EXPECT_THAT(DescribeSettings(),
              HasSubstr("limits.activations: Most memory for micro-batches in flight and for those "
                        "whose weight gradients are pending (schedule zero-bubble), together."));
}

TEST(DaemonConfig, FindsNameAndFolderOfTheMachine) {
  ::setenv("XDG_STATE_HOME", "/state", 1);
  DaemonConfig config;
  FillConfigDefaults(&config);
  EXPECT_FALSE(config.name.empty());
  EXPECT_EQ(config.directory, "/state/shoal");
  ::unsetenv("XDG_STATE_HOME");
  ::setenv("HOME", "/people/me", 1);
  config.directory.clear();
  FillConfigDefaults(&config);
  EXPECT_EQ(config.directory, "/people/me/.local/state/shoal");
  config = DaemonConfig{};
  config.name = "kept";
  config.directory = "/kept";
  FillConfigDefaults(&config);
  EXPECT_EQ(config.name, "kept");
  EXPECT_EQ(config.directory, "/kept");
}

}  // namespace
}  // namespace shoal::daemon
