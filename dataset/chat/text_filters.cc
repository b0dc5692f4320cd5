#include "dataset/chat/text_filters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "dataset/chat/characters.h"
#include "dataset/chat/methods.h"
#include "dataset/chat/python_values.h"

namespace shoal::dataset {
namespace {

using Value = ChatValue;

template <std::string (*change)(std::string_view)>
Result<Value> Changed(const Value& self, BoundArguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const std::string text, TextOf(self, work));
  return MakeString(change(text), work);
}

Result<Value> Trim(const Value& self, BoundArguments arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const std::string text, TextOf(self, work));
  if (arguments[0] == nullptr || arguments[0]->is_none()) {
    return Value(StripSpaces(text, Side::kBoth));
  }
  SHOAL_ASSIGN_OR_RETURN(const std::string_view set, TextArgument(arguments[0]));
  return Value(StripSet(text, set, Side::kBoth));
}

bool BeginsWord(char c) { return std::string_view("-({[<").find(c) != std::string_view::npos; }

// Jinja's own title, which knows of apostrophes: words end at spaces, hyphens and opening brackets.
std::string TitleWords(std::string_view text) {
  std::string result;
  std::string word;
  const auto flush = [&] {
    result += CapitalizeText(word);
    word.clear();
  };
  for (std::size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
    const std::uint32_t c = CharacterAtByte(text, at, &bytes);
    if (IsSpaceCharacter(c) || (c < 0x80 && BeginsWord(static_cast<char>(c)))) {
      flush();
      result += text.substr(at, bytes);
    } else {
      word += text.substr(at, bytes);
    }
  }
  flush();
  return result;
}

Result<Value> Replace(const Value& self, BoundArguments arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const std::string text, TextOf(self, work));
  SHOAL_ASSIGN_OR_RETURN(const std::string old, TextOf(*arguments[0], work));
  SHOAL_ASSIGN_OR_RETURN(const std::string with, TextOf(*arguments[1], work));
  const bool all = arguments[2] == nullptr || arguments[2]->is_none();
  SHOAL_ASSIGN_OR_RETURN(const std::int64_t count, WholeArgument(all ? nullptr : arguments[2], -1));
  SHOAL_ASSIGN_OR_RETURN(std::string result, ReplaceText(text, old, with, count, work));
  return Value(std::move(result));
}

Result<Value> String(const Value& self, BoundArguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(std::string text, TextOf(self, work));
  return Value(std::move(text));
}

Result<Value> Safe(const Value& self, BoundArguments arguments, ChatWork* work) {
  return String(self, arguments, work);
}

// One level's white space: a text, or as many spaces.
Result<std::string> Indention(const Value* argument, std::int64_t otherwise) {
  constexpr std::int64_t kIndentMax = 1000;
  if (argument != nullptr && argument->string() != nullptr) return *argument->string();
  SHOAL_ASSIGN_OR_RETURN(const std::int64_t width, WholeArgument(argument, otherwise));
  if (width > kIndentMax) return ResourceExhausted("an indent of more than 1000 columns");
  return std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
}

Result<Value> Indent(const Value& self, BoundArguments arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const std::string_view given, TextArgument(&self));
  std::string text(given);
  SHOAL_ASSIGN_OR_RETURN(const std::string indention, Indention(arguments[0], 4));
  const bool first = FlagArgument(arguments[1], false), blank = FlagArgument(arguments[2], false);
  text += '\n';
  const auto lines = SplitLines(text);
  SHOAL_RETURN_IF_ERROR(work->Make(text.size() + lines.size() * indention.size()));
  std::string result = first ? indention : std::string();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) result += '\n';
    if (i > 0 && (blank || !lines[i].empty())) result += indention;
    result += lines[i];
  }
  return Value(std::move(result));
}

Result<Value> ToJson(const Value& self, BoundArguments arguments, ChatWork* work) {
  JsonStyle style;
  style.ensure_ascii = FlagArgument(arguments[0], false);
  if (arguments[1] != nullptr && !arguments[1]->is_none()) {
    SHOAL_ASSIGN_OR_RETURN(style.indent, Indention(arguments[1], 0));
    style.item_separator = ",";
  }
  if (arguments[2] != nullptr && !arguments[2]->is_none()) {
    const ChatSequence* both = arguments[2]->sequence();
    if (both == nullptr || both->items.size() != 2) {
      return FailedPrecondition("'separators' are two texts");
    }
    SHOAL_ASSIGN_OR_RETURN(style.item_separator, TextArgument(&both->items[0]));
    SHOAL_ASSIGN_OR_RETURN(style.key_separator, TextArgument(&both->items[1]));
  }
  style.sort_keys = FlagArgument(arguments[3], false);
  SHOAL_ASSIGN_OR_RETURN(std::string text, JsonText(self, style, work));
  return Value(std::move(text));
}

Result<Value> Length(const Value& self, BoundArguments, ChatWork*) {
  std::size_t length = 0;
  if (const std::string* text = self.string()) {
    length = CountCharacters(*text);
  } else if (const ChatSequence* sequence = self.sequence()) {
    length = sequence->items.size();
  } else if (const ChatDict* dict = self.dict()) {
    length = dict->items.size();
  } else if (const auto* loop = self.As<std::shared_ptr<const ChatLoop>>()) {
    length = (*loop)->items.size();
  } else if (!self.is_undefined()) {
    return FailedPrecondition("a " + std::string(TypeName(self)) + " has no length");
  }
  return Value(static_cast<std::int64_t>(length));
}

Result<Value> Default(const Value& self, BoundArguments arguments, ChatWork*) {
  const bool missing = self.is_undefined() || (FlagArgument(arguments[1], false) && !IsTrue(self));
  if (!missing) return self;
  return arguments[0] == nullptr ? Value("") : *arguments[0];
}

// A text without white space around it, and without the "_" between two digits of Python.
std::string Digits(std::string_view text) {
  std::string digits(StripSpaces(text, Side::kBoth));
  for (std::size_t i = 1; i + 1 < digits.size(); ++i) {
    const auto is_digit = [&](std::size_t at) { return digits[at] >= '0' && digits[at] <= '9'; };
    if (digits[i] == '_' && is_digit(i - 1) && is_digit(i + 1)) digits.erase(i, 1);
  }
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.erase(0, 1);
  return digits;
}

std::optional<double> NumberOf(const Value& value) {
  const std::string* text = value.string();
  if (text == nullptr) return AnyNumber(value);
  const std::string digits = Digits(*text);
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || end != digits.data() + digits.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::strtod(digits.c_str(), nullptr);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

Result<Value> Float(const Value& self, BoundArguments arguments, ChatWork*) {
  if (self.is_undefined()) return UndefinedError("a value");
  if (const auto number = NumberOf(self)) return Value(*number);
  return arguments[0] == nullptr ? Value(0.0) : *arguments[0];
}

Result<Value> Integer(const Value& self, BoundArguments arguments, ChatWork*) {
  if (self.is_undefined()) return UndefinedError("a value");
  const Value otherwise = arguments[0] == nullptr ? Value(std::int64_t{0}) : *arguments[0];
  SHOAL_ASSIGN_OR_RETURN(const std::int64_t base, WholeArgument(arguments[1], 10));
  if (base != 10) return FailedPrecondition("int() with another base than 10 is not supported");
  if (const auto whole = WholeNumber(self)) return Value(*whole);
  if (const std::string* text = self.string()) {
    const std::string digits = Digits(*text);
    std::int64_t whole = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
    if (!digits.empty() && end == digits.data() + digits.size()) {
      if (error == std::errc()) return Value(whole);
      return FailedPrecondition("a whole number goes beyond 64 bits");
    }
  }
  const auto number = NumberOf(self);
  if (!number || std::isnan(*number)) return otherwise;
  constexpr double kBeyond = 9223372036854775808.0;  // 2^63
  if (std::isinf(*number)) return otherwise;
  if (std::fabs(*number) >= kBeyond) {
    return FailedPrecondition("a whole number goes beyond 64 bits");
  }
  return Value(static_cast<std::int64_t>(*number));
}

Result<Value> Absolute(const Value& self, BoundArguments, ChatWork*) {
  if (const auto whole = WholeNumber(self)) {
    if (*whole == std::numeric_limits<std::int64_t>::min()) {
      return FailedPrecondition("a whole number goes beyond 64 bits");
    }
    return Value(std::abs(*whole));
  }
  if (const double* number = self.As<double>()) return Value(std::fabs(*number));
  return FailedPrecondition("a " + std::string(TypeName(self)) + " is no number");
}

Result<Value> Round(const Value& self, BoundArguments arguments, ChatWork*) {
  constexpr std::int64_t kPrecisionMax = 300;
  SHOAL_ASSIGN_OR_RETURN(const std::int64_t precision, WholeArgument(arguments[0], 0));
  SHOAL_ASSIGN_OR_RETURN(const std::string_view method, TextArgument(arguments[1], "common"));
  const auto number = AnyNumber(self);
  if (!number) return FailedPrecondition("a " + std::string(TypeName(self)) + " is no number");
  if (precision < 0 || precision > kPrecisionMax) {
    return FailedPrecondition("round() to a precision outside of 0 to 300 is not supported");
  }
  if (method == "common") {
    if (const auto whole = WholeNumber(self)) return Value(*whole);
    if (!std::isfinite(*number)) return Value(*number);
    std::array<char, 1024> text;  // 309 digits, the point, 300 digits
    std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(precision), *number);
    return Value(std::strtod(text.data(), nullptr));
  }
  if (method != "ceil" && method != "floor") {
    return FailedPrecondition("the method of round() is common, ceil or floor");
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *number * scale;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

constexpr NativeFunction kTextFilters[] = {
    {"trim", {"chars"}, 0, Trim},
    {"lower", {}, 0, Changed<LowerText>},
    {"upper", {}, 0, Changed<UpperText>},
    {"capitalize", {}, 0, Changed<CapitalizeText>},
    {"title", {}, 0, Changed<TitleWords>},
    {"replace", {"old", "new", "count"}, 2, Replace},
    {"string", {}, 0, String},
    {"safe", {}, 0, Safe},
    {"indent", {"width", "first", "blank"}, 0, Indent},
    {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, ToJson},
    {"length", {}, 0, Length},
    {"count", {}, 0, Length},
    {"default", {"default_value", "boolean"}, 0, Default},
    {"d", {"default_value", "boolean"}, 0, Default},
    {"float", {"default"}, 0, Float},
    {"int", {"default", "base"}, 0, Integer},
    {"abs", {}, 0, Absolute},
    {"round", {"precision", "method"}, 0, Round},
};

}  // namespace

const NativeFunction* FindTextFilter(std::string_view name) {
  return FindNative(kTextFilters, name);
}

}  // namespace shoal::dataset
