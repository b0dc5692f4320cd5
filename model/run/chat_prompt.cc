#include "model/run/chat_prompt.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "dataset/chat/characters.h"
#include "dataset/stop_tokens.h"
#include "dataset/word_splitter.h"

namespace shoal::model {

using dataset::ChatValue;

ChatPrompt::ChatPrompt(dataset::ChatTemplate chat_template, const std::string& system)
    : template_(std::move(chat_template)) {
  options_.add_generation_prompt = true;
  options_.now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  if (!system.empty()) system_.push_back(ChatValue::Message("system", system));
}

Result<ChatPrompt> ChatPrompt::Load(const std::string& directory, const std::string& system) {
  if (!dataset::IsUtf8(system)) return InvalidArgument("the system message is not UTF-8");
  SHOAL_ASSIGN_OR_RETURN(auto loaded, dataset::ChatTemplate::LoadFrom(directory));
  if (!loaded) {
    return FailedPrecondition(directory +
                              " has no chat template (chat_template.jinja, or \"chat_template\" in "
                              "tokenizer_config.json); continue plain text with shoal try");
  }
  ChatPrompt prompt(*std::move(loaded), system);
  const std::vector<ChatValue> hello = {ChatValue::Message("user", "Hello")};
  const Result<std::string> tried = prompt.Render(hello);
  if (!tried.ok()) {
    const std::string what = system.empty() ? "a first message" : "a first message behind --system";
    return Status(tried.status().code(),
                  what + ": " + tried.status().message() +
                      "; mend the template, or continue plain text with shoal try");
  }
  return prompt;
}

Result<std::string> ChatPrompt::Render(std::span<const ChatValue> turns) const {
  std::vector<ChatValue> messages = system_;
  messages.insert(messages.end(), turns.begin(), turns.end());
  return template_.Render(messages, options_);
}

Result<std::vector<std::int32_t>> ChatPrompt::StopTokens(
    const std::string& directory, const dataset::Tokenizer& tokenizer) const {
  SHOAL_ASSIGN_OR_RETURN(std::vector<std::int32_t> ids,
                         dataset::LoadStopTokens(directory, tokenizer));
  const auto end = dataset::FindEndOfTurn(template_, options_, tokenizer);
  if (end && std::find(ids.begin(), ids.end(), *end) == ids.end()) ids.push_back(*end);
  return ids;
}

std::string WholeCharacters(std::string_view text) {
  std::string whole;
  while (!text.empty()) {
    const std::size_t bytes = dataset::Utf8Length(text);
    whole += bytes == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return whole;
}

}  // namespace shoal::model
