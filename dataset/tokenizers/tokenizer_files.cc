#include "dataset/tokenizers/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/file.h"
#include "common/nesting.h"
#include "dataset/tokenizer.h"
#include "dataset/tokenizers/byte_names.h"
#include "dataset/tokenizers/named_tokens.h"
#include "dataset/tokenizers/vocabulary.h"

namespace shoal::dataset {
namespace {

constexpr std::uint64_t kFileBytesMax = std::uint64_t{256} << 20;

Result<TokenizerFile> ReadFiles(const std::string& directory) {
  const std::filesystem::path folder(directory);
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return NotFound("there is no folder '" + directory +
                    "'; name the folder of the model, which has its tokenizer's files");
  }
  if (const auto path = folder / "tokenizer.json"; std::filesystem::exists(path, ignored)) {
    SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path.string(), kFileBytesMax));
    Result<TokenizerFile> file = ParseTokenizerJson(text);
    if (!file.ok()) return file.status().WithContext(path.string());
    return file;
  }
  if (const auto path = folder / "tokenizer.model"; std::filesystem::exists(path, ignored)) {
    SHOAL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path.string(), kFileBytesMax));
    Result<TokenizerFile> file = ParseSentencePiece(bytes);
    if (!file.ok()) return file.status().WithContext(path.string());
    return file;
  }
  if (const auto path = folder / "spm.model"; std::filesystem::exists(path, ignored)) {
    SHOAL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path.string(), kFileBytesMax));
    Result<TokenizerFile> file = ParseSentencePiece(bytes);
    if (!file.ok()) return file.status().WithContext(path.string());
    file->wrapped_as_bert = true;
    return file;
  }
  for (const auto& [vocab_name, merges_name] :
       {std::pair("vocab.json", "merges.txt"), std::pair("encoder.json", "vocab.bpe")}) {
    const auto vocab_path = folder / vocab_name;
    if (!std::filesystem::exists(vocab_path, ignored)) continue;
    SHOAL_ASSIGN_OR_RETURN(const std::string vocab, ReadFile(vocab_path.string(), kFileBytesMax));
    const std::string merges_path = (folder / merges_name).string();
    Result<std::string> merges = ReadFile(merges_path, kFileBytesMax);
    if (!merges.ok()) {
      return merges.status().WithContext(std::string(vocab_name) + " needs its " + merges_name);
    }
    Result<TokenizerFile> file = ParseVocabAndMerges(vocab, *merges);
    if (!file.ok()) return file.status().WithContext(vocab_path.string() + ", " + merges_name);
    return file;
  }
  return NotFound("no tokenizer in '" + directory +
                  "': it needs tokenizer.json, tokenizer.model, spm.model, or vocab.json and "
                  "merges.txt; copy them from the model's directory");
}

}  // namespace

bool HasTokenizer(const std::string& directory) {
  const std::filesystem::path folder(directory);
  std::error_code ignored;
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "spm.model", "vocab.json", "encoder.json"}) {
    if (std::filesystem::exists(folder / name, ignored)) return true;
  }
  return false;
}

Result<TokenizerFile> ParseVocabAndMerges(std::string_view vocab_json, std::string_view merges) {
  NameIds ids;
  SHOAL_RETURN_IF_ERROR(AddVocabulary(ParseJson<nlohmann::json>(vocab_json), &ids));
  TokenizerFile file;
  SHOAL_ASSIGN_OR_RETURN(file.names, NamesById(ids));
  file.model_names = file.names;
  for (const std::string& name : file.names) file.bytes.push_back(BytesOfName(name));
  SHOAL_ASSIGN_OR_RETURN(file.pre_tokenizer, PreTokenizer::ByteLevel(/*prefix_space=*/false));
  BpeModel model;
  SHOAL_ASSIGN_OR_RETURN(model.byte_ids, ByteLevelIds(ids));
  SHOAL_ASSIGN_OR_RETURN(const auto pairs, MergesOfText(merges));
  SHOAL_RETURN_IF_ERROR(AddMerges(pairs, ids, &model));
  file.model = std::move(model);
  if (const auto end = ids.find(kEndOfText); end != ids.end()) file.end_of_text = end->second;
  return file;
}

Result<TokenizerFile> LoadTokenizerFile(const std::string& directory) {
  SHOAL_ASSIGN_OR_RETURN(TokenizerFile file, ReadFiles(directory));
  SHOAL_RETURN_IF_ERROR(ApplyFilesBeside(directory, &file));
  const auto is_end = [](const AddedToken& token) { return token.content == kEndOfText; };
  const bool named_so =
      file.end_of_text && file.names[static_cast<std::size_t>(*file.end_of_text)] == kEndOfText;
  if (named_so && std::none_of(file.added.begin(), file.added.end(), is_end)) {
    AddedToken end;
    end.content = kEndOfText;
    end.id = *file.end_of_text;
    end.special = true;
    Recognise(std::move(end), &file);
  }
  return file;
}

}  // namespace shoal::dataset
