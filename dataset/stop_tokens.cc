#include "dataset/stop_tokens.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/file.h"
#include "common/nesting.h"
#include "dataset/chat/characters.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;
using Ids = std::set<std::int32_t>;

constexpr std::uint64_t kFileBytesMax = std::uint64_t{16} << 20;
constexpr char kGenerationConfig[] = "generation_config.json";
constexpr char kModelConfig[] = "config.json";
constexpr char kTokenizerConfig[] = "tokenizer_config.json";
constexpr char kSpecialTokensMap[] = "special_tokens_map.json";

Status AddId(const Json& id, const Tokenizer& tokenizer, Ids* ids) {
  if (!id.is_number_integer()) {
    return InvalidArgument("eos_token_id is neither a whole number nor a list of them");
  }
  // -1 stands for none in some files.
  if (id.is_number_unsigned() && id.get<std::uint64_t>() < tokenizer.vocabulary()) {
    ids->insert(static_cast<std::int32_t>(id.get<std::uint64_t>()));
  }
  return Status::Ok();
}

Status AddIds(const Json& root, const Tokenizer& tokenizer, Ids* ids) {
  const auto field = root.find("eos_token_id");
  if (field == root.end() || field->is_null()) return Status::Ok();
  if (!field->is_array()) return AddId(*field, tokenizer, ids);
  for (const Json& id : *field) SHOAL_RETURN_IF_ERROR(AddId(id, tokenizer, ids));
  return Status::Ok();
}

Status AddName(const Json& root, const Tokenizer& tokenizer, Ids* ids) {
  const auto field = root.find("eos_token");
  if (field == root.end()) return Status::Ok();
  const Json* name = &*field;
  if (name->is_object() && name->contains("content")) name = &(*name)["content"];
  if (!name->is_string()) return Status::Ok();
  if (const auto id = IdOfToken(tokenizer, name->get_ref<const std::string&>())) ids->insert(*id);
  return Status::Ok();
}

bool IsSpecial(std::string_view name) {
  constexpr std::size_t kBytesMin = 3;
  if (name.size() < kBytesMin) return false;
  return (name.front() == '<' && name.back() == '>') || (name.front() == '[' && name.back() == ']');
}

}  // namespace

std::optional<std::int32_t> FindEndOfTurn(const ChatTemplate& chat_template,
                                          const ChatOptions& options, const Tokenizer& tokenizer) {
  constexpr std::string_view kAnswer = "Yes.";
  const std::vector<ChatValue> turns = {ChatValue::Message("user", "Is it?"),
                                        ChatValue::Message("assistant", kAnswer)};
  const Result<RenderedChat> chat = RenderTurns(chat_template, turns, options);
  if (!chat.ok()) return std::nullopt;  // it takes no such conversation
  const ByteRange range = chat->answers.front();
  std::string_view turn = std::string_view(chat->text).substr(range.begin, range.end - range.begin);
  const std::size_t answer = turn.find(kAnswer);
  if (answer == std::string_view::npos) return std::nullopt;
  turn.remove_prefix(answer + kAnswer.size());
  turn = StripSpaces(turn, Side::kBoth);
  for (std::size_t end = turn.find_first_of(">]"); end != std::string_view::npos;
       end = turn.find_first_of(">]", end + 1)) {
    const std::string_view name = turn.substr(0, end + 1);
    if (!IsSpecial(name)) continue;
    if (const auto id = IdOfToken(tokenizer, name)) return id;
  }
  return std::nullopt;
}

std::optional<std::int32_t> IdOfToken(const Tokenizer& tokenizer, std::string_view name) {
  std::vector<std::int32_t> ids;
  try {
    tokenizer.Encode(name, &ids);
  } catch (const std::exception&) {
    return std::nullopt;  // a pattern that takes too long with it: it is no token
  }
  if (ids.size() != 1) return std::nullopt;
  const Result<std::string> text = tokenizer.Decode(ids);
  if (!text.ok() || *text != name) return std::nullopt;
  return ids.front();
}

Result<std::vector<std::int32_t>> FindStopTokens(const StopTokenFiles& files,
                                                 const Tokenizer& tokenizer) {
  const struct {
    const char* file;
    const std::string& text;
    Status (*add)(const Json&, const Tokenizer&, Ids*);
  } sources[] = {{kGenerationConfig, files.generation_config, AddIds},
                 {kModelConfig, files.model_config, AddIds},
                 {kTokenizerConfig, files.tokenizer_config, AddName},
                 {kSpecialTokensMap, files.special_tokens_map, AddName}};
  Ids ids;
  if (tokenizer.end_of_text()) ids.insert(*tokenizer.end_of_text());
  for (const auto& [file, text, add] : sources) {
    if (text.empty()) continue;
    const auto root = ParseJson<Json>(text);
    const Status status =
        root.is_object() ? add(root, tokenizer, &ids) : InvalidArgument("not a JSON object");
    if (!status.ok()) {
      return InvalidArgument(std::string(file) + ": " + status.message() +
                             "; copy it again from the model's directory");
    }
  }
  return std::vector<std::int32_t>(ids.begin(), ids.end());
}

Result<std::vector<std::int32_t>> LoadStopTokens(const std::string& directory,
                                                 const Tokenizer& tokenizer) {
  const std::filesystem::path folder(directory);
  StopTokenFiles files;
  for (const auto& [file, text] : {std::pair(kGenerationConfig, &files.generation_config),
                                   std::pair(kModelConfig, &files.model_config),
                                   std::pair(kTokenizerConfig, &files.tokenizer_config),
                                   std::pair(kSpecialTokensMap, &files.special_tokens_map)}) {
    const std::string path = (folder / file).string();
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    SHOAL_ASSIGN_OR_RETURN(*text, ReadFile(path, kFileBytesMax));
  }
  auto ids = FindStopTokens(files, tokenizer);
  if (!ids.ok()) return ids.status().WithContext(directory);
  return ids;
}

}  // namespace shoal::dataset
