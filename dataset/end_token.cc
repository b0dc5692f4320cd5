#include "dataset/end_token.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/file.h"
#include "common/nesting.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kFileBytesMax = std::uint64_t{16} << 20;
constexpr char kTokenizerConfig[] = "tokenizer_config.json";
constexpr char kSpecialTokensMap[] = "special_tokens_map.json";
constexpr char kModelConfig[] = "config.json";

std::optional<std::int32_t> IdOfName(const Json& token, std::span<const std::string> names) {
  const Json* name = &token;
  if (token.is_object()) {
    const auto content = token.find("content");
    if (content == token.end()) return std::nullopt;
    name = &*content;
  }
  if (!name->is_string()) return std::nullopt;
  const auto found = std::find(names.begin(), names.end(), name->get_ref<const std::string&>());
  if (found == names.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - names.begin());
}

std::optional<std::int32_t> FirstId(const Json& ids, std::span<const std::string> names) {
  const Json& id = ids.is_array() && !ids.empty() ? ids.front() : ids;
  if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= names.size()) return std::nullopt;
  return static_cast<std::int32_t>(id.get<std::uint64_t>());
}

Result<std::optional<std::int32_t>> FindToken(const std::string& role, const EndTokenFiles& files,
                                              std::span<const std::string> names) {
  const struct {
    const char* file;
    const std::string& text;
    std::string field;
    std::optional<std::int32_t> (*find)(const Json&, std::span<const std::string>);
  } sources[] = {{kTokenizerConfig, files.tokenizer_config, role + "_token", IdOfName},
                 {kSpecialTokensMap, files.special_tokens_map, role + "_token", IdOfName},
                 {kModelConfig, files.model_config, role + "_token_id", FirstId}};
  for (const auto& [file, text, field, find] : sources) {
    if (text.empty()) continue;
    const auto root = ParseJson<Json>(text);
    if (!root.is_object()) {
      return InvalidArgument(std::string(file) +
                             " is not a JSON object: copy it again from the model's directory");
    }
    const auto value = root.find(field);
    if (value == root.end()) continue;
    if (const auto id = find(*value, names)) return id;
  }
  return std::optional<std::int32_t>();
}

}  // namespace

Result<std::optional<std::int32_t>> FindEndToken(const EndTokenFiles& files,
                                                 std::span<const std::string> names) {
  return FindToken("eos", files, names);
}

Result<std::optional<std::int32_t>> LoadTokenOf(const std::string& role,
                                                const std::string& directory,
                                                std::span<const std::string> names) {
  const std::filesystem::path folder(directory);
  EndTokenFiles files;
  for (const auto& [file, text] : {std::pair(kTokenizerConfig, &files.tokenizer_config),
                                   std::pair(kSpecialTokensMap, &files.special_tokens_map),
                                   std::pair(kModelConfig, &files.model_config)}) {
    const std::string path = (folder / file).string();
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    SHOAL_ASSIGN_OR_RETURN(*text, ReadFile(path, kFileBytesMax));
  }
  auto token = FindToken(role, files, names);
  if (!token.ok()) return token.status().WithContext(directory);
  return token;
}

Result<std::optional<std::int32_t>> LoadEndToken(const std::string& directory,
                                                 std::span<const std::string> names) {
  return LoadTokenOf("eos", directory, names);
}

}  // namespace shoal::dataset
