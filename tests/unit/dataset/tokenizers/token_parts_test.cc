#include "dataset/tokenizers/token_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::json;

// "A0": the first text with the type 0; "S1": the token [SEP], id 7, with the type 1.
Json Parts(const std::string& words) {
  Json parts = Json::array();
  for (std::size_t i = 0; i + 1 < words.size(); i += 3) {
    const bool text = words[i] != 'S';
    Json& part = parts.emplace_back();
    Json& named = part[text ? "Sequence" : "SpecialToken"];
    named["id"] = text ? words.substr(i, 1) : "[SEP]";
    named["type_id"] = words[i + 1] - '0';
  }
  return parts;
}

std::optional<PairWrapping> PairOf(const Json& pair) {
  Json json;
  json["type"] = "TemplateProcessing";
  json["single"] = Parts("A0");
  json["pair"] = pair;
  json["special_tokens"]["[SEP]"] = {{"id", "[SEP]"}, {"ids", Json::array({7U})}};
  const auto wrapping = ParsePostProcessor(json, 10);
  EXPECT_TRUE(wrapping.ok()) << wrapping.status().ToString();
  return wrapping.ok() ? wrapping->pair : std::nullopt;
}

TEST(TokenParts, TypesOfPairs) {
  const struct {
    const char* words;
    PairTypes types;
    std::size_t first_type;
  } cases[] = {
      {"S0 A0 S0 B0 S0", PairTypes::kNone, 0}, {"S0 A0 S0 B1 S1", PairTypes::kTwo, 1},
      {"A0 S0 S1 B1", PairTypes::kTwo, 1},     {"A0 S1 S1 B1", PairTypes::kTwo, 0},
      {"A0 B1", PairTypes::kTwo, 0},           {"S1 A1 B1", PairTypes::kOther, 0},
      {"S0 A1 B1", PairTypes::kOther, 0},      {"S1 A0 B0", PairTypes::kOther, 0},
      {"A0 S0 B0 S1", PairTypes::kOther, 0},   {"A0 S0 B1 S0", PairTypes::kOther, 0},
      {"A0 S1 B0", PairTypes::kOther, 0},      {"A0 S0 B1 S2", PairTypes::kOther, 0},
      {"A0 S0 B2 S2", PairTypes::kOther, 0},
  };
  for (const auto& [words, types, first_type] : cases) {
    const auto pair = PairOf(Parts(words));
    ASSERT_TRUE(pair.has_value()) << words;
    EXPECT_EQ(pair->types, types) << words;
    if (types == PairTypes::kTwo) {
      EXPECT_EQ(pair->first_type, first_type) << words;
    }
  }
  Json odd = Parts("A0 S0 B1");
  for (const Json& type : {Json("1"), Json(nullptr), Json(-1), Json(0.5)}) {
    odd[2]["Sequence"]["type_id"] = type;
    EXPECT_EQ(PairOf(odd)->types, PairTypes::kOther) << type;
  }
}

TEST(TokenParts, TypesOfBertAndRoberta) {
  Json json = {{"type", "BertProcessing"}, {"sep", {"[SEP]", 7U}}, {"cls", {"[CLS]", 5U}}};
  const PairWrapping bert = *ParsePostProcessor(json, 10)->pair;
  EXPECT_EQ(bert.types, PairTypes::kTwo);
  EXPECT_EQ(bert.first_type, 1U);
  json["type"] = "RobertaProcessing";
  const PairWrapping roberta = *ParsePostProcessor(json, 10)->pair;
  EXPECT_EQ(roberta.types, PairTypes::kNone);
  EXPECT_THAT(roberta.between, ElementsAre(7, 7));
}

}  // namespace
}  // namespace shoal::dataset
