// What Python says of values: truth, equality, order, str(), repr() and json.dumps().

#ifndef SHOAL_DATASET_CHAT_PYTHON_VALUES_H_
#define SHOAL_DATASET_CHAT_PYTHON_VALUES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "dataset/chat/chat_value.h"
#include "dataset/chat/chat_work.h"

namespace shoal::dataset {

// The type's name for messages: "str", "dict".
std::string_view TypeName(const ChatValue& value);

bool IsTrue(const ChatValue& value);
// Whole numbers and booleans; what else: nothing.
std::optional<std::int64_t> WholeNumber(const ChatValue& value);
// These and floating point numbers.
std::optional<double> AnyNumber(const ChatValue& value);

Result<bool> AreEqual(const ChatValue& a, const ChatValue& b, ChatWork* work);
// Below 0: a < b; above 0: a > b. Values without an order are an error.
Result<int> Order(const ChatValue& a, const ChatValue& b, ChatWork* work);
// `value in container`.
Result<bool> Contains(const ChatValue& container, const ChatValue& value, ChatWork* work);
// The value under a key; null: none. A key that Python cannot hash is an error.
Result<const ChatValue*> Lookup(const ChatDict& dict, const ChatValue& key, ChatWork* work);

// What iterating over a value gives; of a generator what it has not yet given.
Result<std::vector<ChatValue>> Iterate(const ChatValue& value, ChatWork* work);

// Containers of values, refused where they nest too deep.
Result<ChatValue> MakeSequence(SequenceKind kind, std::vector<ChatValue> items, ChatWork* work);
Result<ChatValue> MakeDict(std::vector<std::pair<ChatValue, ChatValue>> items, ChatWork* work);
Result<ChatValue> MakeGenerator(std::vector<ChatValue> items, ChatWork* work);
Result<ChatValue> MakeString(std::string text, ChatWork* work);

// The error that use of an undefined value is.
Status UndefinedError(std::string_view name);

std::string FloatText(double value);
// str(); undefined is empty. Functions, generators and the like are errors.
Result<std::string> TextOf(const ChatValue& value, ChatWork* work);

struct JsonStyle {
  std::optional<std::string> indent;  // of one level; nothing: all in one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
  bool ensure_ascii = false;
};
Result<std::string> JsonText(const ChatValue& value, const JsonStyle& style, ChatWork* work);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_PYTHON_VALUES_H_
