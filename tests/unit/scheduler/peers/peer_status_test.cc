#include "scheduler/peers/peer_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <string>

namespace shoal::scheduler {
namespace {

using nlohmann::ordered_json;

std::string Fitted(const std::string& json) {
  const auto fitted = FitPeerStatus(json);
  return fitted.ok() ? *fitted : fitted.status().message();
}

TEST(PeerStatusTest, KeepsKnownFieldsOfTheirTypeOnly) {
  EXPECT_EQ(Fitted(R"({"name":"attic","evil":1,"since":"x","role":null,"work":{"step":3,"x":[]}})"),
            R"({"name":"attic","role":null,"work":{"step":3}})");
  EXPECT_EQ(Fitted(R"({"links":[{"ratio":"a text"},7,{"ratio":2,"peer":[]},null]})"),
            R"({"links":[{},{"ratio":2},null]})");
  EXPECT_EQ(Fitted(R"({"role":{"layers":["<img src=x onerror=alert(1)>",2]}})"),
            R"({"role":{"layers":[2]}})");
  EXPECT_EQ(Fitted(R"({"swarm":{"losses":[[1,2.5],["x",3],7]}})"),
            R"({"swarm":{"losses":[[1,2.5],[3]]}})");
  EXPECT_EQ(Fitted("{}"), "{}");
}

TEST(PeerStatusTest, BoundsTextsListsAndNumbers) {
  const std::string line = Fitted(R"({"name":"a\u001b[2Jb\nc"})");
  EXPECT_EQ(line, R"({"name":"a [2Jb c"})");
  const auto text = ordered_json::parse(Fitted(R"({"name":")" + std::string(9000, 'x') + "\"}"));
  EXPECT_EQ(text["name"].get<std::string>().size(), kStatusCharactersMax);
  std::string reasons = "\"a\"";
  for (int i = 0; i < 3000; ++i) reasons += ",\"b\"";
  const auto list = ordered_json::parse(Fitted("{\"stateReasons\":[" + reasons + "]}"));
  EXPECT_EQ(list["stateReasons"].size(), kStatusItemsMax);
  EXPECT_EQ(Fitted(R"({"time":1e400})").find("time"), std::string::npos);
}

// One heartbeat of 131,000 nested lists ended the scheduler as soon as anybody read the status.
TEST(PeerStatusTest, NestedListsAreRefused) {
  for (const int depth : {20, 131'000}) {
    const std::string nested = "{\"links\":" + std::string(static_cast<std::size_t>(depth), '[') +
                               std::string(static_cast<std::size_t>(depth), ']') + "}";
    EXPECT_THAT(Fitted(nested), testing::HasSubstr("nests too deep"));
  }
  EXPECT_THAT(Fitted("[1]"), testing::HasSubstr("malformed"));
  EXPECT_THAT(Fitted("{"), testing::HasSubstr("malformed"));
}

}  // namespace
}  // namespace shoal::scheduler
