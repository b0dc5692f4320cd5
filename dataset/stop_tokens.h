// The tokens that end what a model writes.

#ifndef SHOAL_DATASET_STOP_TOKENS_H_
#define SHOAL_DATASET_STOP_TOKENS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "dataset/chat/chat_template.h"
#include "dataset/tokenizer.h"

namespace shoal::dataset {

// Files of a model's directory that name such tokens; a missing one is empty.
struct StopTokenFiles {
  std::string generation_config;   // "eos_token_id", an id or a list of ids
  std::string model_config;        // the same
  std::string tokenizer_config;    // "eos_token", a name or {"content": name}
  std::string special_tokens_map;  // the same
};

// All of them together, with the tokenizer's own end of text; in rising order, each once. What the
// tokenizer does not know is left out. A file that is no JSON object, and an eos_token_id that is
// neither whole numbers nor null, is an invalid argument that names the file.
Result<std::vector<std::int32_t>> FindStopTokens(const StopTokenFiles& files,
                                                 const Tokenizer& tokenizer);
// From the files in `directory`.
Result<std::vector<std::int32_t>> LoadStopTokens(const std::string& directory,
                                                 const Tokenizer& tokenizer);

// The special token with which a template ends the assistant's turns, as models that were trained
// on it write it; files do not always name it. Nothing where it ends them with text.
std::optional<std::int32_t> FindEndOfTurn(const ChatTemplate& chat_template,
                                          const ChatOptions& options, const Tokenizer& tokenizer);

// The id of the token that is called `name`; nothing if there is none.
std::optional<std::int32_t> IdOfToken(const Tokenizer& tokenizer, std::string_view name);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_STOP_TOKENS_H_
