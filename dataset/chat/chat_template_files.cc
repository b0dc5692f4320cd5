// ChatTemplate::LoadFrom: the template and its tokens from a model's directory.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "common/file.h"
#include "common/nesting.h"
#include "dataset/chat/chat_template.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kConfigBytesMax = std::uint64_t{16} << 20;
constexpr std::uint64_t kTemplateFileBytesMax = std::uint64_t{1} << 20;
constexpr char kTemplateFile[] = "chat_template.jinja";
constexpr char kTokenizerConfig[] = "tokenizer_config.json";
constexpr char kSpecialTokensMap[] = "special_tokens_map.json";
constexpr const char* kTokenNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};

Result<std::optional<std::string>> ReadIfThere(const std::string& path, std::uint64_t max_bytes) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::optional<std::string>();
  SHOAL_ASSIGN_OR_RETURN(std::string text, ReadFile(path, max_bytes));
  return std::optional<std::string>(std::move(text));
}

// The JSON object of a file, or an empty one where there is no such file.
Result<Json> ReadObject(const std::string& path) {
  SHOAL_ASSIGN_OR_RETURN(const auto text, ReadIfThere(path, kConfigBytesMax));
  if (!text) return Json::object();
  Json root = ParseJson<Json>(*text);
  if (root.is_object()) return root;
  return InvalidArgument(path + " is not a JSON object: copy it again from the model's directory");
}

// Special tokens: a text, or {"content": text}. The first file that names one counts.
void AddTokens(const Json& root, std::map<std::string, ChatValue>* variables) {
  for (const char* name : kTokenNames) {
    const auto found = root.find(name);
    if (found == root.end()) continue;
    const Json* text = &*found;
    if (found->is_object() && found->contains("content")) text = &(*found)["content"];
    if (text->is_string()) variables->emplace(name, ChatValue(text->get<std::string>()));
  }
}

// The text of "chat_template"; nothing if there is none.
Result<std::optional<std::string>> TemplateOf(const Json& root, const std::string& path) {
  const auto found = root.find("chat_template");
  if (found == root.end() || found->is_null()) return std::optional<std::string>();
  if (found->is_string()) return std::optional<std::string>(found->get<std::string>());
  if (!found->is_array()) {
    return InvalidArgument(path + ": chat_template is neither a text nor a list");
  }
  for (const Json& each : *found) {
    if (!each.is_object() || each.value("name", Json()) != "default") continue;
    const auto text = each.find("template");
    if (text != each.end() && text->is_string()) {
      return std::optional<std::string>(text->get<std::string>());
    }
  }
  return InvalidArgument(path + ": chat_template has no entry that is named \"default\"");
}

struct FoundTemplate {
  std::optional<std::string> text;
  std::string path;
  Json config;  // tokenizer_config.json
};

Result<FoundTemplate> FindTemplate(const std::string& directory) {
  const std::filesystem::path folder(directory);
  FoundTemplate found;
  found.path = (folder / kTemplateFile).string();
  const std::string config_path = (folder / kTokenizerConfig).string();
  SHOAL_ASSIGN_OR_RETURN(found.text, ReadIfThere(found.path, kTemplateFileBytesMax));
  SHOAL_ASSIGN_OR_RETURN(found.config, ReadObject(config_path));
  if (!found.text) {
    found.path = config_path;
    SHOAL_ASSIGN_OR_RETURN(found.text, TemplateOf(found.config, config_path));
  }
  return found;
}

}  // namespace

Result<std::optional<std::string>> LoadChatTemplateText(const std::string& directory) {
  SHOAL_ASSIGN_OR_RETURN(FoundTemplate found, FindTemplate(directory));
  return std::move(found.text);
}

Result<std::optional<ChatTemplate>> ChatTemplate::LoadFrom(const std::string& directory) {
  SHOAL_ASSIGN_OR_RETURN(const FoundTemplate found, FindTemplate(directory));
  if (!found.text) return std::optional<ChatTemplate>();
  const std::filesystem::path folder(directory);
  SHOAL_ASSIGN_OR_RETURN(const Json map, ReadObject((folder / kSpecialTokensMap).string()));
  const Result<ChatTemplate> parsed = Parse(*found.text, found.path);
  if (!parsed.ok()) {
    return Status(parsed.status().code(), parsed.status().message() +
                                              "; copy the template again from the model's "
                                              "directory, or write it another way");
  }
  std::map<std::string, ChatValue> variables;
  AddTokens(found.config, &variables);
  AddTokens(map, &variables);
  return std::optional<ChatTemplate>(parsed->With(std::move(variables)));
}

}  // namespace shoal::dataset
