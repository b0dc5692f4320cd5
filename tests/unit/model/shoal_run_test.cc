// The program shoal-run as a user starts it: its output, JSON and exit codes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "common/file.h"
#include "dataset/prepare/prepare_data.h"
#include "dataset/tokenizer.h"
#include "model/families/open_model.h"
#include "model/stage_model.h"

namespace shoal::model {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Outcome {
  int exit = -1;
  std::string out;
  std::string error;
};

class ShoalRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = ::testing::TempDir() + "/shoal_run." + std::to_string(getpid());
    fs::create_directories(folder_);
    const std::string source = std::string(std::getenv("SHOAL_SOURCE_DIR")) + "/examples";
    const Outcome made =
        Start("init-model --seed 3 --config " + source + "/tiny-gpt2/config.json --out " + Model());
    ASSERT_EQ(made.exit, 0) << made.error;
    auto text = ReadFile(source + "/tinyshakespeare.txt", 16 << 20);
    ASSERT_TRUE(text.ok());
    ASSERT_TRUE(WriteFileAtomic(folder_ + "/text.txt", text->substr(0, 20000)).ok());
    dataset::PrepareOptions options;
    options.tokenizer_directory = Model();
    options.text_files = {folder_ + "/text.txt"};
    options.validation_fraction = 0.1;
    options.row_tokens = 32;
    options.output = Data();
    auto report = dataset::PrepareData(options);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  static Outcome Start(const std::string& arguments) {
    const std::string command = std::string(std::getenv("SHOAL_BIN")) + "/shoal-run " + arguments +
                                " >" + folder_ + "/out 2>" + folder_ + "/error </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            ReadFile(folder_ + "/out", 64 << 20).value(),
            ReadFile(folder_ + "/error", 1 << 20).value()};
  }
  static std::string Model() { return folder_ + "/model"; }
  static std::string Data() { return folder_ + "/data.shoal"; }

  static std::string folder_;
};

std::string ShoalRun::folder_;

TEST_F(ShoalRun, EvaluatesFreshWeightsNearTheUniformLoss) {
  const Outcome run = Start("eval --json --model " + Model() + " --data " + Data());
  ASSERT_EQ(run.exit, 0) << run.error;
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["schemaVersion"], 1);
  EXPECT_EQ(json["split"], "validation");
  const auto data = dataset::OpenPreparedData(Data());
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(json["rows"], (*data)->info().validation_rows);
  const auto opened = OpenModel(Model());
  const double uniform = std::log(opened->spec.vocabulary);
  EXPECT_NEAR(json["meanLoss"].get<double>(), uniform, 0.5);
  EXPECT_DOUBLE_EQ(json["perplexity"].get<double>(), std::exp(json["meanLoss"].get<double>()));
  const Outcome human =
      Start("eval --split train --max-rows 3 --model " + Model() + " --data " + Data());
  EXPECT_EQ(human.exit, 0);
  EXPECT_THAT(human.out, HasSubstr("perplexity"));
}

TEST_F(ShoalRun, PrintsTheLogitsOfTheStage) {
  const Outcome run = Start("logits --json --text 'First Citizen' --model " + Model());
  ASSERT_EQ(run.exit, 0) << run.error;
  const auto json = nlohmann::json::parse(run.out);
  const auto ids = json["ids"].get<std::vector<std::int32_t>>();
  ASSERT_FALSE(ids.empty());
  const auto opened = OpenModel(Model());
  StageOptions options;
  options.range = {0, opened->spec.layers()};
  auto stage = NewTorchStage(opened->spec, options);
  ASSERT_TRUE((*stage)->LoadDirectory(*opened->directory).ok());
  const std::size_t vocabulary = opened->spec.vocabulary;
  std::vector<float> want(ids.size() * vocabulary);
  const auto tokens = static_cast<std::uint32_t>(ids.size());
  ASSERT_TRUE((*stage)->Logits({{}, 1, tokens, {{0}}, ids, {}, {}}, false, want).ok());
  ASSERT_EQ(json["logits"].size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = json["logits"][i].get<std::vector<float>>();
    ASSERT_EQ(row.size(), vocabulary);
    for (std::size_t j = 0; j < vocabulary; ++j)
      EXPECT_NEAR(row[j], want[i * vocabulary + j], 1e-5);
  }
}

TEST_F(ShoalRun, GeneratesTheSameTextFromTheSameSeed) {
  const std::string command = "generate --prompt 'To be' --tokens 20 --model " + Model();
  const Outcome first = Start(command + " --seed 4");
  ASSERT_EQ(first.exit, 0) << first.error;
  EXPECT_THAT(first.out, StartsWith("To be"));
  EXPECT_EQ(Start(command + " --seed 4").out, first.out);
  EXPECT_NE(Start(command + " --seed 5").out, first.out);
  const Outcome json = Start(command + " --json --temperature 0");
  ASSERT_EQ(json.exit, 0) << json.error;
  EXPECT_EQ(nlohmann::json::parse(json.out)["ids"].size(), 20u);
}

// Token by token as by whole rows, and once a row is full from its last positions.
TEST_F(ShoalRun, SlidesBeyondTheLastPosition) {
  const auto opened = OpenModel(Model());
  const std::size_t positions = opened->spec.positions;
  const Outcome run = Start("generate --json --prompt a --temperature 0 --tokens " +
                            std::to_string(positions + 5) + " --model " + Model());
  ASSERT_EQ(run.exit, 0) << run.error;
  const auto got = nlohmann::json::parse(run.out)["ids"].get<std::vector<std::int32_t>>();
  ASSERT_GT(got.size(), positions);
  StageOptions options;
  options.range = {0, opened->spec.layers()};
  auto stage = NewTorchStage(opened->spec, options);
  ASSERT_TRUE((*stage)->LoadDirectory(*opened->directory).ok());
  std::vector<std::int32_t> ids;
  ASSERT_NO_THROW(dataset::LoadTokenizer(Model()).value()->Encode("a", &ids));
  std::vector<float> logits(opened->spec.vocabulary);
  for (const std::int32_t id : got) {
    if (ids.size() % 31 != 1 && ids.size() + 3 < positions) {  // a whole row takes its time
      ids.push_back(id);
      continue;
    }
    const auto row = std::span<const std::int32_t>(ids).last(std::min(ids.size(), positions));
    const auto tokens = static_cast<std::uint32_t>(row.size());
    ASSERT_TRUE((*stage)->Logits({{}, 1, tokens, {{0}}, row, {}, {}}, true, logits).ok());
    const auto best = std::max_element(logits.begin(), logits.end());
    ASSERT_EQ(id, best - logits.begin()) << "behind " << ids.size() << " tokens";
    ids.push_back(id);
  }
}

TEST_F(ShoalRun, TellsUsageFromBadInput) {
  EXPECT_EQ(Start("").exit, 2);
  EXPECT_EQ(Start("eval --model x").exit, 2);
  EXPECT_EQ(Start("eval --model x --data y --split test").exit, 2);
  EXPECT_EQ(Start("--help").exit, 0);
  const Outcome none = Start("eval --model " + folder_ + "/none --data " + Data());
  EXPECT_EQ(none.exit, 78);
  EXPECT_THAT(none.error, StartsWith("shoal-run: "));
  EXPECT_EQ(Start("generate --prompt a --model " + folder_ + "/none").exit, 78);
  EXPECT_EQ(Start("eval --model " + Model() + " --data " + Model() + "/config.json").exit, 78);
  EXPECT_EQ(Start("init-model --config " + Data() + " --out " + folder_ + "/new").exit, 78);
  EXPECT_EQ(Start("init-model --config " + Model() + "/config.json --out " + Model()).exit, 1);
  EXPECT_EQ(Start("logits --text '' --model " + Model()).exit, 1);
}

TEST_F(ShoalRun, TellsClassifiersFromLanguageModels) {
  const std::string bert = std::string(std::getenv("SHOAL_TEST_DATA")) + "/families/bert";
  const Outcome eval = Start("eval --model " + bert + " --data " + Data());
  EXPECT_EQ(eval.exit, 78);
  EXPECT_THAT(eval.error, HasSubstr("is a classifier; take a model and data"));
  const Outcome generate = Start("generate --prompt a --model " + bert);
  EXPECT_EQ(generate.exit, 78);
  EXPECT_THAT(generate.error, HasSubstr("no next token"));
}

TEST_F(ShoalRun, RefusesDataOfAnotherTokenizer) {
  const std::string other = folder_ + "/other";
  fs::copy(Model(), other);
  fs::remove(other + "/tokenizer.json");
  // The same vocabulary with its last two merges in another order is another tokenizer.
  auto merges = ReadFile(other + "/merges.txt", 16 << 20);
  ASSERT_TRUE(merges.ok());
  std::string text = *merges;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t last = text.rfind('\n');
  const std::size_t before = text.rfind('\n', last - 1);
  text = text.substr(0, before) + text.substr(last) + text.substr(before, last - before) + "\n";
  ASSERT_TRUE(WriteFileAtomic(other + "/merges.txt", text).ok());
  const Outcome run = Start("eval --model " + other + " --data " + Data());
  EXPECT_EQ(run.exit, 78);
  EXPECT_THAT(run.error, HasSubstr("another tokenizer"));
}

}  // namespace
}  // namespace shoal::model
