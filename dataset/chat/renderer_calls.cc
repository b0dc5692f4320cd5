// TemplateRenderer's calls of macros and of its own functions.

#include <algorithm>

#include "common/text.h"
#include "dataset/chat/date_text.h"
#include "dataset/chat/python_values.h"
#include "dataset/chat/template_parser.h"
#include "dataset/chat/template_renderer.h"

namespace shoal::dataset {
namespace {

// Of a message that a template raises.
constexpr std::size_t kRaisedBytesMax = 1000;

// Of the numbers that range() takes, so that nothing overflows.
constexpr std::int64_t kRangeNumberMax = std::int64_t{1} << 60;

std::int64_t CountOfRange(std::int64_t begin, std::int64_t end, std::int64_t step) {
  const std::int64_t distance = end - begin;
  if (distance == 0 || (distance < 0) != (step < 0)) return 0;
  return distance / step + (distance % step != 0 ? 1 : 0);
}

}  // namespace

Result<ChatValue> TemplateRenderer::CallMacro(const Macro& macro, const CallArguments& arguments) {
  if (depth_ >= kRenderDepthMax) return ResourceExhausted("calls and tags nest too deep");
  const std::string called(NameOf(macro.name));
  std::string text;
  std::string* const outside_text = std::exchange(out_, &text);
  const Scope outside = EnterScope();
  scope_.frame_base = scope_.begin;
  const Status bound = BindParameters(macro, arguments);
  if (!bound.ok()) return bound.WithContext("macro '" + called + "'");
  SHOAL_RETURN_IF_ERROR(ExecuteAll(macro.body));
  LeaveScope(outside);
  out_ = outside_text;
  return ChatValue(std::move(text));
}

Status TemplateRenderer::BindParameters(const Macro& macro, const CallArguments& arguments) {
  if (arguments.positional.size() > macro.parameters.size()) {
    return FailedPrecondition("it takes at most " + std::to_string(macro.parameters.size()) +
                              " arguments");
  }
  for (const auto& [name, value] : arguments.named) {
    const auto found =
        std::find_if(macro.parameters.begin(), macro.parameters.end(),
                     [&, wanted = std::string_view(name)](const MacroParameter& parameter) {
                       return NameOf(parameter.name) == wanted;
                     });
    if (found == macro.parameters.end()) {
      return FailedPrecondition("it has no parameter '" + name + "'");
    }
    if (static_cast<std::size_t>(found - macro.parameters.begin()) < arguments.positional.size()) {
      return FailedPrecondition("it gets '" + name + "' twice");
    }
  }
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const MacroParameter& parameter = macro.parameters[i];
    ChatValue value = ChatValue::Undefined(parameter.name);
    if (i < arguments.positional.size()) {
      value = arguments.positional[i];
    } else if (parameter.otherwise != kNoNode) {
      SHOAL_ASSIGN_OR_RETURN(value, Evaluate(parameter.otherwise));
    }
    for (const auto& [name, given] : arguments.named) {
      if (name == NameOf(parameter.name)) value = given;
    }
    SetVariable(parameter.name, std::move(value));
  }
  return Status::Ok();
}

Result<ChatValue> TemplateRenderer::CallFunction(std::int32_t index,
                                                 const CallArguments& arguments) {
  const std::string_view name = kFunctionNames[index];
  if (name == "raise_exception") return Raise(arguments);
  if (name == "namespace") return Namespace(arguments);
  if (name == "range") return Range(arguments);
  if (name == "strftime_now") return Today(arguments);
  SHOAL_ASSIGN_OR_RETURN(auto items, Pairs(arguments));
  return MakeDict(std::move(items), &work_);
}

Result<ChatValue> TemplateRenderer::Raise(const CallArguments& arguments) {
  std::string message;
  if (!arguments.positional.empty()) {
    SHOAL_ASSIGN_OR_RETURN(message, TextOf(arguments.positional[0], &work_));
  } else if (!arguments.named.empty()) {
    SHOAL_ASSIGN_OR_RETURN(message, TextOf(arguments.named[0].second, &work_));
  }
  return FailedPrecondition("the template refuses the conversation: " +
                            CleanText(message, kRaisedBytesMax));
}

// What dict() and namespace() are made of: a dict, perhaps, and named arguments.
Result<std::vector<std::pair<ChatValue, ChatValue>>> TemplateRenderer::Pairs(
    const CallArguments& arguments) {
  std::vector<std::pair<ChatValue, ChatValue>> items;
  if (arguments.positional.size() > 1) return FailedPrecondition("one dict at most is expected");
  if (!arguments.positional.empty()) {
    const ChatDict* dict = arguments.positional[0].dict();
    if (dict == nullptr) {
      return FailedPrecondition("a dict is expected, not a " +
                                std::string(TypeName(arguments.positional[0])));
    }
    SHOAL_RETURN_IF_ERROR(work_.Make(dict->items.size() * 2 * sizeof(ChatValue)));
    items = dict->items;
  }
  for (const auto& [name, value] : arguments.named) {
    SHOAL_RETURN_IF_ERROR(work_.Step(1 + items.size()));
    const auto found = std::find_if(
        items.begin(), items.end(), [&, wanted = std::string_view(name)](const auto& item) {
          return item.first.string() != nullptr && *item.first.string() == wanted;
        });
    if (found == items.end()) {
      items.emplace_back(ChatValue(name), value);
    } else {
      found->second = value;
    }
  }
  return items;
}

Result<ChatValue> TemplateRenderer::Namespace(const CallArguments& arguments) {
  SHOAL_ASSIGN_OR_RETURN(auto items, Pairs(arguments));
  Attributes attributes;
  for (auto& [key, value] : items) {
    const std::string* name = key.string();
    if (name == nullptr || name->starts_with("_")) {
      return FailedPrecondition("an attribute of a namespace is a name without '_' before it");
    }
    attributes.emplace_back(*name, std::move(value));
  }
  SHOAL_RETURN_IF_ERROR(work_.Make(sizeof(Attributes)));
  namespaces_.push_back(std::move(attributes));
  return ChatValue(
      ChatValue::Data(ChatNamespace{static_cast<std::int32_t>(namespaces_.size() - 1)}));
}

Result<ChatValue> TemplateRenderer::Range(const CallArguments& arguments) {
  const auto& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty()) {
    return FailedPrecondition("range() takes one to three whole numbers");
  }
  std::int64_t numbers[3] = {0, 0, 1};  // begin, end, step
  for (std::size_t i = 0; i < given.size(); ++i) {
    SHOAL_RETURN_IF_ERROR(CheckDefined(given[i]));
    SHOAL_ASSIGN_OR_RETURN(numbers[given.size() == 1 ? 1 : i], WholeArgument(&given[i], 0));
  }
  for (const std::int64_t number : numbers) {
    if (number < -kRangeNumberMax || number > kRangeNumberMax) {
      return FailedPrecondition("a number of range() is too large");
    }
  }
  const auto [begin, end, step] = numbers;
  if (step == 0) return FailedPrecondition("the step of range() is 0");
  const std::int64_t count = CountOfRange(begin, end, step);
  if (count > kRangeMax) {
    return ResourceExhausted("range() gives more than " + std::to_string(kRangeMax) + " numbers");
  }
  std::vector<ChatValue> items;
  for (std::int64_t i = 0; i < count; ++i) items.emplace_back(begin + i * step);
  return MakeSequence(SequenceKind::kRange, std::move(items), &work_);
}

Result<ChatValue> TemplateRenderer::Today(const CallArguments& arguments) {
  if (arguments.positional.size() != 1) return FailedPrecondition("strftime_now() takes a format");
  SHOAL_ASSIGN_OR_RETURN(const std::string_view format, TextArgument(&arguments.positional[0]));
  if (!now_) return FailedPrecondition("the template asks for the date, and none is given");
  SHOAL_RETURN_IF_ERROR(work_.Read(format.size()));
  SHOAL_ASSIGN_OR_RETURN(std::string text, DateText(*now_, format));
  return MakeString(std::move(text), &work_);
}

}  // namespace shoal::dataset
