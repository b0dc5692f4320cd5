#include "dataset/tokenizers/file_content.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "common/file.h"
#include "common/nesting.h"
#include "dataset/chat/chat_template.h"
#include "dataset/end_token.h"
#include "dataset/tokenizers/byte_names.h"
#include "dataset/tokenizers/json_fields.h"
#include "dataset/tokenizers/tokenizer_files.h"
#include "dataset/tokenizers/unicode.h"
#include "dataset/tokenizers/word_model.h"
#include "dataset/word_splitter.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kFileBytesMax = std::uint64_t{256} << 20;
constexpr const char* kModelFile = "tokenizer.model";
// Of tokens that texts never give.
constexpr float kAddedScore = -1000;

Status Refuse(const std::string& what) {
  return InvalidArgument("llama.cpp does not have this tokenizer: " + what);
}

// Rules that cut texts into words, by the pattern of the one Split before ByteLevel. llama.cpp's
// rule also says whether a word that is a token is left whole.
struct WordRule {
  const char* name;
  bool whole_words;
  const char* pattern;
};

constexpr const char* kLlama3Pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+"
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr WordRule kWordRules[] = {
    {"llama-bpe", true, kLlama3Pattern},
    {"dbrx", false, kLlama3Pattern},
    {"qwen2", false,
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+"
     "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"gpt-4o", false,
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
     "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+"
     "[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"tekken", true,
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
     "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
};

// Fields of what the tokenizer's own parser has taken: lacking or null ones give `otherwise`.
bool Flag(const Json& step, const char* name, bool otherwise) {
  const auto found = step.find(name);
  return found != step.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

std::string Text(const Json& step, const char* name) {
  const auto found = step.find(name);
  return found != step.end() && found->is_string() ? found->get<std::string>() : "";
}

// {"pattern": {"String": "..."}}, or "Regex".
std::string PatternOf(const Json& step, const char* kind) {
  const auto found = step.find("pattern");
  return found != step.end() && found->is_object() ? Text(*found, kind) : "";
}

// A step, or the list of steps that a Sequence has under `name`.
std::vector<Json> StepsOf(const Json& json, const char* name) {
  if (json.is_null()) return {};
  const auto list = json.find(name);
  if (TypeOf(json) != "Sequence" || list == json.end()) return {json};
  return {list->begin(), list->end()};
}

// The last step is ByteLevel.
Result<std::string> WordsOf(const std::vector<Json>& steps, bool whole_words) {
  if (Flag(steps.back(), "add_prefix_space", true)) {
    return Refuse("it puts a space in front of texts (add_prefix_space)");
  }
  const bool cuts = Flag(steps.back(), "use_regex", true);
  const std::string first = TypeOf(steps.front());
  if (steps.size() == 1 && cuts && !whole_words) return std::string("gpt-2");
  if (steps.size() == 2 && first == "Digits" && cuts && !whole_words &&
      Flag(steps[0], "individual_digits", false)) {
    return std::string("smollm");
  }
  std::string pattern = first;
  if (steps.size() == 2 && first == "Split" && !cuts) {
    const Json& split = steps.front();
    pattern = PatternOf(split, "Regex");
    const std::string behavior = Text(split, "behavior");
    const bool isolated = behavior.empty() || behavior == "Isolated";
    for (const WordRule& rule : kWordRules) {
      if (pattern == rule.pattern && whole_words == rule.whole_words && isolated &&
          !Flag(split, "invert", false)) {
        return std::string(rule.name);
      }
    }
  }
  return Refuse("its pre_tokenizer is " + Quoted(pattern) + (steps.size() > 2 ? " and more" : "") +
                (whole_words ? " with ignore_merges" : ""));
}

Status AddBytePairs(const TokenizerFile& file, const Json& settings, TokenizerContent* content) {
  const auto& bpe = std::get<BpeModel>(file.model);
  content->model = "gpt2";
  if (settings.is_null()) {
    // GPT-2's own rule, which has no settings, may still put a space in front.
    if (file.pre_tokenizer.prefix_space()) {
      return Refuse("it puts a space in front of texts (add_prefix_space)");
    }
    content->words = "gpt-2";
  } else {
    const std::string normalizer = TypeOf(settings["normalizer"]);
    if (!settings["normalizer"].is_null() && normalizer != "NFC") {
      return Refuse("its normalizer is " + Quoted(normalizer));
    }
    SHOAL_ASSIGN_OR_RETURN(
        content->words,
        WordsOf(StepsOf(settings["pre_tokenizer"], "pretokenizers"), bpe.whole_words));
  }
  for (const BpeMerge& merge : bpe.merges) {
    content->merges.push_back(file.names[static_cast<std::size_t>(merge.left)] + " " +
                              file.names[static_cast<std::size_t>(merge.right)]);
  }
  return Status::Ok();
}

bool IsReplace(const Json& step, const char* from, const char* to) {
  return TypeOf(step) == "Replace" && Text(step, "content") == to &&
         PatternOf(step, "String") == from;
}

// Whether a space is put in front, where the file cuts and normalises as SentencePiece's own
// byte pairs do.
Result<bool> PrefixSpaceOf(const Json& settings) {
  const std::vector<Json> words = StepsOf(settings["pre_tokenizer"], "pretokenizers");
  const std::vector<Json> steps = StepsOf(settings["normalizer"], "normalizers");
  const bool prepends =
      !steps.empty() && TypeOf(steps[0]) == "Prepend" && Text(steps[0], "prepend") == kMetaspace;
  const std::size_t rest = steps.size() - (prepends ? 1 : 0);
  const bool escapes = rest == 1 && IsReplace(steps.back(), " ", kMetaspace);
  if (words.empty() && escapes) return prepends;
  if (words.size() == 1 && escapes && !prepends && TypeOf(words[0]) == "Split" &&
      PatternOf(words[0], "String") == " ") {
    return false;  // Gemma's: no space is left to cut at
  }
  if (words.size() == 1 && steps.empty() && TypeOf(words[0]) == "Metaspace" &&
      !Flag(words[0], "split", true) && Text(words[0], "replacement") == kMetaspace) {
    const std::string scheme = Text(words[0], "prepend_scheme");
    return scheme.empty() ? Flag(words[0], "add_prefix_space", true) : scheme != "never";
  }
  return Refuse("its normalizer and pre_tokenizer are not those of SentencePiece's byte pairs");
}

// SentencePiece merges any two neighbours that make a token, the highest score first. So a list of
// merges is one of scores if it has all ways to make a token, side by side.
Status ScoreByMerges(const TokenizerFile& file, TokenizerContent* content) {
  const auto& bpe = std::get<BpeModel>(file.model);
  const Status other = Refuse(
      "its merges are not those of a SentencePiece model; put the model's "
      "tokenizer.model beside tokenizer.json");
  const auto key = [](std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  };
  std::unordered_set<std::uint64_t> pairs;
  std::vector<bool> made(file.names.size());
  float score = 0;
  std::int32_t last = -1;
  for (const BpeMerge& merge : bpe.merges) {
    pairs.insert(key(merge.left, merge.right));
    if (merge.merged == last) continue;
    last = merge.merged;
    const auto id = static_cast<std::size_t>(last);
    if (made[id]) return other;
    made[id] = true;
    content->scores[id] = --score;
  }
  NameIds ids;
  for (std::size_t id = 0; id < file.model_names.size(); ++id) {
    if (!file.model_names[id].empty()) {
      ids.emplace(file.model_names[id], static_cast<std::int32_t>(id));
    }
  }
  for (const auto& [name, id] : ids) {
    if (content->kinds[static_cast<std::size_t>(id)] != TokenKind::kNormal) continue;
    const std::string_view whole = name;
    for (std::size_t cut = std::max<std::size_t>(Utf8Length(whole), 1); cut < whole.size();
         cut += std::max<std::size_t>(Utf8Length(whole.substr(cut)), 1)) {
      const auto left = ids.find(whole.substr(0, cut)), right = ids.find(whole.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      if (!pairs.contains(key(left->second, right->second))) return other;
    }
  }
  return Status::Ok();
}

// Scores and kinds from tokenizer.model, for the tokens that both files have.
void ScoreByPieces(const SentencePieceModel& model, TokenizerContent* content) {
  for (std::size_t id = 0; id < std::min(model.pieces.size(), content->tokens.size()); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (piece.name != content->tokens[id]) continue;
    content->scores[id] = piece.score;
    content->kinds[id] = static_cast<TokenKind>(piece.type);
  }
}

Status AddSentencePiece(const TokenizerFile& file, const Json& settings,
                        const std::optional<SentencePieceModel>& pieces,
                        TokenizerContent* content) {
  const auto& bpe = std::get<BpeModel>(file.model);
  content->model = "llama";
  content->words = "default";
  if (!bpe.byte_fallback || bpe.whole_words || !bpe.unknown) {
    return Refuse("its byte pairs are of characters, without byte_fallback or unk_token");
  }
  content->unknown = bpe.unknown;
  content->scores.assign(file.names.size(), kAddedScore);
  for (std::size_t id = 0; id < file.names.size(); ++id) {
    if (FallbackByte(file.names[id])) content->kinds[id] = TokenKind::kByte;
  }
  if (settings.is_null()) {
    content->prefix_space = pieces && pieces->prefix_space;
  } else {
    SHOAL_ASSIGN_OR_RETURN(content->prefix_space, PrefixSpaceOf(settings));
  }
  if (!pieces) return ScoreByMerges(file, content);
  ScoreByPieces(*pieces, content);
  return Status::Ok();
}

Status AddSpecial(const std::string& directory, const TokenizerFile& file,
                  TokenizerContent* content) {
  const Wrapping& around = file.wrapping;
  if (around.before.size() > 1 || around.behind.size() > 1) {
    return Refuse("it puts several tokens before or behind a text");
  }
  for (const auto& [role, id] : {std::pair("bos", &content->begin), std::pair("eos", &content->end),
                                 std::pair("pad", &content->padding)}) {
    SHOAL_ASSIGN_OR_RETURN(*id, LoadTokenOf(role, directory, file.names));
  }
  if (!content->end) content->end = file.end_of_text;
  if (!content->begin) content->begin = file.begin_of_text;
  content->add_begin = !around.before.empty();
  content->add_end = !around.behind.empty();
  if (content->add_begin) content->begin = around.before[0];
  if (content->add_end && content->end != around.behind[0]) {
    return Refuse("it puts another token than eos_token behind a text");
  }
  return Status::Ok();
}

Status CheckPieces(const SentencePieceModel& model) {
  if (model.kind != SentencePieceModel::Kind::kBpe) {
    return Refuse("its tokenizer.model is SentencePiece's unigram");
  }
  if (!model.charsmap.empty() || model.remove_extra_spaces || !model.escape_spaces) {
    return Refuse("its tokenizer.model normalises texts");
  }
  return Status::Ok();
}

Result<std::optional<SentencePieceModel>> ReadPieces(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / kModelFile).string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::optional<SentencePieceModel>();
  SHOAL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kFileBytesMax));
  Result<SentencePieceModel> model = ParseSentencePieceModel(bytes);
  if (!model.ok()) return model.status().WithContext(path);
  return std::optional(std::move(*model));
}

}  // namespace

Result<TokenizerContent> ContentOf(const TokenizerFile& file,
                                   const std::optional<SentencePieceModel>& pieces) {
  const auto* bpe = std::get_if<BpeModel>(&file.model);
  if (bpe == nullptr) return Refuse("it is Unigram or WordPiece");
  TokenizerContent content;
  content.tokens = file.names;
  content.kinds.assign(file.names.size(), TokenKind::kNormal);
  for (const AddedToken& token : file.added) {
    content.kinds[static_cast<std::size_t>(token.id)] =
        token.special ? TokenKind::kControl : TokenKind::kUserDefined;
  }
  const std::vector<TokenKind> added = content.kinds;
  // Null for GPT-2's own rule, and for tokenizer.model, whose settings are a hash.
  const auto parsed = ParseJson<Json>(file.settings);
  const Json settings = parsed.is_object() ? parsed : Json();
  if (bpe->byte_level) {
    SHOAL_RETURN_IF_ERROR(AddBytePairs(file, settings, &content));
    return content;
  }
  if (pieces) SHOAL_RETURN_IF_ERROR(CheckPieces(*pieces));
  SHOAL_RETURN_IF_ERROR(AddSentencePiece(file, settings, pieces, &content));
  for (std::size_t id = 0; id < added.size(); ++id) {
    if (added[id] != TokenKind::kNormal) content.kinds[id] = added[id];
  }
  content.kinds[static_cast<std::size_t>(*content.unknown)] = TokenKind::kUnknown;
  return content;
}

Result<TokenizerContent> LoadTokenizerContent(const std::string& directory) {
  SHOAL_ASSIGN_OR_RETURN(const TokenizerFile file, LoadTokenizerFile(directory));
  SHOAL_ASSIGN_OR_RETURN(const auto pieces, ReadPieces(directory));
  Result<TokenizerContent> content = ContentOf(file, pieces);
  if (!content.ok()) return content.status().WithContext(directory);
  if (const Status special = AddSpecial(directory, file, &*content); !special.ok()) {
    return special.WithContext(directory);
  }
  SHOAL_ASSIGN_OR_RETURN(const auto chat, LoadChatTemplateText(directory));
  content->chat_template = chat.value_or("");
  return content;
}

}  // namespace shoal::dataset
