// ChatValue: what a chat template computes with, as plain data. Messages, tools and template
// variables come in as this.
//
// Values do not change once they are made, but for namespaces, which belong to one rendering. All
// strings are well-formed UTF-8. Containers know how deep they nest and are never deeper than
// kChatDepthMax, so that printing and freeing them needs little stack.

#ifndef SHOAL_DATASET_CHAT_CHAT_VALUE_H_
#define SHOAL_DATASET_CHAT_CHAT_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/status.h"

namespace shoal::dataset {

// How deep containers nest in a value, from JSON or made by a template.
inline constexpr std::size_t kChatDepthMax = 64;

class ChatValue;

enum class SequenceKind : std::uint8_t {
  kList,
  kTuple,
  kRange,  // what range() gives
  kView,   // keys(), values() and items() of a dictionary: no index
};

struct ChatSequence;
struct ChatDict;
struct ChatGenerator;
struct ChatLoop;
struct ChatMethod;

// Python's `undefined` of Jinja; `name` is what was looked for, an index into a template's names.
struct ChatUndefined {
  std::int32_t name = -1;
};
// A namespace, a macro or a function of a rendering, by its number there.
struct ChatNamespace {
  std::int32_t index = 0;
};
struct ChatMacro {
  std::int32_t index = 0;
};
struct ChatFunction {
  std::int32_t index = 0;
};
struct ChatNone {};

class ChatValue {
 public:
  using String = std::shared_ptr<const std::string>;
  using Data =
      std::variant<ChatNone, ChatUndefined, bool, std::int64_t, double, String,
                   std::shared_ptr<const ChatSequence>, std::shared_ptr<const ChatDict>,
                   std::shared_ptr<ChatGenerator>, std::shared_ptr<const ChatLoop>,
                   std::shared_ptr<const ChatMethod>, ChatNamespace, ChatMacro, ChatFunction>;

  ChatValue() = default;                           // None
  ChatValue(bool value) : data_(value) {}          // NOLINT: implicit on purpose
  ChatValue(std::int64_t value) : data_(value) {}  // NOLINT
  ChatValue(double value) : data_(value) {}        // NOLINT
  ChatValue(std::string value)                     // NOLINT
      : data_(std::make_shared<const std::string>(std::move(value))) {}
  ChatValue(std::string_view value) : ChatValue(std::string(value)) {}  // NOLINT
  ChatValue(const char* value) : ChatValue(std::string(value)) {}       // NOLINT
  explicit ChatValue(Data data) : data_(std::move(data)) {}

  static ChatValue Undefined(std::int32_t name) { return ChatValue(Data(ChatUndefined{name})); }
  // The caller has checked that DepthOf the items is below kChatDepthMax.
  static ChatValue Sequence(SequenceKind kind, std::vector<ChatValue> items);
  // Keys are all different; strings, numbers, booleans or None.
  static ChatValue Dict(std::vector<std::pair<ChatValue, ChatValue>> items);
  // A message of a conversation.
  static ChatValue Message(std::string_view role, std::string_view content);

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&data_);
  }
  bool is_none() const { return As<ChatNone>() != nullptr; }
  bool is_undefined() const { return As<ChatUndefined>() != nullptr; }
  // Null where the value is none of that kind.
  const std::string* string() const;
  const ChatSequence* sequence() const;
  const ChatDict* dict() const;
  // How deep it nests: 0 for what is no container.
  std::size_t depth() const;

 private:
  Data data_;
};

struct ChatSequence {
  SequenceKind kind = SequenceKind::kList;
  std::size_t depth = 1;
  std::vector<ChatValue> items;
};

struct ChatDict {
  std::size_t depth = 1;
  std::vector<std::pair<ChatValue, ChatValue>> items;  // in the order of insertion

  // The value of a key that is a string; null: there is none.
  const ChatValue* Find(std::string_view key) const;
};

// What filters such as map and select give: it can be walked over once.
struct ChatGenerator {
  std::size_t depth = 1;
  std::vector<ChatValue> items;
  std::size_t next = 0;
};

// The variable `loop`. The rendering that made it moves `index`.
struct ChatLoop {
  std::size_t depth = 1;
  std::vector<ChatValue> items;
  std::size_t index = 0;
};

// A method that was looked up, and is perhaps called.
struct ChatMethod {
  std::size_t depth = 1;
  ChatValue self;
  std::string name;
};

// The value of a JSON text, with keys in their order; of equal keys the last counts. Refused: what
// is no JSON, what nests deeper than kChatDepthMax, whole numbers beyond 64 bits.
Result<ChatValue> ParseChatValue(std::string_view json);

// The messages of a conversation: a JSON array of objects, each with a string "role". All keys are
// kept. An invalid argument says what is wrong, and with which message (from 0).
Result<std::vector<ChatValue>> ParseMessages(std::string_view json);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_CHAT_VALUE_H_
