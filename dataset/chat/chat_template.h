// The chat template of a model: how a conversation becomes one text.
//
// A template is Jinja2 as transformers sets it up for `apply_chat_template`: trim_blocks and
// lstrip_blocks, loop controls, {% generation %}, its own tojson, raise_exception and strftime_now,
// an immutable sandbox. What templates of models use is there; what is not is refused when the
// template is loaded, with its line. A template is foreign input: its steps, its depth and its
// bytes are limited.

#ifndef SHOAL_DATASET_CHAT_CHAT_TEMPLATE_H_
#define SHOAL_DATASET_CHAT_CHAT_TEMPLATE_H_

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "dataset/chat/chat_value.h"
#include "dataset/chat/chat_work.h"

namespace shoal::dataset {

struct ChatOptions {
  bool add_generation_prompt = false;
  // What strftime_now shows, in UTC. Without it a template that asks for the date is refused.
  std::optional<std::chrono::sys_seconds> now;
  // More variables, such as enable_thinking and tools; they count before the template's own.
  std::map<std::string, ChatValue> variables;
  ChatLimits limits;
};

struct ParsedTemplate;

// Thread: any, the object does not change. Copies share the tree.
class ChatTemplate {
 public:
  // `name` stands before error messages: "NAME, line 12: the filter 'foo' is not supported".
  static Result<ChatTemplate> Parse(std::string_view text, std::string_view name);

  // Of a model's directory: chat_template.jinja, else "chat_template" of tokenizer_config.json (a
  // text, or a list of {"name", "template"} with "default"). Nothing if there is none. Variables
  // such as bos_token come from tokenizer_config.json and special_tokens_map.json.
  static Result<std::optional<ChatTemplate>> LoadFrom(const std::string& directory);

  // The conversation as text. `messages`: as ParseMessages gives them. A template that raises is a
  // failed precondition with its message and line; so is what it does wrong. What is beyond the
  // limits is a resource that is exhausted.
  Result<std::string> Render(std::span<const ChatValue> messages, const ChatOptions& options) const;
  // The same, with what {% generation %} marks, in order, in `generated`.
  Result<std::string> Render(std::span<const ChatValue> messages, const ChatOptions& options,
                             std::vector<ByteRange>* generated) const;

  // The same template with other variables.
  ChatTemplate With(std::map<std::string, ChatValue> variables) const;

  const std::string& name() const;
  // Whether it has {% generation %}.
  bool marks_generation() const;
  // Special tokens and other variables, by name.
  const std::map<std::string, ChatValue>& variables() const { return variables_; }

 private:
  explicit ChatTemplate(std::shared_ptr<const ParsedTemplate> parsed);

  std::shared_ptr<const ParsedTemplate> parsed_;
  std::map<std::string, ChatValue> variables_;
};

// The text of the template that LoadFrom parses; nothing if there is none.
Result<std::optional<std::string>> LoadChatTemplateText(const std::string& directory);

struct RenderedChat {
  std::string text;
  std::vector<ByteRange> answers;  // of the assistant's turns, in order, none of them empty
};

// The whole conversation as text, and what a model that answers would write of it: for each message
// with the role "assistant", its text with the token that ends the turn, without what the
// generation prompt opens the turn with.
//
// A turn is what the rendering up to it adds to the one before it with the generation prompt. Where
// that is no beginning of the whole (templates that drop the thinking of earlier turns), the marks
// of {% generation %} count. Without marks a turn is found by what differs when its content and
// calls of tools are replaced, and reaches to the end of the special token behind it.
// `options.add_generation_prompt` does not count. Errors name the turn (from 1); a conversation
// without an answer is one.
Result<RenderedChat> RenderTurns(const ChatTemplate& chat_template,
                                 std::span<const ChatValue> messages, const ChatOptions& options);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_CHAT_TEMPLATE_H_
