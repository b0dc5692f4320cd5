#include "daemon/terms/page_order.h"

#include <gmock/gmock.h>

namespace shoal::daemon {
namespace {

using testing::HasSubstr;

TEST(PageOrder, IsWhatTheCommandLineWouldOrder) {
  const PageOrder set = ParsePageOrder(R"({"set":{"upload":"5mbit","for":"8h"}})").value();
  EXPECT_EQ(set.command, "set");
  EXPECT_EQ(set.arguments,
            (std::map<std::string, std::string>{{"upload", "5mbit"}, {"for", "8h"}}));
  const PageOrder pause = ParsePageOrder(R"({"pause":{"for":"1h"}})").value();
  EXPECT_EQ(pause.command, "pause");
  EXPECT_EQ(pause.arguments.at("for"), "1h");
  EXPECT_TRUE(ParsePageOrder(R"({"pause":{}})").value().arguments.empty());
  EXPECT_EQ(ParsePageOrder(R"({"resume":{}})").value().command, "resume");
  EXPECT_EQ(ParsePageOrder(R"({"settings":{}})").value().command, "settings");
}

TEST(PageOrder, OtherCommandsAreNotForAPage) {
  for (const char* command : {"leave", "stop", "finish", "join", "page", "stats", ""}) {
    const auto order = ParsePageOrder("{\"" + std::string(command) + "\":{}}");
    ASSERT_FALSE(order.ok()) << command;
    EXPECT_THAT(order.status().message(), HasSubstr("may order set, pause, resume"));
  }
}

TEST(PageOrder, WhatIsNoOrderIsRefused) {
  std::string many = "{\"set\":{";
  for (int i = 0; i < 40; ++i) many += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":\"x\"";
  const std::string texts[] = {"",
                               "{}",
                               "[]",
                               "null",
                               "{\"set\":{}}",
                               "{\"set\":null}",
                               "{\"set\":\"upload\"}",
                               "{\"set\":{\"upload\":5}}",
                               "{\"set\":{\"upload\":{\"x\":\"y\"}}}",
                               "{\"set\":{\"upload\":\"5mbit\"},\"resume\":{}}",
                               "{\"pause\":{\"until\":\"8h\"}}",
                               "{\"resume\":{\"for\":\"8h\"}}",
                               "{\"set\":{\"upload\":\"5mbit\"}} x",
                               many + "}}",
                               std::string(5000, '[')};
  for (const std::string& text : texts) {
    const auto order = ParsePageOrder(text);
    EXPECT_EQ(order.status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace shoal::daemon
