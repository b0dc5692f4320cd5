#include "dataset/tokenizer_config.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/nesting.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;

constexpr char kDamaged[] = "not a JSON object: the file is damaged; copy it again";

Result<Json> ParseObject(std::string_view text) {
  Json root = ParseJson<Json>(text);
  if (!root.is_object()) return InvalidArgument(kDamaged);
  return root;
}

bool Flag(const Json& token, const char* name, bool otherwise) {
  const auto found = token.find(name);
  return found != token.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

// A token's name, or {"content": name, "lstrip": ...}; nothing if it is neither.
std::optional<AddedToken> TokenOf(const Json& json, bool special) {
  AddedToken token;
  token.special = special;
  if (json.is_string()) {
    token.content = json.get<std::string>();
  } else if (json.is_object() && json.contains("content") && json["content"].is_string()) {
    token.content = json["content"].get<std::string>();
    token.single_word = Flag(json, "single_word", false);
    token.lstrip = Flag(json, "lstrip", false);
    token.rstrip = Flag(json, "rstrip", false);
    token.special = Flag(json, "special", special);
    token.normalized = Flag(json, "normalized", !token.special);
    return token.content.empty() ? std::nullopt : std::optional(token);
  }
  token.normalized = !special;
  return token.content.empty() ? std::nullopt : std::optional(token);
}

Result<std::int32_t> IdOf(std::string_view text) {
  std::int32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error == std::errc() && end == text.data() + text.size() && id >= 0) return id;
  return InvalidArgument("an id of added_tokens_decoder is not a whole number from 0");
}

Status AddDecoder(const Json& root, std::vector<NamedToken>* tokens) {
  const auto decoder = root.find("added_tokens_decoder");
  if (decoder == root.end() || decoder->is_null()) return Status::Ok();
  if (!decoder->is_object()) return InvalidArgument("added_tokens_decoder is not an object");
  for (const auto& [id, json] : decoder->items()) {
    auto token = TokenOf(json, false);
    if (!token) return InvalidArgument("an entry of added_tokens_decoder has no content");
    SHOAL_ASSIGN_OR_RETURN(token->id, IdOf(id));
    tokens->push_back({std::move(*token), true});
  }
  return Status::Ok();
}

}  // namespace

Result<TokenizerConfig> ParseTokenizerConfig(std::string_view json) {
  SHOAL_ASSIGN_OR_RETURN(const Json root, ParseObject(json));
  TokenizerConfig config;
  for (const auto& [name, flag] : {std::pair("add_prefix_space", &config.add_prefix_space),
                                   std::pair("add_bos_token", &config.add_bos_token),
                                   std::pair("add_eos_token", &config.add_eos_token),
                                   std::pair("do_lower_case", &config.do_lower_case),
                                   std::pair("split_by_punct", &config.split_by_punct)}) {
    const auto found = root.find(name);
    if (found == root.end() || found->is_null()) continue;
    if (!found->is_boolean()) {
      return InvalidArgument(std::string(name) + " is neither true nor false");
    }
    *flag = found->get<bool>();
  }
  if (const auto kind = root.find("tokenizer_class"); kind != root.end() && kind->is_string()) {
    config.tokenizer_class = kind->get<std::string>();
  }
  SHOAL_RETURN_IF_ERROR(AddDecoder(root, &config.tokens));
  for (const auto& [key, value] : root.items()) {
    const bool list = key == "additional_special_tokens" || key == "extra_special_tokens";
    if (!list && !key.ends_with("_token")) continue;
    if (!list || !value.is_array()) {
      if (auto token = TokenOf(value, true)) config.tokens.push_back({std::move(*token), false});
      continue;
    }
    for (const Json& each : value) {
      if (auto token = TokenOf(each, true)) config.tokens.push_back({std::move(*token), false});
    }
  }
  return config;
}

Result<std::vector<NamedToken>> ParseAddedTokens(std::string_view json) {
  SHOAL_ASSIGN_OR_RETURN(const Json root, ParseObject(json));
  std::vector<NamedToken> tokens;
  for (const auto& [content, id] : root.items()) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      return InvalidArgument("the id of a token is not a whole number from 0");
    }
    if (content.empty()) continue;
    AddedToken token;
    token.content = content;
    token.id = id.get<std::int32_t>();
    token.normalized = true;
    tokens.push_back({std::move(token), true});
  }
  return tokens;
}

}  // namespace shoal::dataset
