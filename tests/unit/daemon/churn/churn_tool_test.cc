#include "daemon/churn/churn_tool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <string>
#include <vector>

#include "common/file.h"
#include "tests/support/temporary_folder.h"

namespace shoal::daemon {
namespace {

using ::testing::HasSubstr;

struct Ran {
  ExitCode code;
  std::string output, said;
};

Ran Churn(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Ran ran;
  ran.code = RunChurn(static_cast<int>(argv.size()), argv.data());
  ran.output = testing::internal::GetCapturedStdout();
  ran.said = testing::internal::GetCapturedStderr();
  return ran;
}

const std::vector<std::string> kSmall = {
    "--kill-every",    "4m", "--machines", "6",  "--for",    "10m",   "--stages",   "2",
    "--micro-batches", "4",  "--rows",     "64", "--upload", "1gbit", "--download", "1gbit",
    "--back",          "1m", "--seed",     "3"};

std::vector<std::string> Small(const std::vector<std::string>& more) {
  std::vector<std::string> all = kSmall;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(ChurnTool, ItsTextNamesTraceFactorSeedAndAllParts) {
  const Ran ran = Churn(kSmall);
  EXPECT_EQ(ran.code, ExitCode::kOk) << ran.said;
  EXPECT_THAT(ran.output, HasSubstr("trace one of 6 dies every 4m, a fresh one comes after 1m"));
  EXPECT_THAT(ran.output, HasSubstr("factor 1.00, seed 3"));
  EXPECT_THAT(ran.output, HasSubstr("goodput 0."));
  for (const char* part : {"detection", "transfer", "idle", "trained again", "not finished",
                           "first visits", "slower"}) {
    EXPECT_THAT(ran.output, HasSubstr(part));
  }
}

TEST(ChurnTool, ItsJsonIsDocumentedAndAddsUp) {
  const Ran ran = Churn(Small({"--json"}));
  ASSERT_EQ(ran.code, ExitCode::kOk) << ran.said;
  const auto json = nlohmann::json::parse(ran.output);
  const auto page =
      ReadFile(std::string(std::getenv("SHOAL_SOURCE_DIR")) + "/docs/BENCHMARKS.md", 1 << 20);
  ASSERT_TRUE(page.ok());
  const auto documented = [&page](const std::string& key) {
    return page->find(key) != std::string::npos;
  };
  for (const auto& [key, value] : json.items()) EXPECT_TRUE(documented(key)) << key;
  double sum = 0;
  for (const auto& [key, value] : json["parts"].items()) {
    EXPECT_TRUE(documented(key)) << key;
    sum += value.get<double>();
  }
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(json["parts"]["useful"], json["goodput"]);
  EXPECT_TRUE(json["deltaHits"].is_number());
  EXPECT_EQ(json["pipelines"], 2) << "the largest power of two that six machines fill";
  EXPECT_EQ(json["seed"], 3);
}

TEST(ChurnTool, GoodputBelowWhatIsAskedForFails) {
  EXPECT_EQ(Churn(Small({"--least", "1"})).code, ExitCode::kFailure);
}

TEST(ChurnTool, SaysWhatIsWrong) {
  const test_support::TemporaryFolder folder;
  const std::string path = folder.path() + "/bad.csv";
  ASSERT_TRUE(WriteFileAtomic(path, "0,add,a\n0,jump,b\n").ok());
  const Ran bad = Churn({"--trace", path});
  EXPECT_EQ(bad.code, ExitCode::kUsage);
  EXPECT_THAT(bad.said, HasSubstr("bad.csv: line 2: 'jump' is neither"));
  EXPECT_EQ(Churn({}).code, ExitCode::kUsage);
  EXPECT_EQ(Churn({"--trace", folder.path() + "/none.csv"}).code, ExitCode::kUsage);
  EXPECT_EQ(Churn(Small({"--upload", "fast"})).code, ExitCode::kUsage);
  EXPECT_EQ(Churn(Small({"--upload", "off"})).code, ExitCode::kUsage);
  EXPECT_EQ(Churn({"--kill-every", "0s"}).code, ExitCode::kUsage);
  EXPECT_EQ(Churn({"--kill-every", "15s", "--trace", path}).code, ExitCode::kUsage);
  EXPECT_EQ(Churn({"--help"}).code, ExitCode::kOk);
}

}  // namespace
}  // namespace shoal::daemon
