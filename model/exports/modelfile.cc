#include "model/exports/modelfile.h"

#include <optional>
#include <string_view>

#include "dataset/chat/chat_template.h"
#include "model/exports/chat_affixes.h"

namespace shoal::model {
namespace {

// Ollama's template for one turn; it repeats it for a conversation, and stops before .Response
// where the model is to answer.
std::string TemplateOf(const ChatAffixes& affixes) {
  const std::string system = "{{ .System }}" + affixes.behind_system + "{{ end }}";
  std::string text;
  if (!affixes.before_system.empty() ||
      (!affixes.system_within && !affixes.behind_system.empty())) {
    text = "{{ if .System }}" + affixes.before_system + system;
  }
  text += affixes.before_user;
  if (affixes.system_within) text += "{{ if .System }}" + system;
  return text + "{{ .Prompt }}" + affixes.before_answer + "{{ .Response }}" + affixes.behind_answer;
}

bool Sayable(const ChatAffixes& affixes) {
  const std::string all = affixes.before_system + affixes.behind_system + affixes.before_user +
                          affixes.before_answer + affixes.behind_answer + affixes.default_system;
  return all.find("{{") == std::string::npos && all.find("}}") == std::string::npos &&
         all.find("\"\"\"") == std::string::npos;
}

// The special token that ends an answer: the longest one at the beginning of what follows it.
std::string StopOf(const dataset::TokenizerContent& content, const std::string& behind) {
  std::string stop;
  for (std::size_t id = 0; id < content.tokens.size(); ++id) {
    const std::string& token = content.tokens[id];
    const dataset::TokenKind kind = content.kinds[id];
    const bool marks =
        kind == dataset::TokenKind::kControl || kind == dataset::TokenKind::kUserDefined;
    if (marks && token.size() > stop.size() && behind.starts_with(token)) stop = token;
  }
  return stop.find('"') == std::string::npos ? stop : "";
}

}  // namespace

Modelfile MakeModelfile(const dataset::TokenizerContent& content, const std::string& folder) {
  Modelfile file;
  file.text = "FROM ./model.gguf\n";
  if (content.chat_template.empty()) return file;
  const auto loaded = dataset::ChatTemplate::LoadFrom(folder);
  const std::string begin =
      content.begin ? content.tokens[static_cast<std::size_t>(*content.begin)] : "";
  std::optional<ChatAffixes> affixes;
  if (loaded.ok() && *loaded) affixes = FindChatAffixes(**loaded, begin);
  if (!affixes || !Sayable(*affixes)) {
    file.notes.push_back(
        "the Modelfile has no TEMPLATE: Ollama's language cannot say this chat template, which is "
        "in model.gguf");
    return file;
  }
  file.text += "TEMPLATE \"\"\"" + TemplateOf(*affixes) + "\"\"\"\n";
  if (!affixes->default_system.empty()) {
    file.text += "SYSTEM \"\"\"" + affixes->default_system + "\"\"\"\n";
  }
  const std::string stop = StopOf(content, affixes->behind_answer + affixes->before_user);
  if (!stop.empty()) file.text += "PARAMETER stop \"" + stop + "\"\n";
  return file;
}

}  // namespace shoal::model
