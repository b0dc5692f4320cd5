#include "scheduler/config/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "common/file.h"
#include "scheduler/config/run_config_keys.h"
#include "tests/support/temporary_folder.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

class RunConfigTest : public ::testing::Test {
 protected:
  std::string Path() const { return folder_ + "/run.toml"; }
  Result<RunConfig> Read(const std::string& text) {
    std::ofstream(Path(), std::ios::binary) << text;
    return ReadRunConfig(Path());
  }
  void ExpectError(const std::string& text, const std::vector<std::string>& parts) {
    const auto config = Read(text);
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
    for (const std::string& part : parts) {
      EXPECT_THAT(config.status().message(), HasSubstr(part)) << text;
    }
    EXPECT_EQ(config.status().message().find('\n'), std::string::npos);
  }

  const test_support::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
};

TEST_F(RunConfigTest, SampleIsTheDefaultsAndReadsBack) {
  const char* source = std::getenv("SHOAL_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  const auto sample = ReadFile(std::string(source) + "/deploy/run.toml", 1 << 20);
  ASSERT_TRUE(sample.ok()) << sample.status().ToString();
  EXPECT_EQ(*sample, FormatRunConfig(RunConfig{}))
      << "deploy/run.toml is what shoal-scheduler --print-config prints without --config";
  const auto config = Read(*sample);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->model, folder_ + "/model");
  EXPECT_EQ(config->steps, 100u);
}

TEST_F(RunConfigTest, EveryKeySurvivesPrintingAndReading) {
  RunConfig config;
  int number = 0;
  for (RunConfigKey& key : RunConfigKeys(&config)) {
    ++number;
    std::visit(
        [&](auto* target) {
          using T = std::remove_pointer_t<decltype(target)>;
          if constexpr (std::is_same_v<T, std::string>) {
            if (key.allowed.empty() && key.section == "run") *target = "/t\"e\\xt" + *target;
          } else if constexpr (std::is_same_v<T, bool>) {
            *target = !*target;
          } else if constexpr (std::is_same_v<T, double>) {
            *target = key.max / 3 + 1e-12;
          } else if constexpr (std::is_same_v<T, Duration>) {
            *target = std::chrono::milliseconds(12345);
          } else if constexpr (std::is_integral_v<T>) {
            *target = static_cast<T>(std::min(key.max, 10.0 + number));
          } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            *target = {"a:1", "b\n"};
          }
        },
        key.target);
  }
  config.micro_batches = 4000;
  config.spot_checks = 0;  // not with dropout
  config.etcd = {"http://a:1", "http://b:2"};
  config.relays = {"00112233445566778899aabbccddeeff@a:1"};
  config.relay_listen = "0.0.0.0:0";
  config.log_to = {"tensorboard:/a \"b\"", "jsonl:/c.jsonl"};
  config.cuts.clear();
  for (std::uint32_t s = 1; s < config.stages; ++s) config.cuts.push_back(s);
  const auto read = Read(FormatRunConfig(config));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(FormatRunConfig(*read), FormatRunConfig(config));
}

TEST_F(RunConfigTest, RelativePathsCountFromTheFile) {
  const auto config = Read("[run]\nmodel = \"../m\"\ndata = \"/abs/d.shoal\"\n");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->model, std::filesystem::path(folder_).parent_path().string() + "/m");
  EXPECT_EQ(config->data, "/abs/d.shoal");
  const auto logs = Read("[run]\nlog_to = [\"tensorboard:tb\", \"jsonl:/abs/run.jsonl\"]\n");
  ASSERT_TRUE(logs.ok()) << logs.status().ToString();
  EXPECT_EQ(logs->log_to,
            (std::vector<std::string>{"tensorboard:" + folder_ + "/tb", "jsonl:/abs/run.jsonl"}));
}

TEST_F(RunConfigTest, ErrorsNameLineAndWhatIsAllowed) {
  ExpectError("[run]\nname = \"a\"\nstep = 3\n", {":3: ", "step", "steps", "seed"});
  ExpectError("\n[runs]\n", {":2: ", "runs", "run, model, adapter, codecs"});
  ExpectError("steps = 3\n", {":1: ", "sections"});
  ExpectError("run = 3\n", {":1: ", "[run]"});
  ExpectError("[run]\nsteps = \"many\"\n", {":2: ", "whole number"});
  ExpectError("[run]\nsteps = 0\n", {":2: ", "1 to"});
  ExpectError("[run]\nsteps = 3.5\n", {":2: ", "whole number"});
  ExpectError("[run]\nsteps = -1\n", {":2: "});
  ExpectError("[run]\nrecompute = 1\n", {":2: ", "true or false"});
  ExpectError("[run]\ncompute = \"fp64\"\n", {":2: ", "fp32|bf16"});
  ExpectError("[run]\ncuts = [1, \"2\"]\n", {":2: ", "list of whole numbers"});
  ExpectError("[optimizer]\nlearning_rate = nan\n", {":2: ", "a number"});
  ExpectError("[optimizer]\ndecay = \"steps\"\n", {"linear|cosine|none"});
  ExpectError("[network]\npeer_timeout = 6\n", {":2: ", "6s"});
  ExpectError("[network]\npeer_timeout = \"6 parsecs\"\n", {":2: ", "duration"});
  ExpectError("[network]\npeer_timeout = \"1ms\"\n", {":2: ", "1 to 300"});
  ExpectError("[network]\nlisten = \"8781\"\n", {"listen", "host:port"});
  ExpectError("[network]\nlisten = \"::1:8781\"\n", {"host:port"});
  ExpectError("[network]\nlisten = \"h:70000\"\n", {"host:port"});
  ExpectError("[codecs]\nforward = \"aqsgd:bits\"\n", {"forward", "aqsgd:bits=4"});
  ExpectError("[run]\ncuts = [3]\nstages = 3\n", {"cuts", "needs 2"});
  ExpectError("[run]\ncuts = [3, 3]\nstages = 3\n", {"grow"});
  ExpectError("[run]\nmicro_batches = 1\npipelines = 2\n", {"micro_batches"});
  ExpectError("[run]\nlog_to = \"jsonl:a\"\n", {":2: ", "list of texts"});
  ExpectError("[run]\nlog_to = [\"wandb:a\"]\n", {"log_to", "tensorboard:FOLDER or jsonl:FILE"});
  ExpectError("[run]\nlog_to = [\"jsonl:a\", \"jsonl:a\"]\n", {"log_to", "twice"});
  ExpectError("[run\n", {":1: "});
  ExpectError("[run]\nsteps = 3\nsteps = 4\n", {":3: "});
}

TEST_F(RunConfigTest, SeveralSchedulersNeedEtcdsAddressesAndTheirOwn) {
  const std::string own = "[network]\nadvertise = [\"a:1\"]\n";
  EXPECT_TRUE(Read(own + "[scheduler]\netcd = [\"http://e:2379\"]\n").ok());
  ExpectError(own + "[scheduler]\netcd = [\"e:2379\"]\n", {"[scheduler] etcd", "http://HOST:PORT"});
  ExpectError("[scheduler]\netcd = [\"http://e:2379\"]\n", {"advertise"});
  for (const char* prefix : {"", "a/", "a b", "ä"}) {
    ExpectError(own + "[scheduler]\netcd = [\"http://e:2379\"]\nprefix = \"" + prefix + "\"\n",
                {"prefix must be"});
  }
}

TEST_F(RunConfigTest, EtcdsFilesAndUserFitItsAddresses) {
  const std::string begin = "[network]\nadvertise = [\"a:1\"]\n[scheduler]\n";
  const std::string tls = begin + "etcd = [\"https://e:2379\"]\n";
  const std::string plain = begin + "etcd = [\"http://e:2379\"]\n";
  const auto config = Read(tls +
                           "etcd_ca = \"ca.crt\"\netcd_cert = \"/c\"\netcd_key = \"/k\"\n"
                           "etcd_user = \"u\"\netcd_password_file = \"pw\"\n");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->etcd_login.ca, folder_ + "/ca.crt") << "beside run.toml";
  EXPECT_EQ(config->etcd_login.cert, "/c");
  EXPECT_EQ(config->etcd_login.password_file, folder_ + "/pw");
  ExpectError(tls, {"etcd_ca is missing"});
  ExpectError(tls + "etcd_ca = \"a\"\netcd_cert = \"c\"\n", {"etcd_cert and etcd_key"});
  ExpectError(tls + "etcd_ca = \"a\"\netcd_user = \"u\"\n", {"etcd_password_file"});
  ExpectError(plain + "etcd_ca = \"a\"\n", {"need https://"});
  const std::string user = "etcd_user = \"u\"\netcd_password_file = \"p\"\n";
  ExpectError("[scheduler]\n" + user, {"etcd_user", "need etcd"});
  ExpectError(plain + user, {"could read the password"});
  EXPECT_TRUE(Read(begin + "etcd = [\"http://127.0.0.1:2379\"]\n" + user).ok());
}

// The canonical spec, which has every option, would hide what the user has to change.
TEST_F(RunConfigTest, ErrorsNameTheReplicaMethodAsWritten) {
  ExpectError("[replica]\nmethod = \"powersgd:stages=7\"\n",
              {"replica method 'powersgd:stages=7'", "stages from 0 to "});
  ExpectError("[replica]\nmethod = \"qsdp:lan=0-7\"\n",
              {"replica method 'qsdp:lan=0-7'", "or is auto or none"});
}

TEST_F(RunConfigTest, AShareOfSpotChecksIsRead) {
  const auto read = Read("[scheduler]\nspot_checks = 0.25\n[run]\npipelines = 2\n");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_DOUBLE_EQ(read->spot_checks, 0.25);
}

TEST(SpotCheckConfigTest, CheckersNeedTheSameWholeWeightsAndNoMask) {
  RunConfig config;
  config.pipelines = 2;
  config.micro_batches = 4;
  config.spot_checks = 0.01;
  EXPECT_TRUE(CheckRunConfig(config).ok()) << CheckRunConfig(config).ToString();
  const auto refused = [&](auto&& change) {
    RunConfig other = config;
    change(&other);
    return CheckRunConfig(other).message();
  };
  EXPECT_THAT(refused([](RunConfig* c) { c->pipelines = 1; }), HasSubstr("pipelines = 2"));
  EXPECT_THAT(refused([](RunConfig* c) { c->dropout = 0.1; }), HasSubstr("dropout = 0"));
  EXPECT_THAT(refused([](RunConfig* c) { c->adapter_dropout = 0.1; }), HasSubstr("dropout = 0"));
  for (const char* method : {"marsit", "qsdp:weights=8,gradients=8", "average:local_steps=16"}) {
    EXPECT_THAT(refused([&](RunConfig* c) { c->replica_method = method; }), HasSubstr(method));
  }
}

TEST_F(RunConfigTest, ATextWithoutQuotesIsNamedSo) {
  ExpectError("[optimizer]\nlearning_rate = fast\n", {"run.toml:2: ", "text", "needs quotes"});
  ExpectError("[network]\npeer_timeout = 10s\n", {"run.toml:2: ", "needs quotes"});
}

TEST_F(RunConfigTest, MissingFileIsNamed) {
  const auto config = ReadRunConfig(folder_ + "/none.toml");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.status().message(), HasSubstr("none.toml"));
}

TEST_F(RunConfigTest, RandomBytesAreRefusedInOneLine) {
  int refused = 0;
  std::mt19937 random(6);
  const std::string whole = FormatRunConfig(RunConfig{});
  for (int round = 0; round < 300; ++round) {
    std::string text = whole.substr(0, random() % whole.size());
    for (int i = 0; i < 4 && !text.empty(); ++i) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const auto config = Read(text);
    if (config.ok()) continue;
    ++refused;
    EXPECT_THAT(config.status().message(), HasSubstr("run.toml"));
    EXPECT_EQ(config.status().message().find('\n'), std::string::npos);
  }
  EXPECT_GT(refused, 100);
}

TEST(CodecTextTest, Grammar) {
  for (const char* good :
       {"raw", "aqsgd:bits=4", "raw:dtype=fp32", "topk:ratio=0.2,bits=8",
        "aqsgd:bits=2,first_visit=direct:bits=8/bucket=64,bucket=32",
        "aqsgd+rans:bits=3,first_visit=direct:bits=8", "aqsgd:delta=direct+zstd:bits=2"}) {
    EXPECT_TRUE(CheckCodecText("forward", good).ok()) << good;
  }
  for (const char* bad :
       {"", ":", "raw:", "raw:a", "raw:a=", "raw:=b", "raw:a=b,", "a b", "A", "raw:a=b,,c=d",
        "raw\n", "raw:a=b:", "raw:a=:b", "raw:a=b//c", "direct+", "+rans", "a+b+c", "raw:a+=b"}) {
    EXPECT_FALSE(CheckCodecText("forward", bad).ok()) << bad;
  }
}

// Straight from the definition: grow over the warm-up, then fall to zero at `steps`.
double ReferenceRate(const RunConfig& c, double step) {
  if (step < static_cast<double>(c.warmup_steps)) {
    return c.learning_rate * (step + 1) / static_cast<double>(c.warmup_steps);
  }
  const double left =
      (static_cast<double>(c.steps) - step) / static_cast<double>(c.steps - c.warmup_steps);
  if (c.decay == "linear") return c.learning_rate * left;
  if (c.decay == "cosine") return c.learning_rate * (1 - std::cos(M_PI * left)) / 2;
  return c.learning_rate;
}

TEST(LearningRateTest, FollowsTheReference) {
  for (const char* decay : {"linear", "cosine", "none"}) {
    for (const std::uint64_t warmup : {0, 1, 10}) {
      RunConfig config;
      config.decay = decay;
      config.warmup_steps = warmup;
      config.steps = 37;
      for (std::uint64_t step = 0; step < config.steps; ++step) {
        EXPECT_NEAR(LearningRate(config, step), ReferenceRate(config, static_cast<double>(step)),
                    1e-15)
            << decay << " " << warmup << " " << step;
        EXPECT_GT(LearningRate(config, step), 0);
      }
    }
  }
}

TEST(LearningRateTest, WarmUpLongerThanTheRun) {
  RunConfig config;
  config.steps = 5;
  config.warmup_steps = 10;
  EXPECT_DOUBLE_EQ(LearningRate(config, 4), config.learning_rate / 2);
}

}  // namespace
}  // namespace shoal::scheduler
