#include "dataset/tokenizers/named_tokens.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/file.h"
#include "dataset/tokenizer_config.h"
#include "dataset/tokenizers/json_fields.h"
#include "dataset/tokenizers/unicode.h"
#include "dataset/tokenizers/word_model.h"

namespace shoal::dataset {
namespace {

constexpr std::uint64_t kFileBytesMax = std::uint64_t{256} << 20;
constexpr std::size_t kAddedTokenBytesMax = 1024;

bool IsByte(std::int32_t id, const TokenizerFile& file) {
  const auto* bpe = std::get_if<BpeModel>(&file.model);
  if (bpe == nullptr || !bpe->byte_level) return false;
  return std::find(bpe->byte_ids.begin(), bpe->byte_ids.end(), id) != bpe->byte_ids.end();
}

// A token that the vocabulary lacks: it follows the vocabulary.
Status Append(const AddedToken& token, NameIds* ids, TokenizerFile* file) {
  if (static_cast<std::size_t>(token.id) != file->names.size()) {
    return InvalidArgument("token " + Quoted(token.content) + " has the id " +
                           std::to_string(token.id) + ", where the vocabulary ends at " +
                           std::to_string(file->names.size()));
  }
  ids->emplace(token.content, token.id);
  file->names.push_back(token.content);
  file->model_names.emplace_back();
  file->bytes.push_back(token.content);
  return Status::Ok();
}

// Adds tokens that files beside the tokenizer name.
Status RecogniseNamed(std::vector<NamedToken> tokens, TokenizerFile* file) {
  NameIds ids;
  for (std::size_t id = 0; id < file->names.size(); ++id) {
    ids.emplace(file->names[id], static_cast<std::int32_t>(id));
  }
  std::stable_sort(tokens.begin(), tokens.end(), [](const NamedToken& a, const NamedToken& b) {
    return a.has_id && (!b.has_id || a.token.id < b.token.id);
  });
  for (auto& [token, has_id] : tokens) {
    SHOAL_RETURN_IF_ERROR(CheckAddedToken(token));
    const auto known = ids.find(token.content);
    if (known == ids.end()) {
      if (!has_id) {
        file->notes.push_back("the special token " + Quoted(token.content) +
                              " is not in the vocabulary: in texts it is read as ordinary letters");
        continue;
      }
      SHOAL_RETURN_IF_ERROR(Append(token, &ids, file));
    } else if (has_id && known->second != token.id) {
      return InvalidArgument("token " + Quoted(token.content) + " has two ids");
    }
    token.id = ids.find(token.content)->second;
    Recognise(std::move(token), file);
  }
  return Status::Ok();
}

// Where tokenizer_config.json does not say it, Llama and Gemma have a token in front, T5 one
// behind.
Wrapping WrappingBy(const TokenizerConfig& config, const TokenizerFile& file) {
  const std::string& kind = config.tokenizer_class;
  const auto is = [&kind](const char* name) { return kind.find(name) != std::string::npos; };
  Wrapping wrapping;
  if (file.begin_of_text &&
      config.add_bos_token.value_or(kind.empty() || is("Llama") || is("Gemma"))) {
    wrapping.before.push_back(*file.begin_of_text);
  }
  if (file.end_of_text && config.add_eos_token.value_or(is("T5"))) {
    wrapping.behind.push_back(*file.end_of_text);
  }
  return wrapping;
}

// What transformers' DeBERTa tokenizer puts around the pieces of its spm.model.
Status WrapAsBert(const TokenizerConfig& config, TokenizerFile* file) {
  if (config.do_lower_case.value_or(false) || config.split_by_punct.value_or(false)) {
    return InvalidArgument(
        "do_lower_case and split_by_punct must be false beside spm.model; save the tokenizer as "
        "tokenizer.json with transformers");
  }
  const auto id_of = [file](const char* name) -> std::optional<std::int32_t> {
    const auto found = std::ranges::find(file->names, name);
    if (found == file->names.end()) return std::nullopt;
    return static_cast<std::int32_t>(found - file->names.begin());
  };
  const auto begin = id_of("[CLS]"), end = id_of("[SEP]");
  if (!begin || !end) return InvalidArgument("spm.model has no [CLS] or no [SEP]");
  file->wrapping = {{*begin}, {*end}, PairWrapping{{*begin}, {*end}, {*end}}};
  return Status::Ok();
}

}  // namespace

Status CheckAddedToken(const AddedToken& token) {
  if (token.content.size() <= kAddedTokenBytesMax) return Status::Ok();
  return InvalidArgument("the added token " + Quoted(token.content) + " has " +
                         std::to_string(token.content.size()) + " bytes; " +
                         std::to_string(kAddedTokenBytesMax) + " are the most");
}

void Recognise(AddedToken token, TokenizerFile* file) {
  if (file->wrapped_by_config) token.normalized = false;  // the library never normalises them
  if (!IsByte(token.id, *file)) {
    std::string& bytes = file->bytes[static_cast<std::size_t>(token.id)];
    bytes = token.normalized ? file->normalizer.Apply(WithoutDamage(token.content)) : token.content;
    ReplaceAll(file->space, " ", &bytes);
    if (file->apart) bytes.insert(0, " ");
  }
  const auto same = std::find_if(file->added.begin(), file->added.end(),
                                 [&](const auto& known) { return known.content == token.content; });
  if (same != file->added.end()) {
    // added_tokens.json does not say it.
    token.special = token.special || same->special;
    *same = std::move(token);
  } else {
    file->added.push_back(std::move(token));
  }
}

Status ApplyFilesBeside(const std::string& directory, TokenizerFile* file) {
  const std::filesystem::path folder(directory);
  const auto read = [&](const char* name) -> Result<std::string> {
    std::error_code ignored;
    if (!std::filesystem::exists(folder / name, ignored)) return std::string();
    return ReadFile((folder / name).string(), kFileBytesMax);
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
    if (const Status status = RecogniseNamed(std::move(*tokens), file); !status.ok()) {
      return named(kAdded, status);
    }
  }
  SHOAL_ASSIGN_OR_RETURN(const std::string text, read(kConfig));
  Result<TokenizerConfig> config = TokenizerConfig();
  if (!text.empty()) config = ParseTokenizerConfig(text);
  if (!config.ok()) return named(kConfig, config.status());
  if (file->wrapped_as_bert) {
    const Status wrapped = WrapAsBert(*config, file);
    if (!wrapped.ok()) return named(kConfig, wrapped);
  } else if (file->wrapped_by_config) {
    file->wrapping = WrappingBy(*config, *file);
  }
  if (config->add_prefix_space) file->pre_tokenizer.set_prefix_space(*config->add_prefix_space);
  const Status status = RecogniseNamed(std::move(config->tokens), file);
  return status.ok() ? status : named(kConfig, status);
}

}  // namespace shoal::dataset
