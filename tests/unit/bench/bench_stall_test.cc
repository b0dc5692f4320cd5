#include "bench/bench_stall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <map>

namespace shoal::bench {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

std::string Scheduler(const std::string& state, const std::string& reason) {
  return Json{{"run", {{"state", state}, {"reason", reason}}}}.dump();
}

Json Peer(int stage, const std::map<std::string, double>& time) {
  Json parts = Json::array();
  for (const auto& [use, ms] : time) parts.push_back({{"activity", use}, {"ms", ms}});
  return {{"state", "training"}, {"role", {{"stage", stage}}}, {"work", {{"time", parts}}}};
}

PeerLooks Looks(const Json& first, const Json& second) { return {first.dump(), second.dump()}; }

TEST(DescribeStall, SaysWhoWaitsForWhat) {
  Json sender = Peer(1, {{"forward", 80}, {"wait_gradient", 1009}});
  sender["links"] = {{{"name", "peer-0"}, {"connected", false}, {"queueBytes", 0}},
                     {{"name", "peer-2"}, {"connected", true}, {"queueBytes", 2048}}};
  const std::string text = DescribeStall(
      Scheduler("training", ""),
      {Looks(Peer(2, {{"forward", 5000}, {"wait_input", 10}}),
             Peer(2, {{"forward", 5001}, {"wait_input", 1010}})),
       Looks(Peer(1, {{"forward", 80}, {"wait_gradient", 9}}), sender),
       Looks(Peer(0, {{"wait_step", 7}}), Peer(0, {{"wait_step", 7}, {"forward", 300}}))});
  EXPECT_EQ(text,
            "the run is training; stage 0 (peer-2) computes (forward); stage 1 (peer-1) waits for "
            "gradients of stage 2, its link to peer-0 is down, 2.00 KiB wait to go to peer-2; "
            "stage 2 (peer-0) waits for activations of stage 1");
}

TEST(DescribeStall, UsesTheWordsOfTheStatusTable) {
  const auto said = [](const char* use) {
    return DescribeStall(Scheduler("training", ""), {Looks(Peer(0, {}), Peer(0, {{use, 5}}))});
  };
  EXPECT_THAT(said("backward_input"), HasSubstr("(peer-0) computes (input gradients)"));
  EXPECT_THAT(said("wait_store"), HasSubstr("(peer-0) waits for its store"));
  EXPECT_THAT(said("exchange"), HasSubstr("(peer-0) waits for exchange of gradients"));
  EXPECT_THAT(said("wait_step"), HasSubstr("(peer-0) waits for end of step"));
  EXPECT_THAT(said("dance"), HasSubstr("(peer-0) computes (dance)"));
}

TEST(DescribeStall, NamesThoseWhoDoNotAnswerFirst) {
  const Json waiting = Peer(0, {{"wait_codec", 1}});
  Json spare = {{"state", "waiting"},
                {"role", nullptr},
                {"stateReasons", {"no stage is free", "the run is paused: a peer is missing"}}};
  const std::string text =
      DescribeStall(Scheduler("waiting", "a peer is missing"),
                    {Looks(waiting, waiting), {waiting.dump(), std::nullopt}, Looks(spare, spare)});
  EXPECT_EQ(text,
            "the run is waiting (a peer is missing); peer-1 does not answer; peer-2 has no stage "
            "and is waiting: no stage is free; stage 0 (peer-0) does nothing");
  EXPECT_THAT(DescribeStall(std::nullopt, {}), HasSubstr("scheduler does not answer"));
}

TEST(DescribeStall, TakesAnyText) {
  for (const char* text : {"", "[1", "7", "[]", R"({"role":{"stage":"x"},"work":{"time":[7]}})",
                           R"({"role":{"stage":1},"links":[3,{"name":4}],"work":7})"}) {
    EXPECT_THAT(DescribeStall(text, {{text, text}}), HasSubstr("peer-0")) << text;
  }
}

}  // namespace
}  // namespace shoal::bench
