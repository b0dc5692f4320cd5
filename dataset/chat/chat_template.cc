#include "dataset/chat/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dataset/chat/template_parser.h"
#include "dataset/chat/template_renderer.h"

namespace shoal::dataset {
namespace {

// The names that a message's thoughts go by; the first is the usual one.
constexpr std::array<std::string_view, 3> kThoughts = {"reasoning_content", "thinking",
                                                       "reasoning"};

using Items = std::vector<std::pair<ChatValue, ChatValue>>;

void Put(std::string_view key, const ChatValue& value, Items* items) {
  for (auto& [name, old] : *items) {
    if (name.string() == nullptr || *name.string() != key) continue;
    old = value;
    return;
  }
  items->emplace_back(ChatValue(key), value);
}

bool IsAsExpected(const ChatDict& message) {
  const bool has_thoughts = std::any_of(kThoughts.begin(), kThoughts.end(),
                                        [&](auto name) { return message.Find(name) != nullptr; });
  return !has_thoughts && std::none_of(message.items.begin(), message.items.end(),
                                       [](const auto& item) { return item.second.is_none(); });
}

// As transformers hands messages over: keys without a value are left out, and thoughts have all the
// names that templates look for.
ChatValue AsTemplatesExpect(const ChatValue& message) {
  const ChatDict* dict = message.dict();
  if (dict == nullptr || IsAsExpected(*dict)) return message;
  Items items;
  for (const auto& item : dict->items) {
    if (!item.second.is_none()) items.push_back(item);
  }
  for (const std::string_view name : kThoughts) {
    const ChatValue* thoughts = dict->Find(name);
    if (thoughts == nullptr || thoughts->is_none()) continue;
    const ChatValue* thinking = dict->Find("thinking");
    if (thinking == nullptr || thinking->is_none()) Put("thinking", *thoughts, &items);
    Put("reasoning_content", *thoughts, &items);
    break;
  }
  return ChatValue::Dict(std::move(items));
}

}  // namespace

ChatTemplate::ChatTemplate(std::shared_ptr<const ParsedTemplate> parsed)
    : parsed_(std::move(parsed)) {}

Result<ChatTemplate> ChatTemplate::Parse(std::string_view text, std::string_view name) {
  Result<ParsedTemplate> parsed = ParseTemplate(text);
  if (!parsed.ok()) {
    return Status(parsed.status().code(), std::string(name) + ", " + parsed.status().message());
  }
  parsed->name = name;
  return ChatTemplate(std::make_shared<const ParsedTemplate>(std::move(*parsed)));
}

ChatTemplate ChatTemplate::With(std::map<std::string, ChatValue> variables) const {
  ChatTemplate result = *this;
  result.variables_ = std::move(variables);
  return result;
}

const std::string& ChatTemplate::name() const { return parsed_->name; }

bool ChatTemplate::marks_generation() const { return parsed_->marks_generation; }

Result<std::string> ChatTemplate::Render(std::span<const ChatValue> messages,
                                         const ChatOptions& options) const {
  return Render(messages, options, nullptr);
}

Result<std::string> ChatTemplate::Render(std::span<const ChatValue> messages,
                                         const ChatOptions& options,
                                         std::vector<ByteRange>* generated) const {
  std::vector<ChatValue> list;
  for (const ChatValue& message : messages) {
    if (message.depth() >= kChatDepthMax) return InvalidArgument("a message nests too deep");
    list.push_back(AsTemplatesExpect(message));
  }
  TemplateRenderer renderer(parsed_.get(), options.limits, options.now);
  renderer.Define("tools", ChatValue());
  renderer.Define("documents", ChatValue());
  for (const auto& [name, value] : variables_) renderer.Define(name, value);
  for (const auto& [name, value] : options.variables) renderer.Define(name, value);
  renderer.Define("messages", ChatValue::Sequence(SequenceKind::kList, std::move(list)));
  renderer.Define("add_generation_prompt", ChatValue(options.add_generation_prompt));
  return renderer.Run(generated);
}

}  // namespace shoal::dataset
