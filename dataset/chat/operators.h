// Operators of Python on values: arithmetic, indices, slices, attributes.

#ifndef SHOAL_DATASET_CHAT_OPERATORS_H_
#define SHOAL_DATASET_CHAT_OPERATORS_H_

#include <string_view>

#include "common/status.h"
#include "dataset/chat/chat_value.h"
#include "dataset/chat/chat_work.h"
#include "dataset/chat/template_syntax.h"

namespace shoal::dataset {

// Whole numbers beyond 64 bits are an error.
Result<ChatValue> Calculate(Arithmetic operation, const ChatValue& a, const ChatValue& b,
                            ChatWork* work);
Result<ChatValue> Negated(const ChatValue& value);

// value[key]; undefined where there is none. An undefined value is an error. A namespace is not
// known here.
Result<ChatValue> GetItem(const ChatValue& value, const ChatValue& key, ChatWork* work);
// value.name: methods come before keys, as in Python.
Result<ChatValue> GetAttribute(const ChatValue& value, std::string_view name, ChatWork* work);
// value[begin:end:step], each a whole number or None.
Result<ChatValue> GetSlice(const ChatValue& value, const ChatValue& begin, const ChatValue& end,
                           const ChatValue& step, ChatWork* work);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_OPERATORS_H_
