#include "client/base/run_file.h"

#include <gtest/gtest.h>

#include <set>

#include <toml++/toml.h>

namespace shoal::client {
namespace {

std::set<std::string> KeysOf(const toml::table& root) {
  std::set<std::string> keys;
  for (const auto& [section, node] : root) {
    for (const auto& [key, value] : *node.as_table()) {
      keys.insert(std::string(section.str()) + "." + std::string(key.str()));
    }
  }
  return keys;
}

TEST(RunFile, EmptyFileSetsNothing) { EXPECT_EQ(FormatRunFile(RunFile{}), ""); }

TEST(RunFile, SetsExactlyWhatIsGiven) {
  RunFile file;
  file.name = "a \"name\" \\ with\nall änd \x01";
  file.steps = 1ull << 62;
  file.learning_rate = 2e-3;
  const toml::table root = toml::parse(FormatRunFile(file));
  EXPECT_EQ(KeysOf(root),
            (std::set<std::string>{"run.name", "run.steps", "optimizer.learning_rate"}));
  EXPECT_EQ(root["run"]["name"].value<std::string>(), file.name);
  EXPECT_EQ(root["run"]["steps"].value<std::int64_t>(), std::int64_t{1} << 62);
  EXPECT_EQ(root["optimizer"]["learning_rate"].value<double>(), 2e-3);
}

TEST(RunFile, KnowsAllItsKeys) {
  RunFile file{.name = "n",
               .model = "m",
               .data = "d",
               .directory = "r",
               .steps = 1,
               .seed = 2,
               .checkpoint_every = 3,
               .warmup_steps = 4,
               .stages = 5,
               .pipelines = 6,
               .micro_batches = 7,
               .micro_batch_rows = 8,
               .forward = "f",
               .backward = "b",
               .learning_rate = 1,
               .listen = "l",
               .status_listen = "s",
               .advertise = "host"};
  const toml::table root = toml::parse(FormatRunFile(file));
  EXPECT_EQ(
      KeysOf(root),
      (std::set<std::string>{"run.name", "run.model", "run.data", "run.directory", "run.steps",
                             "run.seed", "run.stages", "run.pipelines", "run.micro_batches",
                             "run.micro_batch_rows", "run.checkpoint_every", "codecs.forward",
                             "codecs.backward", "optimizer.learning_rate", "optimizer.warmup_steps",
                             "network.listen", "network.status_listen", "network.advertise"}));
  EXPECT_EQ(root["run"]["seed"].value<int>(), 2);
  EXPECT_EQ(root["run"]["checkpoint_every"].value<int>(), 3);
  EXPECT_EQ(root["run"]["micro_batch_rows"].value<int>(), 8);
  EXPECT_EQ(root["codecs"]["backward"].value<std::string>(), "b");
  // A whole number stays a number with a point, as the scheduler wants it.
  EXPECT_TRUE(root["optimizer"]["learning_rate"].is_floating_point());
  ASSERT_TRUE(root["network"]["advertise"].is_array());
  EXPECT_EQ(root["network"]["advertise"][0].value<std::string>(), "host");
}

}  // namespace
}  // namespace shoal::client
