// tokenizer.json of Hugging Face's `tokenizers`.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/lfs_pointer.h"
#include "common/nesting.h"
#include "dataset/tokenizers/json_fields.h"
#include "dataset/tokenizers/named_tokens.h"
#include "dataset/tokenizers/token_parts.h"
#include "dataset/tokenizers/tokenizer_files.h"
#include "dataset/tokenizers/vocabulary.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;

const Json& FieldOf(const Json& object, const char* name) {
  static const auto* const kNull = new Json;
  const auto found = object.find(name);
  return found == object.end() ? *kNull : *found;
}

// Refuses `field` unless it is absent, null, or `fine`.
Status Only(const Json& model, const char* field, const Json& fine) {
  const Json& value = FieldOf(model, field);
  if (value.is_null() || value == fine) return Status::Ok();
  return InvalidArgument(std::string("model.") + field + " is set (" +
                         Quoted(value.dump(-1, ' ', true, Json::error_handler_t::replace)) +
                         "), which shoal does not have");
}

Result<std::optional<std::int32_t>> UnknownOf(const Json& model, const NameIds& ids) {
  SHOAL_ASSIGN_OR_RETURN(const std::string name, TextOf(model, "unk_token", ""));
  if (name.empty()) return std::optional<std::int32_t>();
  const auto found = ids.find(name);
  if (found == ids.end()) {
    return InvalidArgument("its unk_token " + Quoted(name) + " is not in the vocabulary");
  }
  return std::optional(found->second);
}

Status ParseBpe(const Json& json, const NameIds& ids, TokenizerFile* file) {
  SHOAL_RETURN_IF_ERROR(Only(json, "dropout", 0));
  SHOAL_RETURN_IF_ERROR(Only(json, "continuing_subword_prefix", ""));
  SHOAL_RETURN_IF_ERROR(Only(json, "end_of_word_suffix", ""));
  BpeModel model;
  model.byte_level = file->pre_tokenizer.byte_level();
  SHOAL_ASSIGN_OR_RETURN(model.byte_fallback, FlagOf(json, "byte_fallback", false));
  SHOAL_ASSIGN_OR_RETURN(model.fuse_unknown, FlagOf(json, "fuse_unk", false));
  SHOAL_ASSIGN_OR_RETURN(model.whole_words, FlagOf(json, "ignore_merges", false));
  SHOAL_ASSIGN_OR_RETURN(model.unknown, UnknownOf(json, ids));
  if (model.byte_level) {
    SHOAL_ASSIGN_OR_RETURN(model.byte_ids, ByteLevelIds(ids));
  } else {
    model.byte_ids = FallbackIds(ids);
  }
  SHOAL_ASSIGN_OR_RETURN(const auto pairs, MergesOfJson(json));
  SHOAL_RETURN_IF_ERROR(AddMerges(pairs, ids, &model));
  file->model = std::move(model);
  return Status::Ok();
}

Status ParseWordPiece(const Json& json, const NameIds& ids, TokenizerFile* file) {
  WordPieceModel model;
  SHOAL_ASSIGN_OR_RETURN(const auto unknown, UnknownOf(json, ids));
  if (!unknown) return InvalidArgument("its WordPiece has no unk_token");
  model.unknown = *unknown;
  SHOAL_ASSIGN_OR_RETURN(model.prefix, TextOf(json, "continuing_subword_prefix", "##"));
  const Json& most = FieldOf(json, "max_input_chars_per_word");
  if (most.is_number_unsigned()) model.characters_max = most.get<std::size_t>();
  file->model = std::move(model);
  return Status::Ok();
}

// "vocab": [["<unk>", 0.0], ["a", -2.5], ...], by id.
Status ParseUnigram(const Json& json, NameIds* ids, TokenizerFile* file) {
  UnigramModel model;
  const Json& vocabulary = FieldOf(json, "vocab");
  if (!vocabulary.is_array()) return InvalidArgument("the vocabulary is not a list of name, score");
  for (const Json& token : vocabulary) {
    const bool fine = token.is_array() && token.size() == 2 && token[0].is_string() &&
                      token[1].is_number() && std::isfinite(token[1].get<double>());
    const auto id = static_cast<std::int32_t>(model.scores.size());
    if (!fine || !ids->emplace(token[0].get<std::string>(), id).second) {
      return InvalidArgument("token " + std::to_string(id) +
                             " of the vocabulary is no name with a score, or there twice");
    }
    model.scores.push_back(token[1].get<double>());
  }
  const Json& unknown = FieldOf(json, "unk_id");
  if (unknown.is_number_unsigned() && unknown.get<std::uint64_t>() < model.scores.size()) {
    model.unknown = unknown.get<std::int32_t>();
  } else if (!unknown.is_null()) {
    return InvalidArgument("its unk_id is not in the vocabulary");
  }
  SHOAL_ASSIGN_OR_RETURN(model.byte_fallback, FlagOf(json, "byte_fallback", false));
  model.byte_ids = FallbackIds(*ids);
  file->model = std::move(model);
  return Status::Ok();
}

std::string ModelType(const Json& model) {
  const std::string type = TypeOf(model);
  if (type != "?" || model.contains("type")) return type;
  if (model.contains("merges")) return "BPE";  // older files do not say
  return FieldOf(model, "vocab").is_array() ? "Unigram" : "WordPiece";
}

// The names of the model's own tokens.
Status ParseVocabulary(const Json& json, const std::string& type, NameIds* ids,
                       TokenizerFile* file) {
  if (type == "Unigram") return ParseUnigram(json, ids, file);
  if (type == "BPE" || type == "WordPiece") return AddVocabulary(FieldOf(json, "vocab"), ids);
  return InvalidArgument("its model type is " + Quoted(type) +
                         ": shoal has BPE, Unigram and WordPiece");
}

Result<bool> Flag(const Json& token, const char* name, bool otherwise) {
  auto flag = FlagOf(token, name, otherwise);
  return flag.ok() ? std::move(flag) : flag.status().WithContext("added_tokens");
}

Status AddAddedTokens(const Json& root, NameIds* ids, std::vector<AddedToken>* tokens) {
  const Json& added = FieldOf(root, "added_tokens");
  if (added.is_null()) return Status::Ok();
  if (!added.is_array()) return InvalidArgument("added_tokens is not a list");
  for (const Json& json : added) {
    const bool fine = json.is_object() && json.contains("content") && json["content"].is_string() &&
                      json.contains("id");
    if (!fine) return InvalidArgument("an entry of added_tokens lacks content or id");
    AddedToken token;
    token.content = json["content"].get<std::string>();
    const auto known = ids->find(token.content);
    if (known != ids->end() && json["id"] != known->second) {
      return InvalidArgument("token " + Quoted(token.content) + " has two ids");
    }
    SHOAL_RETURN_IF_ERROR(AddVocabulary(Json{{token.content, json["id"]}}, ids));
    if (token.content.empty()) continue;
    token.id = json["id"].get<std::int32_t>();
    SHOAL_ASSIGN_OR_RETURN(token.single_word, Flag(json, "single_word", false));
    SHOAL_ASSIGN_OR_RETURN(token.lstrip, Flag(json, "lstrip", false));
    SHOAL_ASSIGN_OR_RETURN(token.rstrip, Flag(json, "rstrip", false));
    SHOAL_ASSIGN_OR_RETURN(token.special, Flag(json, "special", false));
    SHOAL_ASSIGN_OR_RETURN(token.normalized, Flag(json, "normalized", !token.special));
    tokens->push_back(std::move(token));
    SHOAL_RETURN_IF_ERROR(CheckAddedToken(tokens->back()));
  }
  return Status::Ok();
}

// What the file sets that is about batches of texts, which shoal does not make.
std::vector<std::string> NotesOf(const Json& root) {
  std::vector<std::string> notes;
  for (const char* setting : {"truncation", "padding"}) {
    if (FieldOf(root, setting).is_null()) continue;
    notes.push_back(std::string("the tokenizer's \"") + setting +
                    "\" is not applied: rows are cut and filled as --row says");
  }
  return notes;
}

// All that gives ids, besides names and merges, where it is not GPT-2's.
std::string SettingsOf(const Json& root, const TokenizerFile& file) {
  const auto* bpe = std::get_if<BpeModel>(&file.model);
  const bool plain = bpe != nullptr && !bpe->whole_words && file.pre_tokenizer.plain_byte_level() &&
                     file.normalizer.empty();
  if (plain) return "";
  Json settings = {{"normalizer", FieldOf(root, "normalizer")},
                   {"pre_tokenizer", FieldOf(root, "pre_tokenizer")},
                   {"model", root["model"]}};
  settings["model"].erase("vocab");
  settings["model"].erase("merges");
  return settings.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Status AddParts(const Json& root, TokenizerFile* file) {
  const auto vocabulary = static_cast<std::uint32_t>(file->names.size());
  SHOAL_ASSIGN_OR_RETURN(file->wrapping,
                         ParsePostProcessor(FieldOf(root, "post_processor"), vocabulary));
  SHOAL_ASSIGN_OR_RETURN(DecodeRule rule, ParseDecoder(FieldOf(root, "decoder")));
  const bool byte_level = file->pre_tokenizer.byte_level();
  if (FieldOf(root, "decoder").is_null()) {
    rule.byte_level = byte_level;
    rule.apart = rule.drop_first_space = !byte_level;
  } else if (byte_level && !rule.byte_level) {
    return InvalidArgument("its decoder is " + Quoted(TypeOf(root["decoder"])) +
                           ", where words are bytes");
  }
  file->drop_first_space = rule.drop_first_space;
  file->space = rule.space;
  file->apart = rule.apart || !rule.prefix.empty();
  for (const std::string& name : file->names) file->bytes.push_back(BytesBy(rule, name));
  return Status::Ok();
}

Result<TokenizerFile> Parse(const Json& root) {
  const Json& model = FieldOf(root, "model");
  if (!model.is_object()) {
    return InvalidArgument("no model object: not a Hugging Face tokenizer file");
  }
  TokenizerFile file;
  SHOAL_ASSIGN_OR_RETURN(file.normalizer, Normalizer::Parse(FieldOf(root, "normalizer")));
  SHOAL_ASSIGN_OR_RETURN(file.pre_tokenizer, PreTokenizer::Parse(FieldOf(root, "pre_tokenizer")));
  NameIds ids;
  const std::string type = ModelType(model);
  SHOAL_RETURN_IF_ERROR(ParseVocabulary(model, type, &ids, &file));
  if (file.pre_tokenizer.byte_level() && type != "BPE") {
    return InvalidArgument("its pre_tokenizer is \"ByteLevel\", but its model is " + Quoted(type));
  }
  const NameIds model_ids = ids;
  std::vector<AddedToken> added;
  SHOAL_RETURN_IF_ERROR(AddAddedTokens(root, &ids, &added));
  SHOAL_ASSIGN_OR_RETURN(file.names, NamesById(ids));
  file.model_names.resize(file.names.size());
  for (const auto& [name, id] : model_ids) file.model_names[static_cast<std::size_t>(id)] = name;
  if (type == "BPE") SHOAL_RETURN_IF_ERROR(ParseBpe(model, model_ids, &file));
  if (type == "WordPiece") SHOAL_RETURN_IF_ERROR(ParseWordPiece(model, model_ids, &file));
  SHOAL_RETURN_IF_ERROR(AddParts(root, &file));
  for (AddedToken& token : added) Recognise(std::move(token), &file);
  if (const auto end = ids.find(kEndOfText); end != ids.end()) file.end_of_text = end->second;
  file.settings = SettingsOf(root, file);
  file.notes = NotesOf(root);
  return file;
}

}  // namespace

Result<TokenizerFile> ParseTokenizerJson(std::string_view text) {
  if (IsLfsPointer(text)) return InvalidArgument(kLfsPointer);
  const Json root = ParseJson<Json>(text);
  if (!root.is_object()) {
    return InvalidArgument("not a JSON object: the file is damaged; copy it again");
  }
  return Parse(root);
}

}  // namespace shoal::dataset
