// What a model reads of a conversation: its chat template, rendered up to the answer to come.
// Internal to shoal-run.

#ifndef SHOAL_MODEL_RUN_CHAT_PROMPT_H_
#define SHOAL_MODEL_RUN_CHAT_PROMPT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "dataset/chat/chat_template.h"
#include "dataset/tokenizer.h"

namespace shoal::model {

class ChatPrompt {
 public:
  // The template of a model's directory. `system`: a message before all others; empty: none. An
  // error if there is no template, or if it does not take a message behind that.
  static Result<ChatPrompt> Load(const std::string& directory, const std::string& system);

  // `turns`: messages of user and assistant, the last one a user's. The date is that of Load.
  Result<std::string> Render(std::span<const dataset::ChatValue> turns) const;
  // Ids that end an answer: those that the directory's files name, and the template's own.
  Result<std::vector<std::int32_t>> StopTokens(const std::string& directory,
                                               const dataset::Tokenizer& tokenizer) const;

 private:
  ChatPrompt(dataset::ChatTemplate chat_template, const std::string& system);

  dataset::ChatTemplate template_;
  dataset::ChatOptions options_;
  std::vector<dataset::ChatValue> system_;  // none or one
};

// With U+FFFD in place of each byte that is not part of a character in UTF-8.
std::string WholeCharacters(std::string_view text);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_RUN_CHAT_PROMPT_H_
