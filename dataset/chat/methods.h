// Methods of Python's str, dict, list and tuple that change nothing.

#ifndef SHOAL_DATASET_CHAT_METHODS_H_
#define SHOAL_DATASET_CHAT_METHODS_H_

#include <string>
#include <string_view>

#include "common/status.h"
#include "dataset/chat/chat_value.h"
#include "dataset/chat/native_function.h"

namespace shoal::dataset {

// Whether any kind of value has a method of this name.
bool IsMethod(std::string_view name);
// Whether Python has a method of this name that changes lists or dicts; the sandbox has none.
bool IsChangingMethod(std::string_view name);
// Null: this value has none of this name.
const NativeFunction* FindMethod(const ChatValue& self, std::string_view name);
// Whether Python's value of this kind has something of this name that is not among the methods.
bool IsUnsupportedMember(const ChatValue& self, std::string_view name);

// str.replace, the first `count` of them; below 0: all.
Result<std::string> ReplaceText(std::string_view text, std::string_view old, std::string_view with,
                                std::int64_t count, ChatWork* work);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_METHODS_H_
