#include "dataset/tokenizers/token_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "dataset/tokenizers/byte_names.h"
#include "dataset/tokenizers/json_fields.h"
#include "dataset/tokenizers/unicode.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kNestedMax = 8;     // sequences in sequences
constexpr std::size_t kTemplateMax = 64;  // tokens around a text
Result<std::int32_t> CheckedId(const Json& json, std::uint32_t vocabulary) {
  if (json.is_number_unsigned() && json.get<std::uint64_t>() < vocabulary) {
    return json.get<std::int32_t>();
  }
  return InvalidArgument("its post_processor has a token id that is not in the vocabulary");
}

// ["[SEP]", 102]
Result<std::int32_t> PairId(const Json& json, const char* name, std::uint32_t vocabulary) {
  const auto pair = json.find(name);
  if (pair == json.end() || !pair->is_array() || pair->size() != 2) {
    return InvalidArgument(std::string("its post_processor has no ") + name);
  }
  return CheckedId((*pair)[1], vocabulary);
}

Result<Wrapping> ParseClsSep(const Json& json, std::uint32_t vocabulary) {
  SHOAL_ASSIGN_OR_RETURN(const std::int32_t cls, PairId(json, "cls", vocabulary));
  SHOAL_ASSIGN_OR_RETURN(const std::int32_t sep, PairId(json, "sep", vocabulary));
  // RoBERTa has no token types.
  if (TypeOf(json) == "RobertaProcessing") {
    return Wrapping{{cls}, {sep}, PairWrapping{{cls}, {sep, sep}, {sep}}};
  }
  return Wrapping{{cls}, {sep}, PairWrapping{{cls}, {sep}, {sep}, PairTypes::kTwo, 1}};
}

// Appends the ids of {"SpecialToken": {"id": name}}.
Status AddSpecial(const Json& part, const Json& tokens, std::uint32_t vocabulary,
                  std::vector<std::int32_t>* ids) {
  const auto special = part.find("SpecialToken");
  const bool named = special != part.end() && special->is_object() && special->contains("id") &&
                     (*special)["id"].is_string();
  if (!named) return InvalidArgument("its TemplateProcessing has a part that is no token");
  const auto name = (*special)["id"].get<std::string>();
  const auto token = tokens.find(name);
  if (token == tokens.end() || !token->is_object() || !token->contains("ids") ||
      !(*token)["ids"].is_array()) {
    return InvalidArgument("its TemplateProcessing does not say which token " + Quoted(name) +
                           " is");
  }
  for (const Json& id : (*token)["ids"]) {
    SHOAL_ASSIGN_OR_RETURN(ids->emplace_back(), CheckedId(id, vocabulary));
  }
  return Status::Ok();
}

Result<Wrapping> ParseTemplate(const Json& json, std::uint32_t vocabulary) {
  const auto single = json.find("single");
  if (single == json.end() || !single->is_array() || single->size() > kTemplateMax) {
    return InvalidArgument("its TemplateProcessing has no list \"single\"");
  }
  const Json tokens = json.value("special_tokens", Json::object());
  if (!tokens.is_object()) return InvalidArgument("its TemplateProcessing has no special_tokens");
  Wrapping wrapping;
  bool seen = false;
  for (const Json& part : *single) {
    if (!part.is_object()) return InvalidArgument("its TemplateProcessing has a part that is none");
    if (part.contains("Sequence")) {
      if (seen) return InvalidArgument("its TemplateProcessing has the text twice");
      seen = true;
      continue;
    }
    auto* side = seen ? &wrapping.behind : &wrapping.before;
    SHOAL_RETURN_IF_ERROR(AddSpecial(part, tokens, vocabulary, side));
  }
  if (!seen) return InvalidArgument("its TemplateProcessing leaves the text out");
  return wrapping;
}

// "$A" or "$B", and its token type; other parts have no sequence.
struct PairPart {
  std::string sequence;
  Json type = 0;
};

PairPart PairPartOf(const Json& part) {
  PairPart found;
  for (const auto& [kind, value] : part.items()) {
    if (!value.is_object()) continue;
    if (kind == "Sequence") found.sequence = value.value("id", Json()).dump();
    found.type = value.value("type_id", Json(0));
  }
  return found;
}

// Adds the type of the next part, which is behind `texts` texts or one of them itself.
void AddType(const PairPart& part, std::size_t texts, PairWrapping* wrapping) {
  const bool one = part.type == Json(1);
  if (!one && part.type != Json(0)) wrapping->types = PairTypes::kOther;
  switch (wrapping->types) {
    case PairTypes::kNone:
      if (!one) return;
      wrapping->types = texts == 1 ? PairTypes::kTwo : PairTypes::kOther;
      wrapping->first_type = wrapping->between.size();
      return;
    case PairTypes::kTwo:
      if (!one) wrapping->types = PairTypes::kOther;
      return;
    case PairTypes::kOther: return;
  }
}

// Of a template for two texts; nothing where it does not have the first and then the second one.
std::optional<PairWrapping> ParsePair(const Json& json, std::uint32_t vocabulary) {
  const auto pair = json.find("pair");
  if (pair == json.end() || !pair->is_array() || pair->size() > kTemplateMax) return std::nullopt;
  const Json tokens = json.value("special_tokens", Json::object());
  PairWrapping wrapping;
  std::vector<std::int32_t>* const sides[] = {&wrapping.before, &wrapping.between,
                                              &wrapping.behind};
  std::size_t texts = 0;
  for (const Json& part : *pair) {
    if (!part.is_object()) return std::nullopt;
    const PairPart found = PairPartOf(part);
    AddType(found, texts, &wrapping);
    if (found.sequence.empty()) {
      if (!AddSpecial(part, tokens, vocabulary, sides[texts]).ok()) return std::nullopt;
    } else if (texts == 2 || found.sequence != (texts == 0 ? "\"A\"" : "\"B\"")) {
      return std::nullopt;
    } else {
      ++texts;
    }
  }
  if (texts < 2) return std::nullopt;
  return wrapping;
}

Status AddWrapping(const Json& json, std::uint32_t vocabulary, std::size_t depth, Wrapping* all) {
  if (depth > kNestedMax) return InvalidArgument("its post_processor is nested too deeply");
  const std::string type = TypeOf(json);
  if (type == "ByteLevel") return Status::Ok();  // moves offsets only
  if (type == "Sequence") {
    const auto list = json.find("processors");
    if (list == json.end() || !list->is_array()) {
      return InvalidArgument("its post_processor is a Sequence without a list");
    }
    for (const Json& each : *list) {
      SHOAL_RETURN_IF_ERROR(AddWrapping(each, vocabulary, depth + 1, all));
    }
    return Status::Ok();
  }
  Wrapping wrapping;
  if (type == "TemplateProcessing") {
    SHOAL_ASSIGN_OR_RETURN(wrapping, ParseTemplate(json, vocabulary));
    wrapping.pair = ParsePair(json, vocabulary);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    SHOAL_ASSIGN_OR_RETURN(wrapping, ParseClsSep(json, vocabulary));
  } else {
    return InvalidArgument("its post_processor is or has " + Quoted(type) +
                           ", which shoal does not have");
  }
  // Of two processors around two texts nobody needs to know what they make.
  const bool alone = all->before.empty() && all->behind.empty() && !all->pair;
  all->pair = alone ? std::move(wrapping.pair) : std::nullopt;
  all->before.insert(all->before.begin(), wrapping.before.begin(), wrapping.before.end());
  all->behind.insert(all->behind.end(), wrapping.behind.begin(), wrapping.behind.end());
  return Status::Ok();
}

// {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
Status AddReplace(const Json& json, DecodeRule* rule) {
  const Json pattern = json.value("pattern", Json::object());
  SHOAL_ASSIGN_OR_RETURN(const std::string from, TextOf(pattern, "String", ""));
  SHOAL_ASSIGN_OR_RETURN(const std::string to, TextOf(json, "content", ""));
  if (from.empty() || to != " ") {
    return InvalidArgument("its decoder has a Replace that is not of one text by a space");
  }
  rule->space = from;
  return Status::Ok();
}

Status AddMetaspace(const Json& json, DecodeRule* rule) {
  SHOAL_ASSIGN_OR_RETURN(rule->space, TextOf(json, "replacement", kMetaspace));
  SHOAL_ASSIGN_OR_RETURN(const bool prefix, FlagOf(json, "add_prefix_space", true));
  SHOAL_ASSIGN_OR_RETURN(const std::string scheme,
                         TextOf(json, "prepend_scheme", prefix ? "always" : "never"));
  rule->drop_first_space = scheme != "never";
  return Status::Ok();
}

Status AddRule(const Json& json, std::size_t depth, DecodeRule* rule) {
  if (depth > kNestedMax) return InvalidArgument("its decoder is nested too deeply");
  const std::string type = TypeOf(json);
  if (type == "Fuse") return Status::Ok();
  if (type == "Replace") return AddReplace(json, rule);
  if (type == "Metaspace") return AddMetaspace(json, rule);
  if (type == "ByteLevel") {
    rule->byte_level = true;
  } else if (type == "ByteFallback") {
    rule->byte_fallback = true;
  } else if (type == "Strip") {
    SHOAL_ASSIGN_OR_RETURN(const std::string content, TextOf(json, "content", " "));
    if (content != " ") return InvalidArgument("its decoder strips " + Quoted(content));
    rule->drop_first_space = json.value("start", Json(0)) != Json(0);
  } else if (type == "WordPiece") {
    SHOAL_ASSIGN_OR_RETURN(rule->prefix, TextOf(json, "prefix", "##"));
    SHOAL_ASSIGN_OR_RETURN(rule->cleanup, FlagOf(json, "cleanup", true));
    rule->drop_first_space = true;
  } else if (type == "Sequence") {
    const auto list = json.find("decoders");
    if (list == json.end() || !list->is_array()) {
      return InvalidArgument("its decoder is a Sequence without a list");
    }
    for (const Json& each : *list) SHOAL_RETURN_IF_ERROR(AddRule(each, depth + 1, rule));
  } else {
    return InvalidArgument("its decoder is or has " + Quoted(type) + ", which shoal does not have");
  }
  return Status::Ok();
}

bool StandsClose(const std::string& name) {
  constexpr const char* kClose[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};
  return std::find(std::begin(kClose), std::end(kClose), name) != std::end(kClose);
}

}  // namespace

Result<Wrapping> ParsePostProcessor(const Json& json, std::uint32_t vocabulary) {
  Wrapping wrapping;
  if (json.is_null()) return wrapping;
  SHOAL_RETURN_IF_ERROR(AddWrapping(json, vocabulary, 0, &wrapping));
  return wrapping;
}

Result<DecodeRule> ParseDecoder(const Json& json) {
  DecodeRule rule;
  if (json.is_null()) return rule;
  SHOAL_RETURN_IF_ERROR(AddRule(json, 0, &rule));
  return rule;
}

std::string BytesBy(const DecodeRule& rule, const std::string& name) {
  if (rule.byte_level) return BytesOfName(name);
  if (rule.byte_fallback) {
    if (const auto byte = FallbackByte(name)) return std::string(1, static_cast<char>(*byte));
  }
  if (!rule.prefix.empty()) {
    if (name.starts_with(rule.prefix)) return name.substr(rule.prefix.size());
    return rule.cleanup && StandsClose(name) ? name : " " + name;
  }
  if (rule.apart) return " " + name;
  std::string bytes = name;
  ReplaceAll(rule.space, " ", &bytes);
  return bytes;
}

}  // namespace shoal::dataset
