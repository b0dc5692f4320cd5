// A tokenizer.json, vocabulary and merges with a NUL between, or a file beside them, from anybody.

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataset/added_tokens.h"
#include "dataset/end_token.h"
#include "dataset/tokenizer_config.h"
#include "dataset/tokenizers/file_content.h"
#include "dataset/tokenizers/tokenizer_files.h"

namespace {

// Pieces follow each other, and every one of a token has its id.
void CheckSplit(const std::vector<shoal::dataset::AddedToken>& tokens, std::string_view text) {
  const auto added = shoal::dataset::AddedTokens::New(tokens);
  if (!added.ok()) std::abort();
  for (const auto& piece : (*added)->Split(text)) {
    if (piece.text.empty() || piece.text.data() < text.data() ||
        piece.text.data() + piece.text.size() > text.data() + text.size()) {
      std::abort();
    }
  }
  static_cast<void>((*added)->Touches(text, text.size() / 2));
}

// What a tokenizer makes of a text it can turn back.
void CheckEncode(shoal::dataset::TokenizerFile file, std::string_view text) {
  const auto tokenizer = shoal::dataset::NewFileTokenizer(std::move(file));
  if (!tokenizer.ok()) return;
  std::vector<std::int32_t> ids;
  try {
    (*tokenizer)->Encode(text.substr(0, 4096), &ids);
  } catch (const std::runtime_error&) {
    return;  // a pattern that takes too long
  }
  if (!(*tokenizer)->Decode(ids).ok()) std::abort();
  if ((*tokenizer)->FindBreak(text, text.size() / 2) > text.size()) std::abort();
}

// Lists by id are as long as the vocabulary.
void CheckContent(const shoal::dataset::TokenizerFile& file, std::string_view bytes) {
  const auto pieces = shoal::dataset::ParseSentencePieceModel(bytes);
  const auto content =
      shoal::dataset::ContentOf(file, pieces.ok() ? std::optional(*pieces) : std::nullopt);
  if (!content.ok()) return;
  if (content->tokens.size() != file.names.size()) std::abort();
  if (content->kinds.size() != file.names.size()) std::abort();
  if (!content->scores.empty() && content->scores.size() != file.names.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto check = [bytes](shoal::Result<shoal::dataset::TokenizerFile> model) {
    if (!model.ok()) return;
    if (model->bytes.size() != model->names.size() || model->names.empty()) std::abort();
    if (shoal::dataset::FingerprintOf(*model).size() != 64) std::abort();
    CheckSplit(model->added, bytes);
    CheckContent(*model, bytes);
    CheckEncode(std::move(*model), bytes);
  };
  check(shoal::dataset::ParseTokenizerJson(bytes));
  check(shoal::dataset::ParseSentencePiece(bytes));
  const std::size_t middle = bytes.find('\0');
  if (middle != std::string_view::npos) {
    check(shoal::dataset::ParseVocabAndMerges(bytes.substr(0, middle), bytes.substr(middle + 1)));
  }
  const auto id = shoal::dataset::FindEndToken({std::string(bytes), "", std::string(bytes)},
                                               std::vector<std::string>{"a", "</s>"});
  if (id.ok() && id->has_value() && (**id < 0 || **id > 1)) std::abort();
  std::vector<shoal::dataset::AddedToken> tokens;
  if (const auto config = shoal::dataset::ParseTokenizerConfig(bytes); config.ok()) {
    for (const auto& named : config->tokens) tokens.push_back(named.token);
  }
  if (const auto named = shoal::dataset::ParseAddedTokens(bytes); named.ok()) {
    for (const auto& each : *named) tokens.push_back(each.token);
  }
  CheckSplit(tokens, bytes);
  return 0;
}
