#include "dataset/chat/value_tests.h"

#include <cstdint>
#include <memory>
#include <string>

#include "dataset/chat/characters.h"
#include "dataset/chat/operators.h"
#include "dataset/chat/python_values.h"

namespace shoal::dataset {
namespace {

using Value = ChatValue;

template <bool (*holds)(const Value&)>
Result<Value> Plain(const Value& self, BoundArguments, ChatWork*) {
  return Value(holds(self));
}

bool IsDefined(const Value& value) { return !value.is_undefined(); }
bool IsNotDefined(const Value& value) { return value.is_undefined(); }
bool IsNone(const Value& value) { return value.is_none(); }
bool IsString(const Value& value) { return value.string() != nullptr; }
bool IsMapping(const Value& value) { return value.dict() != nullptr; }
bool IsBoolean(const Value& value) { return value.As<bool>() != nullptr; }
bool IsInteger(const Value& value) { return value.As<std::int64_t>() != nullptr; }
bool IsFloat(const Value& value) { return value.As<double>() != nullptr; }
bool IsNumber(const Value& value) { return AnyNumber(value).has_value(); }
bool IsTheTrue(const Value& value) { return IsBoolean(value) && *value.As<bool>(); }
bool IsTheFalse(const Value& value) { return IsBoolean(value) && !*value.As<bool>(); }

bool IsSequence(const Value& value) {
  if (value.sequence() != nullptr) return value.sequence()->kind != SequenceKind::kView;
  return IsString(value) || IsMapping(value) || value.is_undefined();
}
bool IsIterable(const Value& value) {
  return value.sequence() != nullptr || IsString(value) || IsMapping(value) ||
         value.is_undefined() || value.As<std::shared_ptr<ChatGenerator>>() != nullptr ||
         value.As<std::shared_ptr<const ChatLoop>>() != nullptr;
}
// An undefined value has a call, too, which fails.
bool IsCallable(const Value& value) {
  return value.As<ChatMacro>() != nullptr || value.As<ChatFunction>() != nullptr ||
         value.As<std::shared_ptr<const ChatMethod>>() != nullptr || value.is_undefined();
}

template <bool equal>
Result<Value> Equal(const Value& self, BoundArguments arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const bool same, AreEqual(self, *arguments[0], work));
  return Value(same == equal);
}

// Whether the order of the two is the one or the other.
template <int one, int other>
Result<Value> Ordered(const Value& self, BoundArguments arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const int order, Order(self, *arguments[0], work));
  return Value(order == one || order == other);
}

Result<Value> In(const Value& self, BoundArguments arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const bool found, Contains(*arguments[0], self, work));
  return Value(found);
}

// `value % by == rest`.
Result<Value> HasRest(const Value& self, const Value& by, std::int64_t rest, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const Value found, Calculate(Arithmetic::kModulo, self, by, work));
  SHOAL_ASSIGN_OR_RETURN(const bool equal, AreEqual(found, Value(rest), work));
  return Value(equal);
}

template <std::int64_t rest>
Result<Value> HalfRest(const Value& self, BoundArguments, ChatWork* work) {
  return HasRest(self, Value(std::int64_t{2}), rest, work);
}
Result<Value> Divisible(const Value& self, BoundArguments arguments, ChatWork* work) {
  return HasRest(self, *arguments[0], 0, work);
}

// Whether all letters are of one case, and there are some: islower() and isupper() of str().
template <std::string (*change)(std::string_view), std::string (*opposite)(std::string_view)>
Result<Value> Case(const Value& self, BoundArguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const std::string text, TextOf(self, work));
  return Value(change(text) == text && opposite(text) != text);
}

constexpr NativeFunction kTests[] = {
    {"defined", {}, 0, Plain<IsDefined>},
    {"undefined", {}, 0, Plain<IsNotDefined>},
    {"none", {}, 0, Plain<IsNone>},
    {"string", {}, 0, Plain<IsString>},
    {"mapping", {}, 0, Plain<IsMapping>},
    {"sequence", {}, 0, Plain<IsSequence>},
    {"iterable", {}, 0, Plain<IsIterable>},
    {"callable", {}, 0, Plain<IsCallable>},
    {"boolean", {}, 0, Plain<IsBoolean>},
    {"integer", {}, 0, Plain<IsInteger>},
    {"float", {}, 0, Plain<IsFloat>},
    {"number", {}, 0, Plain<IsNumber>},
    {"true", {}, 0, Plain<IsTheTrue>},
    {"false", {}, 0, Plain<IsTheFalse>},
    {"eq", {"other"}, 1, Equal<true>},
    {"equalto", {"other"}, 1, Equal<true>},
    {"==", {"other"}, 1, Equal<true>},
    {"ne", {"other"}, 1, Equal<false>},
    {"!=", {"other"}, 1, Equal<false>},
    {"lt", {"other"}, 1, Ordered<-1, -1>},
    {"lessthan", {"other"}, 1, Ordered<-1, -1>},
    {"<", {"other"}, 1, Ordered<-1, -1>},
    {"le", {"other"}, 1, Ordered<-1, 0>},
    {"<=", {"other"}, 1, Ordered<-1, 0>},
    {"gt", {"other"}, 1, Ordered<1, 1>},
    {"greaterthan", {"other"}, 1, Ordered<1, 1>},
    {">", {"other"}, 1, Ordered<1, 1>},
    {"ge", {"other"}, 1, Ordered<1, 0>},
    {">=", {"other"}, 1, Ordered<1, 0>},
    {"in", {"seq"}, 1, In},
    {"even", {}, 0, HalfRest<0>},
    {"odd", {}, 0, HalfRest<1>},
    {"divisibleby", {"num"}, 1, Divisible},
    {"lower", {}, 0, Case<LowerText, UpperText>},
    {"upper", {}, 0, Case<UpperText, LowerText>},
};

}  // namespace

const NativeFunction* FindTest(std::string_view name) { return FindNative(kTests, name); }

}  // namespace shoal::dataset
