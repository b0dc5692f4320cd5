#include "dataset/chat/chat_value.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "common/nesting.h"

namespace shoal::dataset {
namespace {

using Items = std::vector<std::pair<ChatValue, ChatValue>>;

// Of equal keys the last value, at the place of the first.
Items WithoutRepeats(Items items) {
  std::unordered_map<std::string_view, std::size_t> places;
  Items kept;
  kept.reserve(items.size());
  for (auto& item : items) {
    const auto [place, is_new] = places.emplace(*item.first.string(), kept.size());
    if (is_new) {
      kept.push_back(std::move(item));  // the key's letters stay where they are
    } else {
      kept[place->second].second = std::move(item.second);
    }
  }
  return kept;
}

// Builds a value from the events of nlohmann's parser, whose names these are.
class ValueBuilder {
 public:
  bool null() { return Add(ChatValue()); }
  bool boolean(bool value) { return Add(ChatValue(value)); }
  bool number_integer(std::int64_t value) { return Add(ChatValue(value)); }
  bool number_unsigned(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return Fail("a whole number beyond 64 bits");
    }
    return Add(ChatValue(static_cast<std::int64_t>(value)));
  }
  bool number_float(double value, const std::string& text) {
    if (text.find_first_of(".eE") == std::string::npos)
      return Fail("a whole number beyond 64 bits");
    return Add(ChatValue(value));
  }
  bool string(std::string& value) { return Add(ChatValue(std::move(value))); }
  bool binary(nlohmann::json::binary_t&) { return Fail("binary data"); }
  bool start_object(std::size_t) { return Open(true); }
  bool start_array(std::size_t) { return Open(false); }
  bool key(std::string& value) {
    open_.back().key = ChatValue(std::move(value));
    return true;
  }
  bool end_object() {
    Items items = WithoutRepeats(std::move(open_.back().items));
    open_.pop_back();
    return Add(ChatValue::Dict(std::move(items)));
  }
  bool end_array() {
    std::vector<ChatValue> values = std::move(open_.back().values);
    open_.pop_back();
    return Add(ChatValue::Sequence(SequenceKind::kList, std::move(values)));
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) {
    return Fail("not well-formed JSON (or not UTF-8)");
  }

  const std::string& problem() const { return problem_; }
  ChatValue Take() { return std::move(root_); }

 private:
  struct Container {
    bool is_object = false;
    ChatValue key;
    Items items;
    std::vector<ChatValue> values;
  };

  bool Open(bool is_object) {
    open_.emplace_back();
    open_.back().is_object = is_object;
    return true;
  }
  bool Add(ChatValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().items.emplace_back(std::move(open_.back().key), std::move(value));
    } else {
      open_.back().values.push_back(std::move(value));
    }
    return true;
  }
  bool Fail(const char* problem) {
    problem_ = problem;
    return false;
  }

  std::vector<Container> open_;
  ChatValue root_;
  std::string problem_;
};

template <typename T>
std::size_t DepthOf(const std::shared_ptr<T>* container) {
  return container == nullptr ? 0 : (*container)->depth;
}

}  // namespace

ChatValue ChatValue::Sequence(SequenceKind kind, std::vector<ChatValue> items) {
  auto sequence = std::make_shared<ChatSequence>();
  sequence->kind = kind;
  for (const ChatValue& item : items) {
    sequence->depth = std::max(sequence->depth, item.depth() + 1);
  }
  sequence->items = std::move(items);
  return ChatValue(Data(std::shared_ptr<const ChatSequence>(std::move(sequence))));
}

ChatValue ChatValue::Dict(std::vector<std::pair<ChatValue, ChatValue>> items) {
  auto dict = std::make_shared<ChatDict>();
  for (const auto& [key, value] : items) dict->depth = std::max(dict->depth, value.depth() + 1);
  dict->items = std::move(items);
  return ChatValue(Data(std::shared_ptr<const ChatDict>(std::move(dict))));
}

ChatValue ChatValue::Message(std::string_view role, std::string_view content) {
  Items items;
  items.emplace_back(ChatValue("role"), ChatValue(role));
  items.emplace_back(ChatValue("content"), ChatValue(content));
  return Dict(std::move(items));
}

const std::string* ChatValue::string() const {
  const String* found = As<String>();
  return found == nullptr ? nullptr : found->get();
}

const ChatSequence* ChatValue::sequence() const {
  const auto* found = As<std::shared_ptr<const ChatSequence>>();
  return found == nullptr ? nullptr : found->get();
}

const ChatDict* ChatValue::dict() const {
  const auto* found = As<std::shared_ptr<const ChatDict>>();
  return found == nullptr ? nullptr : found->get();
}

std::size_t ChatValue::depth() const {
  return DepthOf(As<std::shared_ptr<const ChatSequence>>()) +
         DepthOf(As<std::shared_ptr<const ChatDict>>()) +
         DepthOf(As<std::shared_ptr<ChatGenerator>>()) +
         DepthOf(As<std::shared_ptr<const ChatLoop>>()) +
         DepthOf(As<std::shared_ptr<const ChatMethod>>());
}

const ChatValue* ChatDict::Find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (const std::string* text = name.string(); text != nullptr && *text == key) return &value;
  }
  return nullptr;
}

Result<ChatValue> ParseChatValue(std::string_view json) {
  if (JsonNestsDeeper(json, kChatDepthMax)) {
    return InvalidArgument("JSON that nests deeper than " + std::to_string(kChatDepthMax));
  }
  ValueBuilder builder;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &builder)) {
    return InvalidArgument(builder.problem().empty() ? "not well-formed JSON (or not UTF-8)"
                                                     : builder.problem());
  }
  return builder.Take();
}

Result<std::vector<ChatValue>> ParseMessages(std::string_view json) {
  SHOAL_ASSIGN_OR_RETURN(const ChatValue root, ParseChatValue(json));
  const ChatSequence* messages = root.sequence();
  if (messages == nullptr) {
    return InvalidArgument(
        "not a list of messages like [{\"role\": \"user\", \"content\": \"...\"}]");
  }
  for (std::size_t i = 0; i < messages->items.size(); ++i) {
    const std::string which = "message " + std::to_string(i);
    const ChatDict* message = messages->items[i].dict();
    if (message == nullptr) return InvalidArgument(which + " is no object with a \"role\"");
    const ChatValue* role = message->Find("role");
    if (role == nullptr) return InvalidArgument(which + " has no \"role\"");
    if (role->string() == nullptr) {
      return InvalidArgument("the \"role\" of " + which + " is not a string");
    }
  }
  return messages->items;
}

}  // namespace shoal::dataset
