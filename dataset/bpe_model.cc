#include "dataset/bpe_model.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "common/bytes.h"
#include "common/file.h"
#include "common/nesting.h"
#include "dataset/sha256.h"
#include "dataset/tokenizer_config.h"
#include "dataset/word_splitter.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;
using NameToId = std::unordered_map<std::string, std::int32_t>;
using NamePair = std::pair<std::string, std::string>;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{256} << 20;
constexpr std::size_t kAddedTokenBytesMax = 1024;
constexpr char kEndOfText[] = "<|endoftext|>";

// GPT-2 writes each byte as one printable character: printable Latin-1 as itself, the 68 others
// as U+0100, U+0101, ... in order.
std::array<std::uint32_t, 256> PrintableAlphabet() {
  std::array<std::uint32_t, 256> alphabet{};
  std::uint32_t next = 0x100;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    alphabet[byte] = printable ? byte : next++;
  }
  return alphabet;
}

// UTF-8 of a character below U+0800.
std::string NameOfCharacter(std::uint32_t character) {
  if (character < 0x80) return std::string(1, static_cast<char>(character));
  return {static_cast<char>(0xc0 | character >> 6), static_cast<char>(0x80 | (character & 0x3f))};
}

// The bytes of a token name; a name with a character outside the alphabet (an added token) stands
// for itself.
std::string BytesOfName(const std::string& name) {
  static const auto* const kByteOf = [] {
    auto* table = new std::unordered_map<std::uint32_t, char>;
    const auto alphabet = PrintableAlphabet();
    for (std::size_t i = 0; i < alphabet.size(); ++i) {
      (*table)[alphabet[i]] = static_cast<char>(i);
    }
    return table;
  }();
  std::string bytes;
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t length = Utf8Length(std::string_view(name).substr(i));
    if (length == 0 || length > 2) return name;
    std::uint32_t character = static_cast<std::uint8_t>(name[i]);
    if (length == 2) {
      character = (character & 0x1f) << 6 | (static_cast<std::uint8_t>(name[i + 1]) & 0x3f);
    }
    const auto found = kByteOf->find(character);
    if (found == kByteOf->end()) return name;
    bytes.push_back(found->second);
    i += length;
  }
  return bytes;
}

std::string Quoted(std::string_view text) {
  // Names come from a foreign file: keep the message one short line.
  return Json(std::string(text.substr(0, 60))).dump(-1, ' ', true, Json::error_handler_t::replace);
}

Status AddVocabulary(const Json& vocab, NameToId* ids) {
  if (!vocab.is_object()) return InvalidArgument("the vocabulary is not an object of name to id");
  for (const auto& [name, id] : vocab.items()) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      return InvalidArgument("the id of token " + Quoted(name) + " is not a whole number from 0");
    }
    (*ids)[name] = id.get<std::int32_t>();
  }
  return Status::Ok();
}

Status FillTokens(const NameToId& ids, BpeModel* model) {
  if (ids.empty()) return InvalidArgument("the vocabulary is empty");
  model->names.resize(ids.size());
  std::vector<bool> seen(ids.size(), false);
  for (const auto& [name, id] : ids) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= ids.size() || seen[index]) {
      return InvalidArgument("the " + std::to_string(ids.size()) +
                             " token ids are not 0, 1, 2, ... each once: look at id " +
                             std::to_string(id) + " of token " + Quoted(name));
    }
    seen[index] = true;
    model->names[index] = name;
  }
  for (const std::string& name : model->names) model->bytes.push_back(BytesOfName(name));
  const auto alphabet = PrintableAlphabet();
  for (std::size_t byte = 0; byte < alphabet.size(); ++byte) {
    const auto found = ids.find(NameOfCharacter(alphabet[byte]));
    if (found == ids.end()) {
      return InvalidArgument("the vocabulary has no token for byte " + std::to_string(byte) +
                             ": shoal reads byte-level BPE with all 256 bytes, like GPT-2's");
    }
    model->byte_ids[byte] = found->second;
  }
  if (const auto found = ids.find(kEndOfText); found != ids.end()) {
    model->end_of_text = found->second;
  }
  return Status::Ok();
}

Status AddMerges(const std::vector<NamePair>& pairs, const NameToId& ids, BpeModel* model) {
  std::unordered_set<std::uint64_t> seen;
  model->merges.reserve(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& [left, right] = pairs[i];
    const std::string where =
        "merge " + std::to_string(i + 1) + " (" + Quoted(left) + " " + Quoted(right) + ")";
    const auto left_id = ids.find(left);
    const auto right_id = ids.find(right);
    const auto merged_id = ids.find(left + right);
    if (left_id == ids.end() || right_id == ids.end() || merged_id == ids.end()) {
      return InvalidArgument(where +
                             " names or makes a token that the vocabulary lacks: vocabulary "
                             "and merges are not of the same tokenizer");
    }
    const std::uint64_t key = static_cast<std::uint64_t>(left_id->second) << 32 |
                              static_cast<std::uint32_t>(right_id->second);
    if (!seen.insert(key).second) return InvalidArgument(where + " is listed twice");
    model->merges.push_back({left_id->second, right_id->second, merged_id->second});
  }
  return Status::Ok();
}

// True if `field` is absent, null, or one of `allowed`.
bool AbsentOr(const Json& object, const char* field, std::initializer_list<Json> allowed) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return true;
  for (const Json& value : allowed) {
    if (*found == value) return true;
  }
  return false;
}

Status CheckModelSettings(const Json& model) {
  const struct {
    const char* field;
    bool fine;
  } settings[] = {
      {"dropout", AbsentOr(model, "dropout", {0})},
      {"continuing_subword_prefix", AbsentOr(model, "continuing_subword_prefix", {""})},
      {"end_of_word_suffix", AbsentOr(model, "end_of_word_suffix", {""})},
      {"byte_fallback", AbsentOr(model, "byte_fallback", {false})},
      {"ignore_merges", AbsentOr(model, "ignore_merges", {false})},
  };
  for (const auto& [field, fine] : settings) {
    if (!fine) {
      return InvalidArgument(
          std::string("model.") + field + " is set (" +
          Quoted(model[field].dump(-1, ' ', true, Json::error_handler_t::replace)) +
          "): shoal reads plain GPT-2 byte-level BPE only");
    }
  }
  return Status::Ok();
}

// The type of a component, "" if absent or null.
std::string TypeOf(const Json& root, const char* component) {
  const auto found = root.find(component);
  if (found == root.end() || found->is_null()) return "";
  if (!found->is_object()) return "?";
  const auto type = found->find("type");
  return type != found->end() && type->is_string() ? type->get<std::string>() : "?";
}

Status CheckComponents(const Json& root) {
  if (const std::string type = TypeOf(root, "normalizer"); !type.empty()) {
    return InvalidArgument("its normalizer (" + Quoted(type) + ") would change the text");
  }
  if (const std::string type = TypeOf(root, "pre_tokenizer"); type != "ByteLevel") {
    return InvalidArgument("its pre_tokenizer is " + (type.empty() ? "missing" : Quoted(type)) +
                           ", not \"ByteLevel\" as GPT-2's");
  }
  const Json& pre = root["pre_tokenizer"];
  if (!AbsentOr(pre, "use_regex", {true})) {
    return InvalidArgument("its pre_tokenizer has use_regex other than true");
  }
  for (const char* component : {"post_processor", "decoder"}) {
    const std::string type = TypeOf(root, component);
    if (!type.empty() && type != "ByteLevel") {
      return InvalidArgument(std::string("its ") + component + " is " + Quoted(type) +
                             ", not \"ByteLevel\"");
    }
  }
  return Status::Ok();
}

bool Flag(const Json& token, const char* name, bool otherwise) {
  const auto found = token.find(name);
  return found != token.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

Status CheckAdded(const AddedToken& token) {
  if (token.content.size() <= kAddedTokenBytesMax) return Status::Ok();
  return InvalidArgument("the added token " + Quoted(token.content) + " has " +
                         std::to_string(token.content.size()) + " bytes; " +
                         std::to_string(kAddedTokenBytesMax) + " are the most");
}

Status AddAddedTokens(const Json& root, NameToId* ids, std::vector<AddedToken>* tokens) {
  const auto added = root.find("added_tokens");
  if (added == root.end() || added->is_null()) return Status::Ok();
  if (!added->is_array()) return InvalidArgument("added_tokens is not a list");
  for (const Json& token : *added) {
    const bool fine = token.is_object() && token.contains("content") &&
                      token["content"].is_string() && token.contains("id");
    if (!fine) return InvalidArgument("an entry of added_tokens lacks content or id");
    const auto name = token["content"].get<std::string>();
    const auto known = ids->find(name);
    if (known != ids->end() && token["id"] != known->second) {
      return InvalidArgument("token " + Quoted(name) + " has two ids");
    }
    SHOAL_RETURN_IF_ERROR(AddVocabulary(Json{{name, token["id"]}}, ids));
    if (name.empty()) continue;
    tokens->push_back({name, token["id"].get<std::int32_t>(), Flag(token, "single_word", false),
                       Flag(token, "lstrip", false), Flag(token, "rstrip", false),
                       Flag(token, "normalized", !Flag(token, "special", false))});
    SHOAL_RETURN_IF_ERROR(CheckAdded(tokens->back()));
  }
  return Status::Ok();
}

// What the file sets that is about batches of texts, which shoal does not make.
std::vector<std::string> NotesOf(const Json& root) {
  std::vector<std::string> notes;
  for (const char* setting : {"truncation", "padding"}) {
    const auto found = root.find(setting);
    if (found == root.end() || found->is_null()) continue;
    notes.push_back(std::string("the tokenizer's \"") + setting +
                    "\" is not applied: rows are cut and filled as --row says");
  }
  return notes;
}

// A merge line or string: two names with one space between.
bool SplitMerge(std::string_view line, NamePair* pair) {
  const std::size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos || space + 1 == line.size()) return false;
  if (line.find(' ', space + 1) != std::string_view::npos) return false;
  *pair = {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
  return true;
}

Result<std::vector<NamePair>> MergesOfJson(const Json& model) {
  const auto merges = model.find("merges");
  if (merges == model.end() || !merges->is_array()) {
    return InvalidArgument("model.merges is not a list");
  }
  std::vector<NamePair> pairs;
  pairs.reserve(merges->size());
  for (const Json& merge : *merges) {
    NamePair pair;
    bool fine = false;
    if (merge.is_string()) {
      fine = SplitMerge(merge.get_ref<const std::string&>(), &pair);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      pair = {merge[0].get<std::string>(), merge[1].get<std::string>()};
      fine = true;
    }
    if (!fine) {
      return InvalidArgument("merge " + std::to_string(pairs.size() + 1) +
                             " is neither \"left right\" nor [\"left\", \"right\"]");
    }
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Result<std::vector<NamePair>> MergesOfText(std::string_view text) {
  std::vector<NamePair> pairs;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    NamePair pair;
    if (!SplitMerge(line, &pair)) {
      return InvalidArgument("line " + std::to_string(number) +
                             " of the merges is not \"left right\"");
    }
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Result<BpeModel> Assemble(const NameToId& ids, const std::vector<NamePair>& pairs) {
  BpeModel model;
  SHOAL_RETURN_IF_ERROR(FillTokens(ids, &model));
  SHOAL_RETURN_IF_ERROR(AddMerges(pairs, ids, &model));
  return model;
}

// Has the tokenizer find `token` in texts. It stands for its own UTF-8, also where all its letters
// are of the printable alphabet. But a name that is a byte's keeps that byte, which BPE needs.
void Recognise(AddedToken token, BpeModel* model) {
  const auto& bytes = model->byte_ids;
  if (std::find(bytes.begin(), bytes.end(), token.id) == bytes.end()) {
    model->bytes[static_cast<std::size_t>(token.id)] = token.content;
  }
  const auto same = std::find_if(model->added.begin(), model->added.end(),
                                 [&](const auto& known) { return known.content == token.content; });
  if (same != model->added.end()) {
    *same = std::move(token);
  } else {
    model->added.push_back(std::move(token));
  }
}

// Adds tokens that files beside the tokenizer name.
Status RecogniseNamed(std::vector<NamedToken> tokens, BpeModel* model) {
  NameToId ids;
  for (std::size_t id = 0; id < model->names.size(); ++id) {
    ids.emplace(model->names[id], static_cast<std::int32_t>(id));
  }
  std::stable_sort(tokens.begin(), tokens.end(), [](const NamedToken& a, const NamedToken& b) {
    return a.has_id && (!b.has_id || a.token.id < b.token.id);
  });
  for (auto& [token, has_id] : tokens) {
    SHOAL_RETURN_IF_ERROR(CheckAdded(token));
    const auto known = ids.find(token.content);
    if (known == ids.end()) {
      if (!has_id) {
        model->notes.push_back(
            "the special token " + Quoted(token.content) +
            " is not in the vocabulary: in texts it is read as ordinary letters");
        continue;
      }
      if (static_cast<std::size_t>(token.id) != model->names.size()) {
        return InvalidArgument("token " + Quoted(token.content) + " has the id " +
                               std::to_string(token.id) + ", where the vocabulary ends at " +
                               std::to_string(model->names.size()));
      }
      ids.emplace(token.content, token.id);
      model->names.push_back(token.content);
      model->bytes.push_back(token.content);
    } else if (has_id && known->second != token.id) {
      return InvalidArgument("token " + Quoted(token.content) + " has two ids");
    }
    token.id = ids.at(token.content);
    Recognise(std::move(token), model);
  }
  return Status::Ok();
}

// What the files beside the tokenizer say, as transformers reads them.
Status ApplyFilesBeside(const std::filesystem::path& folder, BpeModel* model) {
  const auto read = [&](const char* name) -> Result<std::string> {
    std::error_code ignored;
    if (!std::filesystem::exists(folder / name, ignored)) return std::string();
    return ReadFile((folder / name).string(), kMaxFileBytes);
  };
  const auto named = [&](const char* name, const Status& status) {
    return status.WithContext((folder / name).string());
  };
  constexpr const char* kAdded = "added_tokens.json";
  constexpr const char* kConfig = "tokenizer_config.json";
  SHOAL_ASSIGN_OR_RETURN(const std::string added, read(kAdded));
  if (!added.empty()) {
    auto tokens = ParseAddedTokens(added);
    if (!tokens.ok()) return named(kAdded, tokens.status());
    if (const Status status = RecogniseNamed(std::move(*tokens), model); !status.ok()) {
      return named(kAdded, status);
    }
  }
  SHOAL_ASSIGN_OR_RETURN(const std::string text, read(kConfig));
  if (text.empty()) return Status::Ok();
  auto config = ParseTokenizerConfig(text);
  if (!config.ok()) return named(kConfig, config.status());
  if (config->add_prefix_space) model->add_prefix_space = *config->add_prefix_space;
  const Status status = RecogniseNamed(std::move(config->tokens), model);
  return status.ok() ? status : named(kConfig, status);
}

}  // namespace

Result<BpeModel> ParseTokenizerJson(std::string_view text) {
  const Json root = ParseJson<Json>(text);
  if (!root.is_object()) return InvalidArgument("not a JSON object: the file is damaged");
  const auto model = root.find("model");
  if (model == root.end() || !model->is_object()) {
    return InvalidArgument("no model object: not a Hugging Face tokenizer file");
  }
  if (const std::string type = TypeOf(root, "model"); type != "BPE") {
    return InvalidArgument("its model type is " + Quoted(type) +
                           ": shoal reads GPT-2's byte-level \"BPE\" only");
  }
  SHOAL_RETURN_IF_ERROR(CheckComponents(root));
  SHOAL_RETURN_IF_ERROR(CheckModelSettings(*model));
  NameToId ids;
  const auto vocab = model->find("vocab");
  SHOAL_RETURN_IF_ERROR(AddVocabulary(vocab == model->end() ? Json() : *vocab, &ids));
  std::vector<AddedToken> added;
  SHOAL_RETURN_IF_ERROR(AddAddedTokens(root, &ids, &added));
  SHOAL_ASSIGN_OR_RETURN(const auto pairs, MergesOfJson(*model));
  SHOAL_ASSIGN_OR_RETURN(BpeModel assembled, Assemble(ids, pairs));
  for (AddedToken& token : added) Recognise(std::move(token), &assembled);
  // The field's default in that format is true.
  assembled.add_prefix_space = Flag(root["pre_tokenizer"], "add_prefix_space", true);
  assembled.notes = NotesOf(root);
  return assembled;
}

Result<BpeModel> ParseVocabAndMerges(std::string_view vocab_json, std::string_view merges) {
  NameToId ids;
  SHOAL_RETURN_IF_ERROR(AddVocabulary(ParseJson<Json>(vocab_json), &ids));
  SHOAL_ASSIGN_OR_RETURN(const auto pairs, MergesOfText(merges));
  return Assemble(ids, pairs);
}

namespace {

Result<BpeModel> LoadTokenizerFiles(const std::string& directory) {
  const std::filesystem::path folder(directory);
  std::error_code ignored;
  if (const auto path = folder / "tokenizer.json"; std::filesystem::exists(path, ignored)) {
    SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path.string(), kMaxFileBytes));
    Result<BpeModel> model = ParseTokenizerJson(text);
    if (!model.ok()) return model.status().WithContext(path.string());
    return model;
  }
  for (const auto& [vocab_name, merges_name] :
       {std::pair("vocab.json", "merges.txt"), std::pair("encoder.json", "vocab.bpe")}) {
    const auto vocab_path = folder / vocab_name;
    if (!std::filesystem::exists(vocab_path, ignored)) continue;
    SHOAL_ASSIGN_OR_RETURN(const std::string vocab, ReadFile(vocab_path.string(), kMaxFileBytes));
    const std::string merges_path = (folder / merges_name).string();
    Result<std::string> merges = ReadFile(merges_path, kMaxFileBytes);
    if (!merges.ok()) {
      return merges.status().WithContext(std::string(vocab_name) + " needs its " + merges_name);
    }
    Result<BpeModel> model = ParseVocabAndMerges(vocab, *merges);
    if (!model.ok()) return model.status().WithContext(vocab_path.string() + ", " + merges_name);
    return model;
  }
  return NotFound("no tokenizer in '" + directory +
                  "': it needs tokenizer.json, or vocab.json and merges.txt; copy them from the "
                  "model's directory");
}

}  // namespace

Result<BpeModel> LoadBpeModel(const std::string& directory) {
  SHOAL_ASSIGN_OR_RETURN(BpeModel model, LoadTokenizerFiles(directory));
  SHOAL_RETURN_IF_ERROR(ApplyFilesBeside(directory, &model));
  const auto has = [&](const AddedToken& token) { return token.content == kEndOfText; };
  if (model.end_of_text && std::none_of(model.added.begin(), model.added.end(), has)) {
    AddedToken end;
    end.content = kEndOfText;
    end.id = *model.end_of_text;
    Recognise(std::move(end), &model);
  }
  return model;
}

std::string FingerprintOf(const BpeModel& model) {
  Sha256 hash;
  const auto add_number = [&hash](std::size_t number) {
    std::byte bytes[8];
    StoreLittle<std::uint64_t>(bytes, number);
    hash.Update({reinterpret_cast<const char*>(bytes), sizeof(bytes)});
  };
  hash.Update("shoal bpe 1\n");
  add_number(model.names.size());
  for (const std::string& name : model.names) {
    add_number(name.size());
    hash.Update(name);
  }
  add_number(model.merges.size());
  for (const BpeMerge& merge : model.merges) {
    add_number(static_cast<std::size_t>(merge.left));
    add_number(static_cast<std::size_t>(merge.right));
  }
  return DigestToHex(hash.Finish());
}

}  // namespace shoal::dataset
