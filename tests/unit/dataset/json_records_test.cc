#include "dataset/json_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using Found = std::vector<std::pair<std::uint64_t, std::string>>;  // line, record

Found All(std::string_view text, bool array, std::string* error = nullptr) {
  JsonRecords records(text, array);
  Found found;
  for (std::string_view record;;) {
    const auto more = records.Next(&record);
    if (!more.ok()) {
      if (error != nullptr) *error = std::to_string(records.line()) + " " + more.status().message();
      EXPECT_NE(error, nullptr) << more.status().ToString();
      return found;
    }
    EXPECT_LE(records.position(), text.size());
    if (!*more) break;
    found.emplace_back(records.line(), record);
  }
  EXPECT_EQ(records.position(), text.size());
  return found;
}

TEST(JsonRecords, Lines) {
  EXPECT_THAT(All("{1}\r\n\n  \n[2]\nthree", false),
              ElementsAre(Pair(1, "{1}\r"), Pair(4, "[2]"), Pair(5, "three")));
  EXPECT_TRUE(All("", false).empty());
  EXPECT_TRUE(All("\n \n", false).empty());
}

TEST(JsonRecords, Arrays) {
  EXPECT_THAT(All(" [\n{\"a\": \"]}\\\"\"}, {\"b\":\n[{}]}\n]\n ", true),
              ElementsAre(Pair(2, "{\"a\": \"]}\\\"\"}"), Pair(2, "{\"b\":\n[{}]}")));
  EXPECT_TRUE(All("[]", true).empty());
}

TEST(JsonRecords, WhatIsWrongWithAnArrayIsSaidWithItsLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"{}", "1 not a JSON array"},
      {"[{}\n{}]", "2 not well-formed JSON: no comma"},
      {"[{},\n\n]", "3 not a JSON object"},
      {"[{},\n1]", "2 not a JSON object"},
      {"[{},\n{\"a\": 1", "2 the JSON object here has no end"},
      {"[{}", "1 not well-formed JSON: no comma or end"},
      {"[{}]\nx", "2 something is behind the end"},
      {"[", "1 not a JSON object"}};
  for (const auto& [text, words] : cases) {
    std::string error;
    All(text, true, &error);
    EXPECT_THAT(error, testing::StartsWith(words)) << text;
  }
}

TEST(JsonRecords, ElementsAreThoseOfAParser) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    nlohmann::json array = nlohmann::json::array();
    for (unsigned i = random() % 5; i-- > 0;) {
      nlohmann::json object = {{"n", random() % 9}};
      std::string text;
      for (unsigned c = random() % 6; c-- > 0;) text += "\"\\{}[]a\n"[random() % 8];
      object["t"] = text;
      if (random() % 2) object["deep"] = {{{"x", {text}}}};
      array.push_back(object);
    }
    const std::string text = array.dump(random() % 2 ? 2 : -1);
    const Found found = All(text, true);
    ASSERT_EQ(found.size(), array.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(nlohmann::json::parse(found[i].second), array[i]);
    }
  }
}

}  // namespace
}  // namespace shoal::dataset
