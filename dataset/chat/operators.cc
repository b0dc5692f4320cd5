#include "dataset/chat/operators.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataset/chat/characters.h"
#include "dataset/chat/methods.h"
#include "dataset/chat/python_values.h"

namespace shoal::dataset {
namespace {

using Value = ChatValue;

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

Status TooLarge() { return FailedPrecondition("a whole number goes beyond 64 bits"); }

Status NoSuchOperation(Arithmetic operation, const Value& a, const Value& b) {
  if (operation == Arithmetic::kModulo && a.string() != nullptr) {
    return FailedPrecondition("formatting with '%' is not supported");
  }
  return FailedPrecondition("'" + std::string(kSymbols[static_cast<std::size_t>(operation)]) +
                            "' is not defined between " + std::string(TypeName(a)) + " and " +
                            std::string(TypeName(b)));
}

Result<Value> WholePower(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return TooLarge();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return TooLarge();
  }
  return Value(result);
}

Result<Value> OnWholes(Arithmetic operation, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (operation) {
    case Arithmetic::kAdd:
      return __builtin_add_overflow(a, b, &result) ? Result<Value>(TooLarge()) : Value(result);
    case Arithmetic::kSubtract:
      return __builtin_sub_overflow(a, b, &result) ? Result<Value>(TooLarge()) : Value(result);
    case Arithmetic::kMultiply:
      return __builtin_mul_overflow(a, b, &result) ? Result<Value>(TooLarge()) : Value(result);
    case Arithmetic::kPower:
      if (b < 0 && a == 0) return FailedPrecondition("division by zero");
      if (b < 0) return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
      return WholePower(a, b);
    default: break;
  }
  if (b == 0) return FailedPrecondition("division by zero");
  if (operation == Arithmetic::kDivide) {
    return Value(static_cast<double>(a) / static_cast<double>(b));
  }
  if (b == -1) {  // the smallest number has no opposite
    if (operation == Arithmetic::kModulo) return Value(std::int64_t{0});
    return __builtin_sub_overflow(0, a, &result) ? Result<Value>(TooLarge()) : Value(result);
  }
  const bool rounds_up = a % b != 0 && (a % b < 0) != (b < 0);
  if (operation == Arithmetic::kModulo) return Value(rounds_up ? a % b + b : a % b);
  return Value(rounds_up ? a / b - 1 : a / b);
}

double FloorModulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

Result<Value> OnNumbers(Arithmetic operation, double a, double b) {
  switch (operation) {
    case Arithmetic::kAdd: return Value(a + b);
    case Arithmetic::kSubtract: return Value(a - b);
    case Arithmetic::kMultiply: return Value(a * b);
    case Arithmetic::kPower: {
      const double result = std::pow(a, b);
      if (!std::isfinite(result) && std::isfinite(a) && std::isfinite(b)) {
        return FailedPrecondition("a power is too large or has no value");
      }
      return Value(result);
    }
    default: break;
  }
  if (b == 0) return FailedPrecondition("division by zero");
  if (operation == Arithmetic::kDivide) return Value(a / b);
  if (operation == Arithmetic::kModulo) return Value(FloorModulo(a, b));
  const double quotient = (a - FloorModulo(a, b)) / b;
  return Value(std::isfinite(quotient) ? std::round(quotient) : quotient);
}

// text * count and list * count.
Result<Value> Repeated(const Value& value, std::int64_t count, ChatWork* work) {
  const auto times = static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0));
  const std::string* text = value.string();
  const std::uint64_t each = text != nullptr ? text->size() : value.sequence()->items.size();
  if (each != 0 && times > work->limits().made_bytes / each) {
    return ResourceExhausted("a repeated value is too large");
  }
  SHOAL_RETURN_IF_ERROR(work->Make(each * times * (text != nullptr ? 1 : sizeof(Value))));
  if (text != nullptr) {
    std::string result;
    for (std::uint64_t i = 0; each != 0 && i < times; ++i) result += *text;
    return Value(std::move(result));
  }
  std::vector<Value> items;
  const std::vector<Value>& from = value.sequence()->items;
  for (std::uint64_t i = 0; each != 0 && i < times; ++i) {
    items.insert(items.end(), from.begin(), from.end());
  }
  return MakeSequence(value.sequence()->kind, std::move(items), work);
}

bool IsListOrTuple(const Value& value) {
  const ChatSequence* sequence = value.sequence();
  return sequence != nullptr &&
         (sequence->kind == SequenceKind::kList || sequence->kind == SequenceKind::kTuple);
}

Result<Value> Joined(const Value& a, const Value& b, ChatWork* work) {
  if (a.string() != nullptr && b.string() != nullptr) {
    SHOAL_RETURN_IF_ERROR(work->Make(a.string()->size() + b.string()->size()));
    return Value(*a.string() + *b.string());
  }
  if (!IsListOrTuple(a) || !IsListOrTuple(b) || a.sequence()->kind != b.sequence()->kind) {
    return NoSuchOperation(Arithmetic::kAdd, a, b);
  }
  SHOAL_RETURN_IF_ERROR(
      work->Make((a.sequence()->items.size() + b.sequence()->items.size()) * sizeof(Value)));
  std::vector<Value> items = a.sequence()->items;
  items.insert(items.end(), b.sequence()->items.begin(), b.sequence()->items.end());
  return MakeSequence(a.sequence()->kind, std::move(items), work);
}

// A part of `size` items, as slice.indices() of Python computes it.
struct Cut {
  std::int64_t begin = 0, end = 0, step = 1;
};

Result<std::optional<std::int64_t>> Bound(const Value& value) {
  if (value.is_none()) return std::optional<std::int64_t>();
  if (const auto whole = WholeNumber(value)) return std::optional<std::int64_t>(*whole);
  return FailedPrecondition("a slice needs whole numbers, not a " + std::string(TypeName(value)));
}

Result<Cut> CutOf(std::int64_t size, const Value& begin, const Value& end, const Value& step) {
  SHOAL_ASSIGN_OR_RETURN(const auto first, Bound(begin));
  SHOAL_ASSIGN_OR_RETURN(const auto last, Bound(end));
  SHOAL_ASSIGN_OR_RETURN(const auto stride, Bound(step));
  Cut cut;
  // No step is longer than a list, so that positions do not overflow.
  cut.step = std::clamp<std::int64_t>(stride.value_or(1), -size - 1, size + 1);
  if (cut.step == 0) return FailedPrecondition("the step of a slice is 0");
  const std::int64_t lowest = cut.step < 0 ? -1 : 0, highest = cut.step < 0 ? size - 1 : size;
  const auto place = [&](std::optional<std::int64_t> at, std::int64_t otherwise) {
    if (!at) return otherwise;
    const std::int64_t from_begin = *at < 0 ? std::max(*at, -size - 1) + size : *at;
    return std::clamp(from_begin, lowest, highest);
  };
  cut.begin = place(first, cut.step < 0 ? highest : lowest);
  cut.end = place(last, cut.step < 0 ? lowest : highest);
  return cut;
}

// Calls `each` with the positions of the part.
template <typename Each>
void ForEachOf(const Cut& cut, Each each) {
  for (std::int64_t at = cut.begin; cut.step > 0 ? at < cut.end : at > cut.end; at += cut.step) {
    each(static_cast<std::size_t>(at));
  }
}

// The position that an index means; nothing: behind the end or before the beginning.
std::optional<std::size_t> PlaceOf(std::int64_t index, std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  if (index < -length || index >= length) return std::nullopt;
  return static_cast<std::size_t>(index < 0 ? index + length : index);
}

Value Nothing() { return Value::Undefined(-1); }

Result<Value> CharacterOf(const std::string& text, std::int64_t index, ChatWork* work) {
  SHOAL_RETURN_IF_ERROR(work->Read(text.size()));
  const auto place = PlaceOf(index, CountCharacters(text));
  if (!place) return Nothing();
  const std::size_t at = ByteOfCharacter(text, *place);
  std::size_t bytes = 0;
  CharacterAtByte(text, at, &bytes);
  return Value(std::string_view(text).substr(at, bytes));
}

Result<Value> Method(const Value& self, std::string_view name) {
  if (self.depth() >= kChatDepthMax) return ResourceExhausted("values nest too deep");
  auto method = std::make_shared<ChatMethod>();
  method->depth = self.depth() + 1;
  method->self = self;
  method->name = name;
  return Value(Value::Data(std::shared_ptr<const ChatMethod>(std::move(method))));
}

// A member that is no key; undefined if there is none.
Result<Value> MemberOf(const Value& value, std::string_view name) {
  if (FindMethod(value, name) != nullptr) return Method(value, name);
  if (IsUnsupportedMember(value, name)) {
    return FailedPrecondition("'" + std::string(name) + "' of a " + std::string(TypeName(value)) +
                              " is not supported");
  }
  return Nothing();
}

Result<Value> LoopAttribute(const ChatLoop& loop, std::string_view name) {
  const auto index = static_cast<std::int64_t>(loop.index);
  const auto size = static_cast<std::int64_t>(loop.items.size());
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(size - index);
  if (name == "revindex0") return Value(size - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == size);
  if (name == "length") return Value(size);
  if (name == "depth") return Value(std::int64_t{1});  // of loops that call themselves
  if (name == "depth0") return Value(std::int64_t{0});
  if (name == "previtem") return loop.index > 0 ? loop.items[loop.index - 1] : Nothing();
  if (name == "nextitem") return index + 1 < size ? loop.items[loop.index + 1] : Nothing();
  if (name == "cycle" || name == "changed") {
    return FailedPrecondition("'loop." + std::string(name) + "' is not supported");
  }
  return Nothing();
}

}  // namespace

Result<ChatValue> Calculate(Arithmetic operation, const ChatValue& a, const ChatValue& b,
                            ChatWork* work) {
  const auto whole_a = WholeNumber(a), whole_b = WholeNumber(b);
  if (whole_a && whole_b) return OnWholes(operation, *whole_a, *whole_b);
  const auto number_a = AnyNumber(a), number_b = AnyNumber(b);
  if (number_a && number_b) return OnNumbers(operation, *number_a, *number_b);
  if (operation == Arithmetic::kAdd) return Joined(a, b, work);
  if (operation == Arithmetic::kMultiply) {
    if (whole_b && (a.string() != nullptr || IsListOrTuple(a))) return Repeated(a, *whole_b, work);
    if (whole_a && (b.string() != nullptr || IsListOrTuple(b))) return Repeated(b, *whole_a, work);
  }
  return NoSuchOperation(operation, a, b);
}

Result<ChatValue> Negated(const ChatValue& value) {
  if (const auto whole = WholeNumber(value)) return OnWholes(Arithmetic::kSubtract, 0, *whole);
  if (const double* number = value.As<double>()) return ChatValue(-*number);
  return FailedPrecondition("a " + std::string(TypeName(value)) + " has no negative");
}

Result<ChatValue> GetItem(const ChatValue& value, const ChatValue& key, ChatWork* work) {
  if (const ChatDict* dict = value.dict()) {
    const auto found = Lookup(*dict, key, work);
    if (found.ok() && *found != nullptr) return **found;
    if (!found.ok() && found.status().code() == StatusCode::kResourceExhausted) {
      return found.status();
    }
  }
  if (const auto index = WholeNumber(key)) {
    if (const std::string* text = value.string()) return CharacterOf(*text, *index, work);
    const ChatSequence* sequence = value.sequence();
    if (sequence == nullptr || sequence->kind == SequenceKind::kView) return Nothing();
    const auto place = PlaceOf(*index, sequence->items.size());
    return place ? sequence->items[*place] : Nothing();
  }
  const std::string* name = key.string();
  if (name == nullptr) return Nothing();
  if (const auto* loop = value.As<std::shared_ptr<const ChatLoop>>()) {
    return LoopAttribute(**loop, *name);
  }
  return MemberOf(value, *name);
}

Result<ChatValue> GetAttribute(const ChatValue& value, std::string_view name, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(ChatValue member, MemberOf(value, name));
  if (!member.is_undefined()) return member;
  if (value.dict() == nullptr && value.As<std::shared_ptr<const ChatLoop>>() == nullptr) {
    return member;
  }
  return GetItem(value, ChatValue(name), work);
}

Result<ChatValue> GetSlice(const ChatValue& value, const ChatValue& begin, const ChatValue& end,
                           const ChatValue& step, ChatWork* work) {
  if (const std::string* text = value.string()) {
    SHOAL_RETURN_IF_ERROR(work->Read(text->size()));
    std::vector<std::size_t> places;  // where characters begin, and the end
    SHOAL_RETURN_IF_ERROR(work->Make(text->size() * sizeof(std::size_t)));
    for (std::size_t at = 0, bytes = 0; at < text->size(); at += bytes) {
      places.push_back(at);
      CharacterAtByte(*text, at, &bytes);
    }
    SHOAL_ASSIGN_OR_RETURN(const Cut cut,
                           CutOf(static_cast<std::int64_t>(places.size()), begin, end, step));
    places.push_back(text->size());
    std::string part;
    ForEachOf(cut,
              [&](std::size_t i) { part.append(*text, places[i], places[i + 1] - places[i]); });
    return ChatValue(std::move(part));
  }
  const ChatSequence* sequence = value.sequence();
  if (sequence == nullptr || sequence->kind == SequenceKind::kView) {
    return FailedPrecondition("a " + std::string(TypeName(value)) + " has no slices");
  }
  SHOAL_ASSIGN_OR_RETURN(
      const Cut cut, CutOf(static_cast<std::int64_t>(sequence->items.size()), begin, end, step));
  SHOAL_RETURN_IF_ERROR(work->Make(sequence->items.size() * sizeof(ChatValue)));
  std::vector<ChatValue> items;
  ForEachOf(cut, [&](std::size_t i) { items.push_back(sequence->items[i]); });
  return MakeSequence(sequence->kind, std::move(items), work);
}

}  // namespace shoal::dataset
