// TokenizerFile: what the files of a tokenizer say, checked. tokenizer_files.h reads them.

#ifndef SHOAL_DATASET_TOKENIZERS_TOKENIZER_FILE_H_
#define SHOAL_DATASET_TOKENIZERS_TOKENIZER_FILE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dataset/added_tokens.h"
#include "dataset/tokenizer.h"
#include "dataset/tokenizers/normalizer.h"
#include "dataset/tokenizers/pre_tokenizer.h"

namespace shoal::dataset {

struct BpeMerge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t merged = 0;
  std::uint32_t rank = 0;  // the lowest first; of equal ones the leftmost in the word
};

struct BpeModel {
  std::vector<BpeMerge> merges;
  // With `byte_level` words are bytes, and each has a token; else words are characters, and a
  // character without a token is made of those bytes that have one (`byte_fallback`), or unknown.
  bool byte_level = true;
  bool byte_fallback = false;
  std::array<std::int32_t, 256> byte_ids{};  // below 0: none
  std::optional<std::int32_t> unknown;
  bool fuse_unknown = false;  // unknown characters beside each other are one token
  bool whole_words = false;   // a word that is a token is not merged ("ignore_merges")
};

struct UnigramModel {
  std::vector<double> scores;  // by id
  std::optional<std::int32_t> unknown;
  bool byte_fallback = false;
  std::array<std::int32_t, 256> byte_ids{};  // below 0: none
};

struct WordPieceModel {
  std::int32_t unknown = 0;
  std::string prefix = "##";         // of tokens within a word
  std::size_t characters_max = 100;  // of a word
};

struct TokenizerFile {
  std::vector<std::string> names;  // by id, as in the file
  std::vector<std::string> bytes;  // by id, what the token stands for
  bool drop_first_space = false;   // of decoded text
  std::string space;               // what stands for a space in added tokens; may be empty
  bool apart = false;              // a space stands before added tokens

  std::variant<BpeModel, UnigramModel, WordPieceModel> model;
  std::vector<std::string> model_names;  // by id; empty for tokens that only `added` has

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::vector<AddedToken> added;  // found in texts as a whole; each content once
  Wrapping wrapping;
  std::optional<std::int32_t> end_of_text;
  // tokenizer.model does not say what stands around a text: tokenizer_config.json does.
  bool wrapped_by_config = false;
  // spm.model: [CLS] and [SEP] do.
  bool wrapped_as_bert = false;
  std::optional<std::int32_t> begin_of_text;
  std::string settings;            // what is not as GPT-2 has it, for the fingerprint
  std::vector<std::string> notes;  // what the files ask for that has no meaning here
};

// SHA-256 (hex) over names, model and settings.
std::string FingerprintOf(const TokenizerFile& file);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_TOKENIZER_FILE_H_
