#include "dataset/chat/filters.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataset/chat/characters.h"
#include "dataset/chat/operators.h"
#include "dataset/chat/python_values.h"
#include "dataset/chat/text_filters.h"
#include "dataset/chat/value_tests.h"

namespace shoal::dataset {
namespace {

using Value = ChatValue;
using Values = std::vector<ChatValue>;

Result<Value> Nothing() { return Value::Undefined(-1); }

// ---- attributes by a path such as "function.name" or 0 ------------------------------------------

Value KeyOf(std::string_view part) {
  std::int64_t index = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
  const bool is_index = error == std::errc() && end == part.data() + part.size() && part[0] != '-';
  return is_index ? Value(index) : Value(part);
}

// No path: the item itself. `otherwise`, if there is one, stands for what is undefined.
Result<Value> AtPath(const Value& item, const Value* path, const Value* otherwise, ChatWork* work) {
  if (path == nullptr || path->is_none()) return item;
  if (path->string() == nullptr) return GetItem(item, *path, work);
  Value value = item;
  std::string_view rest = *path->string();
  while (true) {
    const std::size_t end = std::min(rest.find('.'), rest.size());
    if (value.is_undefined()) return UndefinedError(rest);
    SHOAL_ASSIGN_OR_RETURN(value, GetItem(value, KeyOf(rest.substr(0, end)), work));
    if (value.is_undefined() && otherwise != nullptr) value = *otherwise;
    if (end == rest.size()) return value;
    rest.remove_prefix(end + 1);
  }
}

// What items are compared by: the value at `path`, texts in small letters.
Result<Values> SortKeys(const Values& items, const Value* path, bool case_sensitive,
                        ChatWork* work) {
  Values keys;
  for (const Value& item : items) {
    SHOAL_ASSIGN_OR_RETURN(Value key, AtPath(item, path, nullptr, work));
    if (!case_sensitive && key.string() != nullptr) {
      SHOAL_ASSIGN_OR_RETURN(key, MakeString(LowerText(*key.string()), work));
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

// The order of `keys`, stable; `reverse` keeps equal ones in their order, too. By merging, as a
// comparison may fail.
Result<std::vector<std::size_t>> SortedOrder(const Values& keys, bool reverse, ChatWork* work) {
  std::vector<std::size_t> order(keys.size()), merged(keys.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (std::size_t width = 1; width < order.size(); width *= 2) {
    for (std::size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, order.size());
      const std::size_t end = std::min(middle + width, order.size());
      std::size_t left = begin, right = middle;
      for (std::size_t at = begin; at < end; ++at) {
        bool takes_right = left == middle;
        if (!takes_right && right < end) {
          SHOAL_ASSIGN_OR_RETURN(const int compared,
                                 Order(keys[order[right]], keys[order[left]], work));
          takes_right = reverse ? compared > 0 : compared < 0;
        }
        merged[at] = takes_right ? order[right++] : order[left++];
      }
    }
    std::swap(order, merged);
  }
  return order;
}

Result<Value> Sort(const Value& self, BoundArguments arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const Values items, Iterate(self, work));
  SHOAL_ASSIGN_OR_RETURN(const Values keys,
                         SortKeys(items, arguments[2], FlagArgument(arguments[1], false), work));
  SHOAL_ASSIGN_OR_RETURN(const auto order,
                         SortedOrder(keys, FlagArgument(arguments[0], false), work));
  Values sorted;
  for (const std::size_t i : order) sorted.push_back(items[i]);
  return MakeSequence(SequenceKind::kList, std::move(sorted), work);
}

Result<Value> DictSort(const Value& self, BoundArguments arguments, ChatWork* work) {
  const ChatDict* dict = self.dict();
  if (dict == nullptr) return FailedPrecondition("dictsort is for a dict");
  SHOAL_ASSIGN_OR_RETURN(const std::string_view by, TextArgument(arguments[1], "key"));
  if (by != "key" && by != "value") return FailedPrecondition("dictsort is by key or by value");
  Values items;
  for (const auto& [key, value] : dict->items) {
    SHOAL_ASSIGN_OR_RETURN(Value pair, MakeSequence(SequenceKind::kTuple, {key, value}, work));
    items.push_back(std::move(pair));
  }
  const Value place(std::int64_t{by == "key" ? 0 : 1});
  SHOAL_ASSIGN_OR_RETURN(const Values keys,
                         SortKeys(items, &place, FlagArgument(arguments[0], false), work));
  SHOAL_ASSIGN_OR_RETURN(const auto order,
                         SortedOrder(keys, FlagArgument(arguments[2], false), work));
  Values sorted;
  for (const std::size_t i : order) sorted.push_back(items[i]);
  return MakeSequence(SequenceKind::kList, std::move(sorted), work);
}

Result<Value> Unique(const Value& self, BoundArguments arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const Values items, Iterate(self, work));
  SHOAL_ASSIGN_OR_RETURN(const Values keys,
                         SortKeys(items, arguments[1], FlagArgument(arguments[0], false), work));
  Values seen, kept;
  for (std::size_t i = 0; i < items.size(); ++i) {
    bool known = false;
    for (const Value& key : seen) {
      SHOAL_ASSIGN_OR_RETURN(const bool equal, AreEqual(key, keys[i], work));
      known = known || equal;
    }
    if (known) continue;
    seen.push_back(keys[i]);
    kept.push_back(items[i]);
  }
  return MakeGenerator(std::move(kept), work);
}

// min and max: the first one whose order to all others is not `worse`.
template <int worse>
Result<Value> Extreme(const Value& self, BoundArguments arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const Values items, Iterate(self, work));
  if (items.empty()) return Nothing();
  SHOAL_ASSIGN_OR_RETURN(const Values keys,
                         SortKeys(items, arguments[1], FlagArgument(arguments[0], false), work));
  std::size_t best = 0;
  for (std::size_t i = 1; i < items.size(); ++i) {
    SHOAL_ASSIGN_OR_RETURN(const int order, Order(keys[best], keys[i], work));
    if (order == worse) best = i;
  }
  return items[best];
}

// ---- lists --------------------------------------------------------------------------------------

Result<Value> List(const Value& self, BoundArguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(Values items, Iterate(self, work));
  return MakeSequence(SequenceKind::kList, std::move(items), work);
}

Result<Value> First(const Value& self, BoundArguments, ChatWork* work) {
  if (const auto* generator = self.As<std::shared_ptr<ChatGenerator>>()) {
    ChatGenerator& source = **generator;
    return source.next < source.items.size() ? source.items[source.next++] : Nothing();
  }
  SHOAL_ASSIGN_OR_RETURN(const Values items, Iterate(self, work));
  return items.empty() ? Nothing() : items.front();
}

Status CheckReversible(const Value& self) {
  if (self.As<std::shared_ptr<ChatGenerator>>() == nullptr) return Status::Ok();
  return FailedPrecondition("a generator has no end to begin at; make it a list");
}

Result<Value> Last(const Value& self, BoundArguments, ChatWork* work) {
  SHOAL_RETURN_IF_ERROR(CheckReversible(self));
  SHOAL_ASSIGN_OR_RETURN(const Values items, Iterate(self, work));
  return items.empty() ? Nothing() : items.back();
}

Result<Value> Reverse(const Value& self, BoundArguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(Values items, Iterate(self, work));
  std::reverse(items.begin(), items.end());
  if (self.string() == nullptr) return MakeGenerator(std::move(items), work);
  std::string text;
  for (const Value& item : items) text += *item.string();
  return MakeString(std::move(text), work);
}

Result<Value> Join(const Value& self, BoundArguments arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const Values items, Iterate(self, work));
  const Value nothing("");
  SHOAL_ASSIGN_OR_RETURN(const std::string between,
                         TextOf(arguments[0] == nullptr ? nothing : *arguments[0], work));
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    SHOAL_ASSIGN_OR_RETURN(const Value part, AtPath(items[i], arguments[1], nullptr, work));
    SHOAL_ASSIGN_OR_RETURN(const std::string piece, TextOf(part, work));
    SHOAL_RETURN_IF_ERROR(work->Make(between.size() + piece.size()));
    if (i > 0) text += between;
    text += piece;
  }
  return Value(std::move(text));
}

Result<Value> Items(const Value& self, BoundArguments, ChatWork* work) {
  Values items;
  if (!self.is_undefined()) {
    if (self.dict() == nullptr) return FailedPrecondition("items is for a dict");
    for (const auto& [key, value] : self.dict()->items) {
      SHOAL_ASSIGN_OR_RETURN(Value pair, MakeSequence(SequenceKind::kTuple, {key, value}, work));
      items.push_back(std::move(pair));
    }
  }
  return MakeGenerator(std::move(items), work);
}

constexpr NativeFunction kListFilters[] = {
    {"sort", {"reverse", "case_sensitive", "attribute"}, 0, Sort},
    {"dictsort", {"case_sensitive", "by", "reverse"}, 0, DictSort},
    {"unique", {"case_sensitive", "attribute"}, 0, Unique},
    {"min", {"case_sensitive", "attribute"}, 0, Extreme<1>},
    {"max", {"case_sensitive", "attribute"}, 0, Extreme<-1>},
    {"list", {}, 0, List},
    {"first", {}, 0, First},
    {"last", {}, 0, Last},
    {"reverse", {}, 0, Reverse},
    {"join", {"d", "attribute"}, 0, Join},
    {"items", {}, 0, Items},
};

// ---- filters that take a filter or a test -------------------------------------------------------

const Value* Named(const CallArguments& arguments, std::string_view name) {
  for (const auto& [each, value] : arguments.named) {
    if (each == name) return &value;
  }
  return nullptr;
}

// What is behind the first `count` arguments.
CallArguments Rest(const CallArguments& arguments, std::size_t count) {
  CallArguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Result<Value> Map(const Value& self, const CallArguments& arguments, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const Values items, Iterate(self, work));
  Values mapped;
  const Value* path = Named(arguments, "attribute");
  if (arguments.positional.empty() && path == nullptr) {
    return FailedPrecondition("map misses the name of a filter, or attribute=");
  }
  if (arguments.positional.empty()) {
    const Value* otherwise = Named(arguments, "default");
    if (arguments.named.size() > (otherwise == nullptr ? 1U : 2U)) {
      return FailedPrecondition("map takes attribute= and default= only");
    }
    for (const Value& item : items) {
      SHOAL_ASSIGN_OR_RETURN(Value value, AtPath(item, path, otherwise, work));
      mapped.push_back(std::move(value));
    }
  } else {
    SHOAL_ASSIGN_OR_RETURN(const std::string_view name, TextArgument(&arguments.positional[0]));
    const CallArguments rest = Rest(arguments, 1);
    for (const Value& item : items) {
      SHOAL_RETURN_IF_ERROR(work->Step());
      SHOAL_ASSIGN_OR_RETURN(Value value, ApplyFilter(name, item, rest, work));
      mapped.push_back(std::move(value));
    }
  }
  return MakeGenerator(std::move(mapped), work);
}

Result<Value> Select(const Value& self, const CallArguments& arguments, bool by_attribute,
                     bool keeps, ChatWork* work) {
  SHOAL_ASSIGN_OR_RETURN(const Values items, Iterate(self, work));
  const std::size_t first = by_attribute ? 1 : 0;
  if (arguments.positional.size() < first) {
    return FailedPrecondition("the filter misses the name of an attribute");
  }
  const NativeFunction* test = nullptr;
  CallArguments rest;
  if (arguments.positional.size() > first) {
    SHOAL_ASSIGN_OR_RETURN(const std::string_view name, TextArgument(&arguments.positional[first]));
    test = FindTest(name);
    if (test == nullptr) {
      return FailedPrecondition("the test '" + std::string(name) + "' is not supported");
    }
    rest = Rest(arguments, first + 1);
  }
  Values kept;
  for (const Value& item : items) {
    SHOAL_RETURN_IF_ERROR(work->Step());
    const Value* path = by_attribute ? &arguments.positional[0] : nullptr;
    SHOAL_ASSIGN_OR_RETURN(Value value, AtPath(item, path, nullptr, work));
    if (test != nullptr) {
      SHOAL_ASSIGN_OR_RETURN(value, CallNative(*test, value, rest, work));
    }
    if (IsTrue(value) == keeps) kept.push_back(item);
  }
  return MakeGenerator(std::move(kept), work);
}

struct Selection {
  std::string_view name;
  bool by_attribute, keeps;
};

constexpr Selection kSelections[] = {{"select", false, true},
                                     {"reject", false, false},
                                     {"selectattr", true, true},
                                     {"rejectattr", true, false}};

const Selection* FindSelection(std::string_view name) {
  const auto found = std::find_if(std::begin(kSelections), std::end(kSelections),
                                  [&](const Selection& each) { return each.name == name; });
  return found == std::end(kSelections) ? nullptr : found;
}

}  // namespace

bool IsFilter(std::string_view name) {
  return name == "map" || FindSelection(name) != nullptr || FindTextFilter(name) != nullptr ||
         FindNative(kListFilters, name) != nullptr;
}

Result<ChatValue> ApplyFilter(std::string_view name, const ChatValue& value,
                              const CallArguments& arguments, ChatWork* work) {
  if (const NativeFunction* filter = FindTextFilter(name)) {
    return CallNative(*filter, value, arguments, work);
  }
  if (const NativeFunction* filter = FindNative(kListFilters, name)) {
    return CallNative(*filter, value, arguments, work);
  }
  if (const Selection* selection = FindSelection(name)) {
    return Select(value, arguments, selection->by_attribute, selection->keeps, work);
  }
  if (name == "map") return Map(value, arguments, work);
  return FailedPrecondition("the filter '" + std::string(name) + "' is not supported");
}

}  // namespace shoal::dataset
