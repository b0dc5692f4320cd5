#include "dataset/chat/methods.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "dataset/chat/characters.h"
#include "dataset/chat/python_values.h"

namespace shoal::dataset {
namespace {

using Value = ChatValue;
using Values = std::vector<ChatValue>;

std::string_view SelfText(const Value& self) { return *self.string(); }

// ---- str ----------------------------------------------------------------------------------------

template <Side side>
Result<Value> Strip(const Value& self, BoundArguments arguments, ChatWork* work) {
  const std::string_view text = SelfText(self);
  if (arguments[0] == nullptr || arguments[0]->is_none()) {
    return MakeString(std::string(StripSpaces(text, side)), work);
  }
  SHOAL_ASSIGN_OR_RETURN(const std::string_view set, TextArgument(arguments[0]));
  return MakeString(std::string(StripSet(text, set, side)), work);
}

// The parts of str.split, as views into `text`.
std::vector<std::string_view> SplitAtSpaces(std::string_view text, std::int64_t count) {
  std::vector<std::string_view> parts;
  text = StripSpaces(text, Side::kLeft);
  while (!text.empty()) {
    std::size_t end = 0, bytes = 0;
    while (end < text.size() && !IsSpaceCharacter(CharacterAtByte(text, end, &bytes))) end += bytes;
    if (count == 0) end = text.size();
    parts.push_back(text.substr(0, end));
    text = StripSpaces(text.substr(end), Side::kLeft);
    --count;
  }
  return parts;
}

std::vector<std::string_view> SplitAtSpacesFromRight(std::string_view text, std::int64_t count) {
  std::vector<std::string_view> parts;
  text = StripSpaces(text, Side::kRight);
  while (!text.empty()) {
    std::size_t begin = text.size(), bytes = 0;
    while (begin > 0) {
      const std::size_t previous = PreviousCharacter(text, begin);
      if (IsSpaceCharacter(CharacterAtByte(text, previous, &bytes))) break;
      begin = previous;
    }
    if (count == 0) begin = 0;
    parts.push_back(text.substr(begin));
    text = StripSpaces(text.substr(0, begin), Side::kRight);
    --count;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> SplitAt(std::string_view text, std::string_view by,
                                      std::int64_t count) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; count != 0 && (at = text.find(by)) != std::string_view::npos; --count) {
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + by.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> SplitAtFromRight(std::string_view text, std::string_view by,
                                               std::int64_t count) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; count != 0 && (at = text.rfind(by)) != std::string_view::npos; --count) {
    parts.push_back(text.substr(at + by.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Result<Value> ListOfTexts(const std::vector<std::string_view>& parts, ChatWork* work) {
  Values items;
  std::size_t bytes = 0;
  for (const std::string_view part : parts) bytes += part.size();
  SHOAL_RETURN_IF_ERROR(work->Make(bytes + parts.size() * sizeof(std::string)));
  for (const std::string_view part : parts) items.emplace_back(part);
  return MakeSequence(SequenceKind::kList, std::move(items), work);
}

template <bool from_right>
Result<Value> Split(const Value& self, BoundArguments arguments, ChatWork* work) {
  const std::string_view text = SelfText(self);
  SHOAL_ASSIGN_OR_RETURN(const std::int64_t count, WholeArgument(arguments[1], -1));
  if (arguments[0] == nullptr || arguments[0]->is_none()) {
    return ListOfTexts(
        from_right ? SplitAtSpacesFromRight(text, count) : SplitAtSpaces(text, count), work);
  }
  SHOAL_ASSIGN_OR_RETURN(const std::string_view by, TextArgument(arguments[0]));
  if (by.empty()) return FailedPrecondition("a text cannot be split at ''");
  SHOAL_RETURN_IF_ERROR(work->Search(text.size(), by.size()));
  return ListOfTexts(from_right ? SplitAtFromRight(text, by, count) : SplitAt(text, by, count),
                     work);
}

Result<Value> SplitIntoLines(const Value& self, BoundArguments, ChatWork* work) {
  return ListOfTexts(SplitLines(SelfText(self)), work);
}

// startswith and endswith: one text or a tuple of them.
template <bool at_end>
Result<Value> HasEnd(const Value& self, BoundArguments arguments, ChatWork*) {
  const std::string_view text = SelfText(self);
  const ChatSequence* several = arguments[0]->sequence();
  const Values one = several == nullptr ? Values{*arguments[0]} : Values();
  if (several != nullptr && several->kind != SequenceKind::kTuple) {
    return FailedPrecondition("a str or a tuple of them is expected");
  }
  for (const Value& each : several == nullptr ? one : several->items) {
    SHOAL_ASSIGN_OR_RETURN(const std::string_view part, TextArgument(&each));
    if (at_end ? text.ends_with(part) : text.starts_with(part)) return Value(true);
  }
  return Value(false);
}

template <std::string (*change)(std::string_view)>
Result<Value> Changed(const Value& self, BoundArguments, ChatWork* work) {
  return MakeString(change(SelfText(self)), work);
}

Result<Value> Replace(const Value& self, BoundArguments arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const std::string_view old, TextArgument(arguments[0]));
  SHOAL_ASSIGN_OR_RETURN(const std::string_view with, TextArgument(arguments[1]));
  SHOAL_ASSIGN_OR_RETURN(const std::int64_t count, WholeArgument(arguments[2], -1));
  SHOAL_ASSIGN_OR_RETURN(std::string text, ReplaceText(SelfText(self), old, with, count, work));
  return Value(std::move(text));
}

Result<Value> Join(const Value& self, BoundArguments arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const Values items, Iterate(*arguments[0], work));
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    SHOAL_ASSIGN_OR_RETURN(const std::string_view part, TextArgument(&items[i]));
    SHOAL_RETURN_IF_ERROR(work->Make(SelfText(self).size() + part.size()));
    if (i > 0) text += SelfText(self);
    text += part;
  }
  return Value(std::move(text));
}

template <bool from_right>
Result<Value> Find(const Value& self, BoundArguments arguments, ChatWork* work) {
  const std::string_view text = SelfText(self);
  SHOAL_ASSIGN_OR_RETURN(const std::string_view part, TextArgument(arguments[0]));
  SHOAL_RETURN_IF_ERROR(work->Search(text.size(), part.size()));
  const std::size_t at = from_right ? text.rfind(part) : text.find(part);
  if (at == std::string_view::npos) return Value(std::int64_t{-1});
  return Value(static_cast<std::int64_t>(CountCharacters(text.substr(0, at))));
}

Result<Value> Count(const Value& self, BoundArguments arguments, ChatWork* work) {
  const std::string_view text = SelfText(self);
  SHOAL_ASSIGN_OR_RETURN(const std::string_view part, TextArgument(arguments[0]));
  if (part.empty()) return Value(static_cast<std::int64_t>(CountCharacters(text)) + 1);
  SHOAL_RETURN_IF_ERROR(work->Search(text.size(), part.size()));
  return Value(static_cast<std::int64_t>(SplitAt(text, part, -1).size()) - 1);
}

template <bool at_end>
Result<Value> Remove(const Value& self, BoundArguments arguments, ChatWork* work) {
  std::string_view text = SelfText(self);
  SHOAL_ASSIGN_OR_RETURN(const std::string_view part, TextArgument(arguments[0]));
  if (at_end && text.ends_with(part)) text.remove_suffix(part.size());
  if (!at_end && text.starts_with(part)) text.remove_prefix(part.size());
  return MakeString(std::string(text), work);
}

constexpr NativeFunction kTextMethods[] = {
    {"strip", {"chars"}, 0, Strip<Side::kBoth>},
    {"lstrip", {"chars"}, 0, Strip<Side::kLeft>},
    {"rstrip", {"chars"}, 0, Strip<Side::kRight>},
    {"split", {"sep", "maxsplit"}, 0, Split<false>},
    {"rsplit", {"sep", "maxsplit"}, 0, Split<true>},
    {"splitlines", {}, 0, SplitIntoLines},
    {"startswith", {"prefix"}, 1, HasEnd<false>},
    {"endswith", {"suffix"}, 1, HasEnd<true>},
    {"lower", {}, 0, Changed<LowerText>},
    {"upper", {}, 0, Changed<UpperText>},
    {"capitalize", {}, 0, Changed<CapitalizeText>},
    {"title", {}, 0, Changed<TitleText>},
    {"replace", {"old", "new", "count"}, 2, Replace},
    {"join", {"iterable"}, 1, Join},
    {"find", {"sub"}, 1, Find<false>},
    {"rfind", {"sub"}, 1, Find<true>},
    {"count", {"sub"}, 1, Count},
    {"removeprefix", {"prefix"}, 1, Remove<false>},
    {"removesuffix", {"suffix"}, 1, Remove<true>},
};

// What else Python's str has.
constexpr std::string_view kOtherTextMembers[] = {
    "casefold",  "center",      "encode",  "expandtabs", "format",   "format_map",   "index",
    "isalnum",   "isalpha",     "isascii", "isdecimal",  "isdigit",  "isidentifier", "islower",
    "isnumeric", "isprintable", "isspace", "istitle",    "isupper",  "ljust",        "maketrans",
    "partition", "rindex",      "rjust",   "rpartition", "swapcase", "translate",    "zfill"};

// ---- dict, list and tuple -----------------------------------------------------------------------

Result<Value> Get(const Value& self, BoundArguments arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const Value* const found, Lookup(*self.dict(), *arguments[0], work));
  if (found != nullptr) return *found;
  return arguments[1] == nullptr ? Value() : *arguments[1];
}

Result<Value> Items(const Value& self, BoundArguments, ChatWork* work) {
  Values items;
  for (const auto& [key, value] : self.dict()->items) {
    SHOAL_ASSIGN_OR_RETURN(Value pair, MakeSequence(SequenceKind::kTuple, {key, value}, work));
    items.push_back(std::move(pair));
  }
  return MakeSequence(SequenceKind::kView, std::move(items), work);
}

Result<Value> Keys(const Value& self, BoundArguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(Values keys, Iterate(self, work));
  return MakeSequence(SequenceKind::kView, std::move(keys), work);
}

Result<Value> ValuesOf(const Value& self, BoundArguments, ChatWork* work) {
  Values values;
  for (const auto& item : self.dict()->items) values.push_back(item.second);
  return MakeSequence(SequenceKind::kView, std::move(values), work);
}

Result<Value> Copy(const Value& self, BoundArguments, ChatWork*) { return self; }

constexpr NativeFunction kDictMethods[] = {
    {"get", {"key", "default"}, 1, Get}, {"items", {}, 0, Items}, {"keys", {}, 0, Keys},
    {"values", {}, 0, ValuesOf},         {"copy", {}, 0, Copy},
};

Result<Value> CountItems(const Value& self, BoundArguments arguments, ChatWork* work) {
  std::int64_t count = 0;
  for (const Value& item : self.sequence()->items) {
    SHOAL_ASSIGN_OR_RETURN(const bool equal, AreEqual(item, *arguments[0], work));
    count += equal ? 1 : 0;
  }
  return Value(count);
}

Result<Value> IndexOf(const Value& self, BoundArguments arguments, ChatWork* work) {
  const Values& items = self.sequence()->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    SHOAL_ASSIGN_OR_RETURN(const bool equal, AreEqual(items[i], *arguments[0], work));
    if (equal) return Value(static_cast<std::int64_t>(i));
  }
  return FailedPrecondition("the value is not in the list");
}

constexpr NativeFunction kListMethods[] = {
    {"count", {"value"}, 1, CountItems},
    {"index", {"value"}, 1, IndexOf},
};

constexpr std::string_view kChangingMethods[] = {"append",     "clear",   "extend", "insert",
                                                 "pop",        "popitem", "remove", "reverse",
                                                 "setdefault", "sort",    "update", "fromkeys"};

template <typename Names>
bool Has(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

bool IsMethod(std::string_view name) {
  return FindNative(kTextMethods, name) != nullptr || FindNative(kDictMethods, name) != nullptr ||
         FindNative(kListMethods, name) != nullptr;
}

bool IsChangingMethod(std::string_view name) { return Has(kChangingMethods, name); }

const NativeFunction* FindMethod(const ChatValue& self, std::string_view name) {
  if (self.string() != nullptr) return FindNative(kTextMethods, name);
  if (self.dict() != nullptr) return FindNative(kDictMethods, name);
  const ChatSequence* sequence = self.sequence();
  if (sequence == nullptr || sequence->kind == SequenceKind::kView) return nullptr;
  return FindNative(kListMethods, name);
}

bool IsUnsupportedMember(const ChatValue& self, std::string_view name) {
  if (self.string() != nullptr) return Has(kOtherTextMembers, name);
  return (self.dict() != nullptr || self.sequence() != nullptr) && IsChangingMethod(name);
}

Result<std::string> ReplaceText(std::string_view text, std::string_view old, std::string_view with,
                                std::int64_t count, ChatWork* work) {
  SHOAL_RETURN_IF_ERROR(work->Search(text.size(), old.size()));
  SHOAL_RETURN_IF_ERROR(work->Make(text.size()));
  std::string result;
  std::size_t done = 0;
  while (count != 0 && done <= text.size()) {
    // An empty one stands before each character and at the end.
    const std::size_t at = text.find(old, done);
    if (at == std::string_view::npos) break;
    SHOAL_RETURN_IF_ERROR(work->Make(with.size()));
    result += text.substr(done, at - done);
    result += with;
    done = at + old.size();
    --count;
    if (!old.empty()) continue;
    if (done == text.size()) return result;
    std::size_t bytes = 0;
    CharacterAtByte(text, done, &bytes);
    result += text.substr(done, bytes);
    done += bytes;
  }
  result += text.substr(std::min(done, text.size()));
  return result;
}

}  // namespace shoal::dataset
