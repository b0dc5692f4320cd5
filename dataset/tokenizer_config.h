// What tokenizer_config.json and added_tokens.json, beside a tokenizer, say of its tokens.

#ifndef SHOAL_DATASET_TOKENIZER_CONFIG_H_
#define SHOAL_DATASET_TOKENIZER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "dataset/added_tokens.h"

namespace shoal::dataset {

// A token that a file names. Its `token.id` counts only with `has_id`: others have the id that the
// vocabulary gives to `content`, and are left out where it has none.
struct NamedToken {
  AddedToken token;
  bool has_id = false;
};

struct TokenizerConfig {
  std::optional<bool> add_prefix_space, add_bos_token, add_eos_token;
  std::optional<bool> do_lower_case, split_by_punct;
  std::string tokenizer_class;     // of transformers; may be empty
  std::vector<NamedToken> tokens;  // "added_tokens_decoder", then bos_token, eos_token and the like
};

// An invalid argument says what is wrong with the file.
Result<TokenizerConfig> ParseTokenizerConfig(std::string_view json);

// Of added_tokens.json: an object of content to id.
Result<std::vector<NamedToken>> ParseAddedTokens(std::string_view json);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZER_CONFIG_H_
