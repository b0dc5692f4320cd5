#include "dataset/prepare/raw_sample.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/nesting.h"
#include "common/text.h"

namespace shoal::dataset {
namespace {

// Keeps the order of keys, which templates may print.
using Json = nlohmann::ordered_json;

constexpr char kMessages[] = "messages";
constexpr char kConversations[] = "conversations";
constexpr char kPrompt[] = "prompt";
constexpr char kCompletion[] = "completion";
constexpr char kText[] = "text";
constexpr char kLabel[] = "label";
constexpr char kPair[] = "text_pair";
constexpr char kTools[] = "tools";
constexpr char kSystem[] = "system";

// Who a message of ShareGPT is from, and its role.
constexpr std::pair<std::string_view, const char*> kRoles[] = {
    {"human", "user"},    {"user", "user"}, {"gpt", "assistant"},   {"assistant", "assistant"},
    {"system", "system"}, {"tool", "tool"}, {"observation", "tool"}};
constexpr std::size_t kShownBytes = 40;  // of a foreign name in an error

std::string OrElse(const std::string& name, const char* otherwise) {
  return name.empty() ? otherwise : name;
}

Result<Json> ParseObject(std::string_view text) {
  Json json = ParseJson<Json>(text);
  if (json.is_discarded()) return InvalidArgument("not well-formed JSON (or not UTF-8)");
  if (!json.is_object()) return InvalidArgument("not a JSON object like {\"text\": \"...\"}");
  return json;
}

Result<const Json*> Field(const Json& object, const std::string& name) {
  const auto field = object.find(name);
  if (field == object.end()) return InvalidArgument("no field \"" + name + "\"");
  return &*field;
}

Result<std::string> TextField(const Json& object, const std::string& name) {
  SHOAL_ASSIGN_OR_RETURN(const Json* field, Field(object, name));
  if (!field->is_string()) return InvalidArgument("its field \"" + name + "\" is not a string");
  return field->get<std::string>();
}

Status TakeMessages(const Json& object, const std::string& name, std::vector<ChatValue>* messages) {
  SHOAL_ASSIGN_OR_RETURN(const Json* field, Field(object, name));
  if (!field->is_array()) {
    return InvalidArgument("its field \"" + name + "\" is not a list of messages");
  }
  auto parsed = ParseMessages(field->dump());
  if (!parsed.ok()) return parsed.status().WithContext("its field \"" + name + "\"");
  for (ChatValue& message : *parsed) messages->push_back(std::move(message));
  return Status::Ok();
}

Status TakeTools(const Json& object, RawSample* sample) {
  const auto tools = object.find(kTools);
  if (tools == object.end() || tools->is_null()) return Status::Ok();
  // ShareGPT's tools may be JSON in a text.
  const bool text = tools->is_string() && object.contains(kConversations);
  if (text && tools->get_ref<const std::string&>().empty()) return Status::Ok();
  auto value = ParseChatValue(text ? tools->get<std::string>() : tools->dump());
  if (!value.ok()) return value.status().WithContext("its field \"tools\"");
  sample->variables.emplace(kTools, std::move(*value));
  return Status::Ok();
}

Result<ChatValue> ShareGptMessage(const Json& message) {
  if (!message.is_object()) return InvalidArgument("is no object with \"from\" and \"value\"");
  for (const char* name : {"from", "value"}) {
    if (!message.contains(name) || !message[name].is_string()) {
      return InvalidArgument(std::string("has no text \"") + name + "\"");
    }
  }
  const auto from = message["from"].get<std::string>();
  for (const auto& [name, role] : kRoles) {
    if (from == name) {
      return ChatValue::Message(role, message["value"].get_ref<const std::string&>());
    }
  }
  return InvalidArgument("is from \"" + CleanText(from, kShownBytes) +
                         "\"; known are human, gpt, system and tool");
}

// {"conversations": [{"from", "value"}, ...]}, perhaps with "system"; some have role and content.
Status TakeShareGpt(const Json& object, std::vector<ChatValue>* messages) {
  const Json& list = object[kConversations];
  if (list.is_array() && !list.empty() && list[0].is_object() && list[0].contains("role")) {
    return TakeMessages(object, kConversations, messages);
  }
  if (!list.is_array()) {
    return InvalidArgument("its field \"conversations\" is not a list of messages");
  }
  const auto system = object.find(kSystem);
  if (system != object.end() && !system->is_null()) {
    SHOAL_ASSIGN_OR_RETURN(const std::string text, TextField(object, kSystem));
    if (!text.empty()) messages->push_back(ChatValue::Message("system", text));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto message = ShareGptMessage(list[i]);
    if (!message.ok()) {
      return InvalidArgument("message " + std::to_string(i) + " of its field \"conversations\" " +
                             message.status().message());
    }
    messages->push_back(std::move(*message));
  }
  return Status::Ok();
}

bool IsAssistant(const ChatValue& message) {
  const ChatValue* role = message.dict() == nullptr ? nullptr : message.dict()->Find("role");
  return role != nullptr && role->string() != nullptr && *role->string() == "assistant";
}

// Whether prompt and completion are lists of messages.
bool IsChatCompletion(const Json& object) {
  return object.contains(kPrompt) && object.contains(kCompletion) && object[kPrompt].is_array();
}

Status TakeConversation(const Json& object, RawSample* sample) {
  SHOAL_RETURN_IF_ERROR(TakeTools(object, sample));
  if (!object.contains(kMessages) && object.contains(kConversations)) {
    return TakeShareGpt(object, &sample->messages);
  }
  if (object.contains(kMessages) || !IsChatCompletion(object)) {
    return TakeMessages(object, kMessages, &sample->messages);
  }
  SHOAL_RETURN_IF_ERROR(TakeMessages(object, kPrompt, &sample->messages));
  for (const ChatValue& message : sample->messages) sample->prompt_answers += IsAssistant(message);
  return TakeMessages(object, kCompletion, &sample->messages);
}

Status TakeLabel(const Json& object, const std::string& name, std::string* label) {
  SHOAL_ASSIGN_OR_RETURN(const Json* field, Field(object, name));
  if (field->is_string()) {
    *label = field->get<std::string>();
  } else if (field->is_boolean() || field->is_number()) {
    *label = field->dump();
  } else {
    return InvalidArgument("its field \"" + name + "\" is neither a number nor a name");
  }
  return Status::Ok();
}

Status TakePair(const Json& object, const SampleColumns& columns,
                std::optional<std::string>* pair) {
  const bool found = columns.text.empty() && object.contains(kPair) && !object[kPair].is_null();
  if (columns.pair.empty() && !found) return Status::Ok();
  SHOAL_ASSIGN_OR_RETURN(*pair, TextField(object, OrElse(columns.pair, kPair)));
  return Status::Ok();
}

}  // namespace

std::string_view NameOf(SampleForm form) {
  switch (form) {
    case SampleForm::kDocument: return "running text";
    case SampleForm::kCompletion: return "prompts and completions";
    case SampleForm::kConversation: return "conversations";
    case SampleForm::kClass: break;
  }
  return "labelled texts";
}

Result<SampleForm> FormOfObject(std::string_view json, const SampleColumns& columns) {
  SHOAL_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  if (columns.any()) return SampleForm::kClass;
  if (object.contains(kMessages) || object.contains(kConversations)) {
    return SampleForm::kConversation;
  }
  if (IsChatCompletion(object)) return SampleForm::kConversation;
  if (object.contains(kPrompt) && object.contains(kCompletion)) return SampleForm::kCompletion;
  if (object.contains(kText) && object.contains(kLabel)) return SampleForm::kClass;
  if (object.contains(kText)) return SampleForm::kDocument;
  std::string names;
  for (const auto& [name, value] : object.items()) {
    names += (names.empty() ? "\"" : ", \"") + name + "\"";
    if (names.size() > 200) break;  // enough to see what it is
  }
  return InvalidArgument(
      "no field \"text\", \"messages\", \"conversations\", or \"prompt\" and \"completion\", but " +
      (names.empty() ? "nothing" : names));
}

Result<RawSample> ParseSample(std::string_view json, SampleForm form,
                              const SampleColumns& columns) {
  SHOAL_ASSIGN_OR_RETURN(const Json object, ParseObject(json));
  RawSample sample;
  sample.form = form;
  switch (form) {
    case SampleForm::kConversation: SHOAL_RETURN_IF_ERROR(TakeConversation(object, &sample)); break;
    case SampleForm::kCompletion: {
      SHOAL_ASSIGN_OR_RETURN(sample.text, TextField(object, kPrompt));
      SHOAL_ASSIGN_OR_RETURN(sample.completion, TextField(object, kCompletion));
      break;
    }
    case SampleForm::kClass:
      SHOAL_RETURN_IF_ERROR(TakeLabel(object, OrElse(columns.label, kLabel), &sample.label));
      SHOAL_RETURN_IF_ERROR(TakePair(object, columns, &sample.pair));
      [[fallthrough]];
    case SampleForm::kDocument: {
      const bool own = form == SampleForm::kClass;
      SHOAL_ASSIGN_OR_RETURN(sample.text,
                             TextField(object, own ? OrElse(columns.text, kText) : kText));
      break;
    }
  }
  return sample;
}

}  // namespace shoal::dataset
