#include "dataset/chat/native_function.h"

#include <algorithm>
#include <optional>

#include "dataset/chat/python_values.h"

namespace shoal::dataset {
namespace {

Status BadCall(const NativeFunction& function, const std::string& problem) {
  return FailedPrecondition(std::string(function.name) + "() " + problem);
}

}  // namespace

const NativeFunction* FindNative(std::span<const NativeFunction> functions, std::string_view name) {
  const auto found = std::find_if(functions.begin(), functions.end(),
                                  [&](const NativeFunction& each) { return each.name == name; });
  return found == functions.end() ? nullptr : &*found;
}

Result<ChatValue> CallNative(const NativeFunction& function, const ChatValue& self,
                             const CallArguments& arguments, ChatWork* work) {
  std::array<const ChatValue*, kNativeParametersMax> bound = {};
  const auto count = static_cast<std::size_t>(
      std::find(function.parameters.begin(), function.parameters.end(), std::string_view()) -
      function.parameters.begin());
  if (arguments.positional.size() > count) {
    return BadCall(function, "takes at most " + std::to_string(count) + " arguments here");
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto begin = function.parameters.begin();
    const auto end = begin + static_cast<std::ptrdiff_t>(count);
    const auto found = std::find(begin, end, name);
    if (found == end) return BadCall(function, "has no argument '" + name + "' here");
    const ChatValue*& place = bound[static_cast<std::size_t>(found - begin)];
    if (place != nullptr) return BadCall(function, "gets its argument '" + name + "' twice");
    place = &value;
  }
  for (std::size_t i = 0; i < function.required; ++i) {
    if (bound[i] == nullptr) {
      return BadCall(function, "misses its argument '" + std::string(function.parameters[i]) + "'");
    }
  }
  if (const std::string* text = self.string()) SHOAL_RETURN_IF_ERROR(work->Read(text->size()));
  return function.run(self, bound, work);
}

Result<std::string_view> TextArgument(const ChatValue* argument, std::string_view otherwise) {
  if (argument == nullptr) return otherwise;
  if (const std::string* text = argument->string()) return std::string_view(*text);
  return FailedPrecondition("a str is expected, not a " + std::string(TypeName(*argument)));
}

Result<std::int64_t> WholeArgument(const ChatValue* argument, std::int64_t otherwise) {
  if (argument == nullptr) return otherwise;
  if (const auto whole = WholeNumber(*argument)) return *whole;
  return FailedPrecondition("an int is expected, not a " + std::string(TypeName(*argument)));
}

bool FlagArgument(const ChatValue* argument, bool otherwise) {
  return argument == nullptr ? otherwise : IsTrue(*argument);
}

}  // namespace shoal::dataset
