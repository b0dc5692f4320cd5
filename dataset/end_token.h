// The token that separates documents, where the vocabulary has no <|endoftext|>.

#ifndef SHOAL_DATASET_END_TOKEN_H_
#define SHOAL_DATASET_END_TOKEN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::dataset {

// Files beside a tokenizer that name its end token, in the order in which they count; a missing one
// is empty.
struct EndTokenFiles {
  std::string tokenizer_config;    // "eos_token", a name or {"content": name}
  std::string special_tokens_map;  // the same
  std::string model_config;        // "eos_token_id", an id or a list of ids
};

// The first token that is in the vocabulary `names` (by id), or none. A file that is no JSON object
// is an invalid argument that names it.
Result<std::optional<std::int32_t>> FindEndToken(const EndTokenFiles& files,
                                                 std::span<const std::string> names);

// The same, from tokenizer_config.json, special_tokens_map.json and config.json of `directory`.
Result<std::optional<std::int32_t>> LoadEndToken(const std::string& directory,
                                                 std::span<const std::string> names);
// The same for another role than "eos": "bos", "pad", "unk".
Result<std::optional<std::int32_t>> LoadTokenOf(const std::string& role,
                                                const std::string& directory,
                                                std::span<const std::string> names);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_END_TOKEN_H_
