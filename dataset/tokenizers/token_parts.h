// "post_processor" and "decoder" of tokenizer.json. Internal to dataset/tokenizers.

#ifndef SHOAL_DATASET_TOKENIZERS_TOKEN_PARTS_H_
#define SHOAL_DATASET_TOKENIZERS_TOKEN_PARTS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/status.h"
#include "dataset/tokenizer.h"

namespace shoal::dataset {

// What a post-processor puts around one text. `json` may be null; ids are checked against
// `vocabulary`.
Result<Wrapping> ParsePostProcessor(const nlohmann::json& json, std::uint32_t vocabulary);

// How names of tokens become text.
struct DecodeRule {
  bool byte_level = false;     // names are in GPT-2's alphabet
  bool byte_fallback = false;  // "<0x0A>" is a byte
  std::string space;           // what stands for a space; empty: nothing does
  bool drop_first_space = false;
  bool apart = false;    // a space before every token
  std::string prefix;    // of tokens within a word; others begin with a space; empty: none
  bool cleanup = false;  // no space before signs and the ends of English short forms
};

Result<DecodeRule> ParseDecoder(const nlohmann::json& json);

// The bytes that a name stands for.
std::string BytesBy(const DecodeRule& rule, const std::string& name);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_TOKEN_PARTS_H_
