// BpeModel: the vocabulary and merges of a byte-level BPE tokenizer, read from its files.

#ifndef SHOAL_DATASET_BPE_MODEL_H_
#define SHOAL_DATASET_BPE_MODEL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "dataset/added_tokens.h"

namespace shoal::dataset {

struct BpeMerge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t merged = 0;
};

struct BpeModel {
  std::vector<std::string> names;  // by id, as in the file: bytes in GPT-2's printable alphabet
  std::vector<std::string> bytes;  // by id, what the token stands for
  std::vector<BpeMerge> merges;    // first come first merged
  std::array<std::int32_t, 256> byte_ids{};
  std::optional<std::int32_t> end_of_text;
  bool add_prefix_space = false;   // before a text, and behind each added token
  std::vector<AddedToken> added;   // found in texts as a whole; each content once
  std::vector<std::string> notes;  // what the files ask for that has no meaning here
};

// From a Hugging Face tokenizer.json. Refuses every setting that would give other ids than plain
// GPT-2 byte-level BPE: the error names it.
Result<BpeModel> ParseTokenizerJson(std::string_view json);

// From vocab.json (a JSON object from name to id) and merges.txt ("left right" lines).
Result<BpeModel> ParseVocabAndMerges(std::string_view vocab_json, std::string_view merges);

// From whichever files `directory` has: tokenizer.json, else vocab.json + merges.txt, else
// encoder.json + vocab.bpe. tokenizer_config.json and added_tokens.json beside them add their
// tokens. <|endoftext|> counts as a special token wherever the vocabulary has it, as transformers'
// own GPT-2 tokenizer has it.
Result<BpeModel> LoadBpeModel(const std::string& directory);

// SHA-256 (hex) over names and merges.
std::string FingerprintOf(const BpeModel& model);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_BPE_MODEL_H_
