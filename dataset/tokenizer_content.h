// TokenizerContent: what a tokenizer is made of, in the terms of llama.cpp's files: tokens with
// scores and kinds, merges, and the name of the rule that cuts texts into words.

#ifndef SHOAL_DATASET_TOKENIZER_CONTENT_H_
#define SHOAL_DATASET_TOKENIZER_CONTENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"

namespace shoal::dataset {

// Numbered as SentencePiece does, and GGUF after it.
enum class TokenKind : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct TokenizerContent {
  // How texts become tokens, as llama.cpp names it: "gpt2", byte pairs with `merges`, where `words`
  // names the rule that cuts texts ("llama-bpe", "qwen2", ...); or "llama", SentencePiece's byte
  // pairs with `scores`.
  std::string model, words;
  std::vector<std::string> tokens;  // by id, as the vocabulary writes them
  std::vector<TokenKind> kinds;     // by id
  std::vector<float> scores;        // by id; of "llama"
  std::vector<std::string> merges;  // "left right", the first counts first; of "gpt2"
  bool prefix_space = false;        // of "llama": one is put in front of a text
  std::optional<std::int32_t> begin, end, unknown, padding;
  bool add_begin = false, add_end = false;  // around a text
  std::string chat_template;                // Jinja2; may be empty
};

// Of the files that LoadTokenizer reads. A tokenizer whose ids llama.cpp would not give is an
// invalid argument that names the cause.
Result<TokenizerContent> LoadTokenizerContent(const std::string& directory);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZER_CONTENT_H_
