#include "bench/bench_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <map>

#include "common/file.h"
#include "tests/support/temporary_folder.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::json;

Json Event(const char* name, int step, double ts) {
  return {{"name", name},
          {"ph", "X"},
          {"pid", 99},
          {"tid", 1},
          {"ts", ts},
          {"dur", 5},
          {"args", {{"step", step}, {"mb", 0}}}};
}

std::string Peer(const std::string& path, double forward) {
  const Json json = {{"traceEvents",
                      {Event("mb.forward", 3, forward),
                       Event("delta.prefetched", 3, 10),
                       Event("mb.forward", 4, 9000),
                       {{"name", "thread_name"},
                        {"ph", "M"},
                        {"pid", 99},
                        {"tid", 1},
                        {"args", {{"name", "compute"}}}}}}};
  EXPECT_TRUE(WriteFileAtomic(path, json.dump()).ok());
  return path;
}

TEST(BenchTrace, MergesOneStepInOrderOfStages) {
  const test_support::TemporaryFolder folder;
  const std::string output = folder.path() + "/merged.json";
  const Status status =
      MergeTraces({Peer(folder.path() + "/b", 250), Peer(folder.path() + "/a", 200)}, 3, output);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const Json merged = Json::parse(*ReadFile(output, 1 << 20));
  std::map<int, double> forwards;
  std::map<int, std::string> names;
  for (const Json& event : merged["traceEvents"]) {
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
    if (event["ph"] != "X") continue;
    EXPECT_EQ(event["name"], "mb.forward");
    EXPECT_EQ(event["args"]["step"], 3);
    forwards[event["pid"]] = event["ts"];
  }
  EXPECT_EQ(names, (std::map<int, std::string>{{1, "stage 0"}, {2, "stage 1"}}));
  EXPECT_EQ(forwards, (std::map<int, double>{{1, 0}, {2, 50}}));
}

TEST(BenchTrace, AFileThatIsNoTraceIsRefused) {
  const test_support::TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder.path() + "/a", "[]").ok());
  EXPECT_FALSE(MergeTraces({folder.path() + "/a"}, 3, folder.path() + "/merged").ok());
  EXPECT_FALSE(MergeTraces({folder.path() + "/none"}, 3, folder.path() + "/merged").ok());
}

}  // namespace
}  // namespace shoal::bench
