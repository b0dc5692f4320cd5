// Filters and methods of values: functions with named parameters.

#ifndef SHOAL_DATASET_CHAT_NATIVE_FUNCTION_H_
#define SHOAL_DATASET_CHAT_NATIVE_FUNCTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "dataset/chat/chat_value.h"
#include "dataset/chat/chat_work.h"

namespace shoal::dataset {

struct CallArguments {
  std::vector<ChatValue> positional;
  std::vector<std::pair<std::string, ChatValue>> named;
};

// One for each parameter; null where the call has none.
using BoundArguments = std::span<const ChatValue* const>;

inline constexpr std::size_t kNativeParametersMax = 5;

struct NativeFunction {
  std::string_view name;
  std::array<std::string_view, kNativeParametersMax> parameters;  // "" behind the last one
  std::size_t required;  // as many of the first must be there
  Result<ChatValue> (*run)(const ChatValue& self, BoundArguments arguments, ChatWork* work);
};

// Null: there is none of this name.
const NativeFunction* FindNative(std::span<const NativeFunction> functions, std::string_view name);

// Arguments that do not fit are an error.
Result<ChatValue> CallNative(const NativeFunction& function, const ChatValue& self,
                             const CallArguments& arguments, ChatWork* work);

// Arguments as one kind of value, or an error that says what was expected; `otherwise` where the
// call has none. A text refers to `argument`, or to `otherwise`.
Result<std::string_view> TextArgument(const ChatValue* argument, std::string_view otherwise = "");
Result<std::int64_t> WholeArgument(const ChatValue* argument, std::int64_t otherwise);
bool FlagArgument(const ChatValue* argument, bool otherwise);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_NATIVE_FUNCTION_H_
