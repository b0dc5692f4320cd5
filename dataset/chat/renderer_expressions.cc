// TemplateRenderer's expressions.

#include <algorithm>
#include <memory>

#include "dataset/chat/filters.h"
#include "dataset/chat/methods.h"
#include "dataset/chat/operators.h"
#include "dataset/chat/python_values.h"
#include "dataset/chat/template_renderer.h"
#include "dataset/chat/value_tests.h"

namespace shoal::dataset {

Result<ChatValue> TemplateRenderer::Evaluate(NodeId id) {
  const Expression& node = tree_.expressions[static_cast<std::size_t>(id)];
  SHOAL_RETURN_IF_ERROR(work_.Step());
  if (node.kind == ExpressionKind::kConstant) return node.constant;
  if (node.kind == ExpressionKind::kName) return Variable(node.name);
  if (depth_ >= kRenderDepthMax) return ResourceExhausted("calls and tags nest too deep");
  ++depth_;
  Result<ChatValue> value = EvaluateNode(node);
  --depth_;
  if (!value.ok() && error_line_ == 0) error_line_ = node.line;
  return value;
}

Result<ChatValue> TemplateRenderer::EvaluateNode(const Expression& node) {
  switch (node.kind) {
    case ExpressionKind::kList:
    case ExpressionKind::kTuple: return Container(node);
    case ExpressionKind::kDict: return Dict(node);
    case ExpressionKind::kConcat: return Concat(node);
    case ExpressionKind::kCompare: return Compare(node);
    case ExpressionKind::kCondition: return Condition(node);
    case ExpressionKind::kAttribute:
    case ExpressionKind::kItem: return Member(node);
    case ExpressionKind::kSlice: return Slice(node);
    case ExpressionKind::kCall: return Call(node);
    case ExpressionKind::kFilter: return Filter(node);
    case ExpressionKind::kTest: return Test(node);
    case ExpressionKind::kArithmetic: return Arithmetics(node);
    default: return EvaluateOperands(node);
  }
}

// Operators that are a line each.
Result<ChatValue> TemplateRenderer::EvaluateOperands(const Expression& node) {
  SHOAL_ASSIGN_OR_RETURN(ChatValue value, Evaluate(node.operands[0]));
  switch (node.kind) {
    case ExpressionKind::kNot: return ChatValue(!IsTrue(value));
    case ExpressionKind::kAnd: return IsTrue(value) ? Evaluate(node.operands[1]) : value;
    case ExpressionKind::kOr: return IsTrue(value) ? value : Evaluate(node.operands[1]);
    case ExpressionKind::kNegative:
      SHOAL_RETURN_IF_ERROR(CheckDefined(value));
      return Negated(value);
    default:
      SHOAL_RETURN_IF_ERROR(CheckDefined(value));
      if (!AnyNumber(value)) {
        return FailedPrecondition("'+' stands before a " + std::string(TypeName(value)));
      }
      if (const bool* flag = value.As<bool>()) return ChatValue(std::int64_t{*flag ? 1 : 0});
      return value;
  }
}

Result<ChatValue> TemplateRenderer::Arithmetics(const Expression& node) {
  SHOAL_ASSIGN_OR_RETURN(const ChatValue a, Evaluate(node.operands[0]));
  SHOAL_ASSIGN_OR_RETURN(const ChatValue b, Evaluate(node.operands[1]));
  SHOAL_RETURN_IF_ERROR(CheckDefined(a));
  SHOAL_RETURN_IF_ERROR(CheckDefined(b));
  return Calculate(node.arithmetic, a, b, &work_);
}

Result<ChatValue> TemplateRenderer::Concat(const Expression& node) {
  std::string text;
  for (const NodeId operand : node.operands) {
    SHOAL_ASSIGN_OR_RETURN(const ChatValue value, Evaluate(operand));
    SHOAL_ASSIGN_OR_RETURN(const std::string part, TextOf(value, &work_));
    text += part;
  }
  return MakeString(std::move(text), &work_);
}

Result<bool> TemplateRenderer::CompareOnce(Comparison comparison, const ChatValue& a,
                                           const ChatValue& b) {
  if (comparison == Comparison::kEqual) return AreEqual(a, b, &work_);
  if (comparison == Comparison::kIn) return Contains(b, a, &work_);
  if (comparison == Comparison::kNotEqual) {
    SHOAL_ASSIGN_OR_RETURN(const bool equal, AreEqual(a, b, &work_));
    return !equal;
  }
  if (comparison == Comparison::kNotIn) {
    SHOAL_ASSIGN_OR_RETURN(const bool found, Contains(b, a, &work_));
    return !found;
  }
  SHOAL_RETURN_IF_ERROR(CheckDefined(a));
  SHOAL_RETURN_IF_ERROR(CheckDefined(b));
  SHOAL_ASSIGN_OR_RETURN(const int order, Order(a, b, &work_));
  switch (comparison) {
    case Comparison::kLess: return order < 0;
    case Comparison::kLessEqual: return order <= 0;
    case Comparison::kGreater: return order > 0;
    default: return order >= 0;
  }
}

Result<ChatValue> TemplateRenderer::Compare(const Expression& node) {
  SHOAL_ASSIGN_OR_RETURN(ChatValue left, Evaluate(node.operands[0]));
  for (std::size_t i = 0; i < node.comparisons.size(); ++i) {
    SHOAL_ASSIGN_OR_RETURN(ChatValue right, Evaluate(node.operands[i + 1]));
    SHOAL_ASSIGN_OR_RETURN(const bool holds, CompareOnce(node.comparisons[i], left, right));
    if (!holds) return ChatValue(false);
    left = std::move(right);
  }
  return ChatValue(true);
}

Result<ChatValue> TemplateRenderer::Container(const Expression& node) {
  std::vector<ChatValue> items;
  for (const NodeId operand : node.operands) {
    SHOAL_ASSIGN_OR_RETURN(ChatValue item, Evaluate(operand));
    items.push_back(std::move(item));
  }
  const bool is_list = node.kind == ExpressionKind::kList;
  return MakeSequence(is_list ? SequenceKind::kList : SequenceKind::kTuple, std::move(items),
                      &work_);
}

Result<ChatValue> TemplateRenderer::Dict(const Expression& node) {
  std::vector<std::pair<ChatValue, ChatValue>> items;
  for (std::size_t i = 0; i < node.operands.size(); i += 2) {
    SHOAL_ASSIGN_OR_RETURN(ChatValue key, Evaluate(node.operands[i]));
    SHOAL_ASSIGN_OR_RETURN(ChatValue value, Evaluate(node.operands[i + 1]));
    bool repeated = false;
    for (auto& [known, old] : items) {
      SHOAL_ASSIGN_OR_RETURN(const bool equal, AreEqual(known, key, &work_));
      if (!equal) continue;
      old = value;
      repeated = true;
    }
    if (!repeated) items.emplace_back(std::move(key), std::move(value));
  }
  return MakeDict(std::move(items), &work_);
}

Result<ChatValue> TemplateRenderer::Condition(const Expression& node) {
  SHOAL_ASSIGN_OR_RETURN(const ChatValue condition, Evaluate(node.operands[1]));
  if (IsTrue(condition)) return Evaluate(node.operands[0]);
  return node.operands[2] == kNoNode ? ChatValue::Undefined(-1) : Evaluate(node.operands[2]);
}

Result<ChatValue> TemplateRenderer::Member(const Expression& node) {
  SHOAL_ASSIGN_OR_RETURN(const ChatValue value, Evaluate(node.operands[0]));
  SHOAL_RETURN_IF_ERROR(CheckDefined(value));
  if (const ChatNamespace* space = value.As<ChatNamespace>(); space != nullptr && node.name >= 0) {
    for (const auto& [name, attribute] : namespaces_[static_cast<std::size_t>(space->index)]) {
      if (name == NameOf(node.name)) return attribute;
    }
    return ChatValue::Undefined(node.name);
  }
  ChatValue member;
  if (node.kind == ExpressionKind::kAttribute) {
    SHOAL_ASSIGN_OR_RETURN(member, GetAttribute(value, NameOf(node.name), &work_));
  } else {
    SHOAL_ASSIGN_OR_RETURN(const ChatValue key, Evaluate(node.operands[1]));
    SHOAL_ASSIGN_OR_RETURN(member, GetItem(value, key, &work_));
  }
  return member.is_undefined() ? ChatValue::Undefined(node.name) : member;
}

Result<ChatValue> TemplateRenderer::Slice(const Expression& node) {
  ChatValue parts[4];  // a bound that is not there is None
  for (std::size_t i = 0; i < std::size(parts); ++i) {
    if (node.operands[i] == kNoNode) continue;
    SHOAL_ASSIGN_OR_RETURN(parts[i], Evaluate(node.operands[i]));
  }
  SHOAL_RETURN_IF_ERROR(CheckDefined(parts[0]));
  return GetSlice(parts[0], parts[1], parts[2], parts[3], &work_);
}

Result<CallArguments> TemplateRenderer::Arguments(const Expression& node) {
  CallArguments arguments;
  for (const Argument& argument : node.arguments) {
    SHOAL_ASSIGN_OR_RETURN(ChatValue value, Evaluate(argument.value));
    if (argument.name.empty()) {
      arguments.positional.push_back(std::move(value));
    } else {
      arguments.named.emplace_back(argument.name, std::move(value));
    }
  }
  return arguments;
}

Result<ChatValue> TemplateRenderer::Filter(const Expression& node) {
  SHOAL_ASSIGN_OR_RETURN(const ChatValue value, Evaluate(node.operands[0]));
  SHOAL_ASSIGN_OR_RETURN(const CallArguments arguments, Arguments(node));
  return ApplyFilter(NameOf(node.name), value, arguments, &work_);
}

Result<ChatValue> TemplateRenderer::Test(const Expression& node) {
  SHOAL_ASSIGN_OR_RETURN(const ChatValue value, Evaluate(node.operands[0]));
  SHOAL_ASSIGN_OR_RETURN(const CallArguments arguments, Arguments(node));
  return CallNative(*FindTest(NameOf(node.name)), value, arguments, &work_);
}

Result<ChatValue> TemplateRenderer::Call(const Expression& node) {
  SHOAL_ASSIGN_OR_RETURN(const ChatValue callee, Evaluate(node.operands[0]));
  SHOAL_RETURN_IF_ERROR(CheckDefined(callee));
  SHOAL_ASSIGN_OR_RETURN(const CallArguments arguments, Arguments(node));
  if (const auto* method = callee.As<std::shared_ptr<const ChatMethod>>()) {
    const NativeFunction* native = FindMethod((*method)->self, (*method)->name);
    SHOAL_CHECK(native != nullptr);
    return CallNative(*native, (*method)->self, arguments, &work_);
  }
  if (const ChatMacro* macro = callee.As<ChatMacro>()) {
    return CallMacro(tree_.macros[static_cast<std::size_t>(macro->index)], arguments);
  }
  if (const ChatFunction* function = callee.As<ChatFunction>()) {
    return CallFunction(function->index, arguments);
  }
  return FailedPrecondition("a " + std::string(TypeName(callee)) + " cannot be called");
}

}  // namespace shoal::dataset
