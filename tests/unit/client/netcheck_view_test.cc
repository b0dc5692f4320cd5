// What `shoal netcheck` makes of a peer's status.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "client/status_view.h"

namespace shoal::client {
namespace {

using testing::HasSubstr;
using testing::Not;

nlohmann::json Status() {
  return nlohmann::json::parse(R"({"schemaVersion":2,"listenPort":4711,
"scheduler":{"connected":true,"rttMs":31.25,"upBps":9000000,"downBps":40000000},
"mapping":{"address":"","how":"","trouble":"no router answers by UPnP"},
"relays":[{"relay":"relay.example.org:8783","registered":true,"seenAddress":"203.0.113.7:5000",
"ownAddress":"192.168.1.5:5000","dialBack":"not reached","rttMs":12.5}],
"links":[{"path":"relay","address":"relay relay.example.org:8783","upBps":8000000,"downBps":0},
{"path":"lan","address":"192.168.1.9:5000","upBps":1000000000,"downBps":1000000},
{"path":"relay","address":"relay 203.0.113.5:8783","upBps":7000000,"downBps":0}],
"pacing":{"lineBps":18000000},"limits":{"upBps":20000000}})");
}

std::string View(const nlohmann::json& status) { return NetcheckView(status.dump()).value(); }
std::string Verdict(const nlohmann::json& status) {
  return nlohmann::json::parse(NetcheckJson(status.dump()).value())["verdict"];
}

TEST(NetcheckView, SaysAllInElevenLines) {
  const std::string view = View(Status());
  EXPECT_EQ(std::count(view.begin(), view.end(), '\n'), 11) << view;
  for (const char* part :
       {"192.168.1.5, listens on port 4711", "203.0.113.7:5000 by relay.example.org:8783",
        "translates addresses and keeps ports", "likely, with others",
        "none: no router answers by UPnP", "no relay reached this peer's port",
        "relay.example.org:8783: registered, 12.5 ms, 15 Mbit/s there\n",
        "takes 18 Mbit/s up, cap 20 Mbit/s",
        "connected, answered in 31.2 ms, 40 Mbit/s from there, 9 Mbit/s there\n", "1 lan, 2 relay",
        "by a relay, or it dials them", "forward TCP port 4711"}) {
    EXPECT_THAT(view, HasSubstr(part));
  }
  EXPECT_EQ(Verdict(Status()), "relay");
  EXPECT_EQ(nlohmann::json::parse(NetcheckJson(Status().dump()).value())["schedulerRttMs"], 31.25);
  EXPECT_EQ(nlohmann::json::parse(NetcheckJson(Status().dump()).value())["schedulerUpBps"], 9e6);
}

TEST(NetcheckView, AMappedOrReachedPortIsDirect) {
  nlohmann::json mapped = Status();
  mapped["mapping"] = {{"address", "203.0.113.7:4711"}, {"how", "UPnP"}, {"trouble", ""}};
  EXPECT_EQ(Verdict(mapped), "direct");
  EXPECT_THAT(View(mapped), HasSubstr("203.0.113.7:4711 leads here (UPnP)"));
  nlohmann::json reached = Status();
  reached["relays"][0]["dialBack"] = "reached";
  EXPECT_EQ(Verdict(reached), "direct");
  EXPECT_THAT(View(reached), Not(HasSubstr("forward TCP port")));
}

TEST(NetcheckView, APublicAddressThatNobodyTriedIsDirect) {
  nlohmann::json status = Status();
  status["relays"][0]["ownAddress"] = "203.0.113.7:5000";
  status["relays"][0]["dialBack"] = "unknown";
  EXPECT_EQ(Verdict(status), "direct");
  EXPECT_THAT(View(status), HasSubstr("this machine's own"));
  status["relays"][0]["dialBack"] = "not reached";  // by a firewall
  EXPECT_EQ(Verdict(status), "relay");
}

TEST(NetcheckView, WithoutARelayNothingIsGuessed) {
  nlohmann::json status = Status();
  status["relays"] = nlohmann::json::array();
  EXPECT_EQ(Verdict(status), "unknown");
  EXPECT_THAT(View(status), HasSubstr("ask the organiser for a relay"));
  status["relays"] = Status()["relays"];
  status["relays"][0] = {{"relay", "r:1"}, {"registered", false}, {"trouble", "no route"}};
  EXPECT_EQ(Verdict(status), "unknown");
  EXPECT_THAT(View(status), HasSubstr("r:1: not registered, no route"));
}

TEST(NetcheckView, ARouterThatChangesPortsNeedsARelay) {
  const auto word = [](const nlohmann::json& status) {
    return nlohmann::json::parse(NetcheckJson(status.dump()).value())["punch"];
  };
  EXPECT_EQ(word(Status()), "likely");
  nlohmann::json changed = Status();
  changed["relays"][0]["seenAddress"] = "203.0.113.7:61234";
  changed["links"][0]["path"] = "punched";
  EXPECT_EQ(word(changed), "unlikely");
  EXPECT_THAT(View(changed), HasSubstr("unlikely: the router changes ports"));
  EXPECT_THAT(View(changed), HasSubstr("1 lan, 1 punched, 1 relay"));
  changed["relays"] = nlohmann::json::array();
  EXPECT_EQ(word(changed), "unknown");
}

TEST(NetcheckView, ValuesOfOtherTypesDoNoHarm) {
  for (const char* text : {"{}", R"({"relays":5,"links":{},"mapping":[]})",
                           R"({"relays":[1,null,{"seenAddress":7}],"links":[2]})"}) {
    EXPECT_TRUE(NetcheckView(text).ok());
    EXPECT_TRUE(NetcheckJson(text).ok());
  }
  EXPECT_FALSE(NetcheckView("[]").ok());
}

}  // namespace
}  // namespace shoal::client
