#include "dataset/chat/python_values.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "dataset/chat/characters.h"

namespace shoal::dataset {
namespace {

Status NotComparable(const ChatValue& a, const ChatValue& b) {
  return FailedPrecondition("'<' is not defined between " + std::string(TypeName(a)) + " and " +
                            std::string(TypeName(b)));
}

Result<bool> EqualSequences(const ChatSequence& a, const ChatSequence& b, ChatWork* work) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    SHOAL_ASSIGN_OR_RETURN(const bool equal, AreEqual(a.items[i], b.items[i], work));
    if (!equal) return false;
  }
  return true;
}

Result<bool> EqualDicts(const ChatDict& a, const ChatDict& b, ChatWork* work) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    SHOAL_ASSIGN_OR_RETURN(const ChatValue* const other, Lookup(b, key, work));
    if (other == nullptr) return false;
    SHOAL_ASSIGN_OR_RETURN(const bool equal, AreEqual(value, *other, work));
    if (!equal) return false;
  }
  return true;
}

template <typename T>
bool SameKind(const ChatValue& a, const ChatValue& b) {
  return a.As<T>() != nullptr && b.As<T>() != nullptr;
}

bool IsHashable(const ChatValue& key) {
  const ChatSequence* sequence = key.sequence();
  if (sequence == nullptr) return key.dict() == nullptr;
  return sequence->kind == SequenceKind::kTuple &&
         std::all_of(sequence->items.begin(), sequence->items.end(), IsHashable);
}

int Sign(bool less, bool greater) { return static_cast<int>(greater) - static_cast<int>(less); }

}  // namespace

std::string_view TypeName(const ChatValue& value) {
  if (value.is_none()) return "None";
  if (value.is_undefined()) return "undefined";
  if (value.As<bool>() != nullptr) return "bool";
  if (value.As<std::int64_t>() != nullptr) return "int";
  if (value.As<double>() != nullptr) return "float";
  if (value.string() != nullptr) return "str";
  if (value.dict() != nullptr) return "dict";
  if (const ChatSequence* sequence = value.sequence()) {
    switch (sequence->kind) {
      case SequenceKind::kList: return "list";
      case SequenceKind::kTuple: return "tuple";
      case SequenceKind::kRange: return "range";
      case SequenceKind::kView: return "view of a dict";
    }
  }
  if (value.As<std::shared_ptr<ChatGenerator>>() != nullptr) return "generator";
  if (value.As<ChatNamespace>() != nullptr) return "namespace";
  if (value.As<std::shared_ptr<const ChatLoop>>() != nullptr) return "loop";
  return "function";
}

bool IsTrue(const ChatValue& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (const bool* flag = value.As<bool>()) return *flag;
  if (const std::int64_t* whole = value.As<std::int64_t>()) return *whole != 0;
  if (const double* number = value.As<double>()) return *number != 0;
  if (const std::string* text = value.string()) return !text->empty();
  if (const ChatSequence* sequence = value.sequence()) return !sequence->items.empty();
  if (const ChatDict* dict = value.dict()) return !dict->items.empty();
  return true;
}

std::optional<std::int64_t> WholeNumber(const ChatValue& value) {
  if (const std::int64_t* whole = value.As<std::int64_t>()) return *whole;
  if (const bool* flag = value.As<bool>()) return *flag ? 1 : 0;
  return std::nullopt;
}

std::optional<double> AnyNumber(const ChatValue& value) {
  if (const double* number = value.As<double>()) return *number;
  if (const auto whole = WholeNumber(value)) return static_cast<double>(*whole);
  return std::nullopt;
}

Result<bool> AreEqual(const ChatValue& a, const ChatValue& b, ChatWork* work) {
  SHOAL_RETURN_IF_ERROR(work->Step());
  const auto whole_a = WholeNumber(a), whole_b = WholeNumber(b);
  if (whole_a && whole_b) return *whole_a == *whole_b;
  const auto number_a = AnyNumber(a), number_b = AnyNumber(b);
  if (number_a && number_b) return *number_a == *number_b;
  if (a.string() != nullptr && b.string() != nullptr) {
    SHOAL_RETURN_IF_ERROR(work->Read(std::min(a.string()->size(), b.string()->size())));
    return *a.string() == *b.string();
  }
  if (a.sequence() != nullptr && b.sequence() != nullptr) {
    return EqualSequences(*a.sequence(), *b.sequence(), work);
  }
  if (a.dict() != nullptr && b.dict() != nullptr) return EqualDicts(*a.dict(), *b.dict(), work);
  if (SameKind<ChatNamespace>(a, b)) {
    return a.As<ChatNamespace>()->index == b.As<ChatNamespace>()->index;
  }
  if (SameKind<ChatMacro>(a, b)) return a.As<ChatMacro>()->index == b.As<ChatMacro>()->index;
  return SameKind<ChatNone>(a, b) || SameKind<ChatUndefined>(a, b);
}

Result<int> Order(const ChatValue& a, const ChatValue& b, ChatWork* work) {
  SHOAL_RETURN_IF_ERROR(work->Step());
  const auto whole_a = WholeNumber(a), whole_b = WholeNumber(b);
  if (whole_a && whole_b) return Sign(*whole_a<*whole_b, *whole_a> * whole_b);
  const auto number_a = AnyNumber(a), number_b = AnyNumber(b);
  if (number_a && number_b) {
    if (std::isnan(*number_a) || std::isnan(*number_b)) {
      return FailedPrecondition("numbers that are none (nan) have no order");
    }
    return Sign(*number_a<*number_b, *number_a> * number_b);
  }
  if (a.string() != nullptr && b.string() != nullptr) {
    SHOAL_RETURN_IF_ERROR(work->Read(std::min(a.string()->size(), b.string()->size())));
    // The order of UTF-8's bytes is that of its characters.
    const int order = a.string()->compare(*b.string());
    return Sign(order<0, order> 0);
  }
  const ChatSequence *list_a = a.sequence(), *list_b = b.sequence();
  if (list_a == nullptr || list_b == nullptr || list_a->kind != list_b->kind ||
      list_a->kind == SequenceKind::kRange || list_a->kind == SequenceKind::kView) {
    return NotComparable(a, b);
  }
  const std::size_t common = std::min(list_a->items.size(), list_b->items.size());
  for (std::size_t i = 0; i < common; ++i) {
    SHOAL_ASSIGN_OR_RETURN(const bool equal, AreEqual(list_a->items[i], list_b->items[i], work));
    if (!equal) return Order(list_a->items[i], list_b->items[i], work);
  }
  return Sign(list_a->items.size() < list_b->items.size(),
              list_a->items.size() > list_b->items.size());
}

Result<bool> Contains(const ChatValue& container, const ChatValue& value, ChatWork* work) {
  if (const std::string* text = container.string()) {
    const std::string* part = value.string();
    if (part == nullptr) {
      return FailedPrecondition("'in <str>' needs a str on its left, not " +
                                std::string(TypeName(value)));
    }
    SHOAL_RETURN_IF_ERROR(work->Search(text->size(), part->size()));
    return text->find(*part) != std::string::npos;
  }
  if (const ChatDict* dict = container.dict()) {
    SHOAL_ASSIGN_OR_RETURN(const ChatValue* const found, Lookup(*dict, value, work));
    return found != nullptr;
  }
  SHOAL_ASSIGN_OR_RETURN(const std::vector<ChatValue> items, Iterate(container, work));
  for (const ChatValue& item : items) {
    SHOAL_ASSIGN_OR_RETURN(const bool equal, AreEqual(item, value, work));
    if (equal) return true;
  }
  return false;
}

Result<const ChatValue*> Lookup(const ChatDict& dict, const ChatValue& key, ChatWork* work) {
  constexpr std::size_t kItemsPerStep = 16;
  SHOAL_RETURN_IF_ERROR(work->Step(1 + dict.items.size() / kItemsPerStep));
  if (const std::string* text = key.string()) return dict.Find(*text);
  if (!IsHashable(key)) {
    return FailedPrecondition("no key of a dict: a " + std::string(TypeName(key)));
  }
  for (const auto& [name, value] : dict.items) {
    SHOAL_ASSIGN_OR_RETURN(const bool equal, AreEqual(name, key, work));
    if (equal) return &value;
  }
  return static_cast<const ChatValue*>(nullptr);
}

Result<std::vector<ChatValue>> Iterate(const ChatValue& value, ChatWork* work) {
  std::vector<ChatValue> items;
  const auto reserve = [&](std::size_t count) { return work->Make(count * sizeof(ChatValue)); };
  if (const ChatSequence* sequence = value.sequence()) {
    SHOAL_RETURN_IF_ERROR(reserve(sequence->items.size()));
    return sequence->items;
  }
  if (const ChatDict* dict = value.dict()) {
    SHOAL_RETURN_IF_ERROR(reserve(dict->items.size()));
    for (const auto& item : dict->items) items.push_back(item.first);
    return items;
  }
  if (const std::string* text = value.string()) {
    SHOAL_RETURN_IF_ERROR(reserve(CountCharacters(*text)));
    for (std::size_t at = 0, bytes = 0; at < text->size(); at += bytes) {
      CharacterAtByte(*text, at, &bytes);
      items.emplace_back(std::string_view(*text).substr(at, bytes));
    }
    return items;
  }
  if (const auto* shared = value.As<std::shared_ptr<ChatGenerator>>()) {
    ChatGenerator& generator = **shared;
    SHOAL_RETURN_IF_ERROR(reserve(generator.items.size() - generator.next));
    items.assign(generator.items.begin() + static_cast<std::ptrdiff_t>(generator.next),
                 generator.items.end());
    generator.next = generator.items.size();
    return items;
  }
  if (value.is_undefined()) return items;
  return FailedPrecondition("a " + std::string(TypeName(value)) + " cannot be iterated over");
}

namespace {

Status CheckDepth(std::size_t depth) {
  if (depth < kChatDepthMax) return Status::Ok();
  return ResourceExhausted("values nest deeper than " + std::to_string(kChatDepthMax));
}

Status CheckItems(const std::vector<ChatValue>& items, ChatWork* work) {
  SHOAL_RETURN_IF_ERROR(work->Make(items.size() * sizeof(ChatValue)));
  std::size_t depth = 0;
  for (const ChatValue& item : items) depth = std::max(depth, item.depth());
  return CheckDepth(depth);
}

}  // namespace

Result<ChatValue> MakeSequence(SequenceKind kind, std::vector<ChatValue> items, ChatWork* work) {
  SHOAL_RETURN_IF_ERROR(CheckItems(items, work));
  return ChatValue::Sequence(kind, std::move(items));
}

Result<ChatValue> MakeDict(std::vector<std::pair<ChatValue, ChatValue>> items, ChatWork* work) {
  SHOAL_RETURN_IF_ERROR(work->Make(items.size() * 2 * sizeof(ChatValue)));
  std::size_t depth = 0;
  for (const auto& [key, value] : items) {
    if (!IsHashable(key)) {
      return FailedPrecondition("no key of a dict: a " + std::string(TypeName(key)));
    }
    depth = std::max({depth, key.depth(), value.depth()});
  }
  SHOAL_RETURN_IF_ERROR(CheckDepth(depth));
  return ChatValue::Dict(std::move(items));
}

Result<ChatValue> MakeGenerator(std::vector<ChatValue> items, ChatWork* work) {
  SHOAL_RETURN_IF_ERROR(CheckItems(items, work));
  auto generator = std::make_shared<ChatGenerator>();
  for (const ChatValue& item : items) {
    generator->depth = std::max(generator->depth, item.depth() + 1);
  }
  generator->items = std::move(items);
  return ChatValue(ChatValue::Data(std::move(generator)));
}

Result<ChatValue> MakeString(std::string text, ChatWork* work) {
  SHOAL_RETURN_IF_ERROR(work->Make(text.size()));
  return ChatValue(std::move(text));
}

Status UndefinedError(std::string_view name) {
  return FailedPrecondition("'" + std::string(name) + "' is undefined");
}

}  // namespace shoal::dataset
