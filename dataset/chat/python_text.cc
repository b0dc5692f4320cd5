// str(), repr() and json.dumps() of values.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "dataset/chat/characters.h"
#include "dataset/chat/python_values.h"

namespace shoal::dataset {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

void AppendHex(std::uint32_t value, int digits, std::string* text) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    *text += kHexDigits[value >> shift & 0xf];
  }
}

void AppendReprOfCharacter(std::uint32_t c, char quote, std::string* text) {
  if (c == '\n') {
    *text += "\\n";
  } else if (c == '\r') {
    *text += "\\r";
  } else if (c == '\t') {
    *text += "\\t";
  } else if (c == '\\' || c == static_cast<std::uint32_t>(quote)) {
    *text += '\\';
    *text += static_cast<char>(c);
  } else if (IsPrintable(c)) {
    AppendCharacter(c, text);
  } else if (c < 0x100) {
    *text += "\\x";
    AppendHex(c, 2, text);
  } else if (c < 0x10000) {
    *text += "\\u";
    AppendHex(c, 4, text);
  } else {
    *text += "\\U";
    AppendHex(c, 8, text);
  }
}

void AppendStringRepr(std::string_view value, std::string* text) {
  const bool single = value.find('\'') != std::string_view::npos;
  const char quote = single && value.find('"') == std::string_view::npos ? '"' : '\'';
  *text += quote;
  for (std::size_t at = 0, bytes = 0; at < value.size(); at += bytes) {
    AppendReprOfCharacter(CharacterAtByte(value, at, &bytes), quote, text);
  }
  *text += quote;
}

void AppendJsonEscape(std::uint32_t unit, std::string* text) {
  *text += "\\u";
  AppendHex(unit, 4, text);
}

void AppendJsonCharacter(std::uint32_t c, bool ensure_ascii, std::string* text) {
  constexpr std::string_view kShort = "\"\\\n\r\t\f\b";
  constexpr std::string_view kNames = "\"\\nrtfb";
  const std::size_t known = c < 0x80 ? kShort.find(static_cast<char>(c)) : std::string_view::npos;
  if (known != std::string_view::npos) {
    *text += '\\';
    *text += kNames[known];
  } else if (c < 0x20 || (ensure_ascii && c > 0x7f && c < 0x10000)) {
    AppendJsonEscape(c, text);
  } else if (ensure_ascii && c >= 0x10000) {
    AppendJsonEscape(0xd800 + ((c - 0x10000) >> 10), text);
    AppendJsonEscape(0xdc00 + ((c - 0x10000) & 0x3ff), text);
  } else {
    AppendCharacter(c, text);
  }
}

void AppendJsonString(std::string_view value, bool ensure_ascii, std::string* text) {
  *text += '"';
  for (std::size_t at = 0, bytes = 0; at < value.size(); at += bytes) {
    AppendJsonCharacter(CharacterAtByte(value, at, &bytes), ensure_ascii, text);
  }
  *text += '"';
}

// What is one word in both forms. False: `value` is something else.
bool AppendPlain(const ChatValue& value, bool json, std::string* text) {
  if (value.is_none()) {
    *text += json ? "null" : "None";
  } else if (const bool* flag = value.As<bool>()) {
    *text += json ? (*flag ? "true" : "false") : (*flag ? "True" : "False");
  } else if (const std::int64_t* whole = value.As<std::int64_t>()) {
    *text += std::to_string(*whole);
  } else if (const double* number = value.As<double>()) {
    if (!json || std::isfinite(*number)) {
      *text += FloatText(*number);
    } else {
      *text += std::isnan(*number) ? "NaN" : *number > 0 ? "Infinity" : "-Infinity";
    }
  } else {
    return false;
  }
  return true;
}

// repr(), and with it str() of containers. Depth: of values, kChatDepthMax.
class ReprWriter {
 public:
  explicit ReprWriter(ChatWork* work) : work_(work) {}

  Status Write(const ChatValue& value) {
    SHOAL_RETURN_IF_ERROR(work_->Step());
    if (AppendPlain(value, false, &text_)) return Status::Ok();
    if (value.is_undefined()) {
      text_ += "Undefined";
      return Status::Ok();
    }
    if (const std::string* text = value.string()) {
      SHOAL_RETURN_IF_ERROR(work_->Make(text->size()));
      AppendStringRepr(*text, &text_);
      return Status::Ok();
    }
    if (const ChatDict* dict = value.dict()) return WriteDict(*dict);
    const ChatSequence* sequence = value.sequence();
    const bool is_list = sequence != nullptr && sequence->kind == SequenceKind::kList;
    if (!is_list && (sequence == nullptr || sequence->kind != SequenceKind::kTuple)) {
      return FailedPrecondition("a " + std::string(TypeName(value)) +
                                " cannot be printed; make it a list");
    }
    return WriteItems(sequence->items, is_list);
  }
  std::string Take() { return std::move(text_); }

 private:
  Status WriteItems(const std::vector<ChatValue>& items, bool is_list) {
    text_ += is_list ? '[' : '(';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text_ += ", ";
      SHOAL_RETURN_IF_ERROR(Write(items[i]));
    }
    if (!is_list && items.size() == 1) text_ += ',';
    text_ += is_list ? ']' : ')';
    return Status::Ok();
  }
  Status WriteDict(const ChatDict& dict) {
    text_ += '{';
    for (std::size_t i = 0; i < dict.items.size(); ++i) {
      if (i > 0) text_ += ", ";
      SHOAL_RETURN_IF_ERROR(Write(dict.items[i].first));
      text_ += ": ";
      SHOAL_RETURN_IF_ERROR(Write(dict.items[i].second));
    }
    text_ += '}';
    return Status::Ok();
  }

  ChatWork* const work_;
  std::string text_;
};

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, ChatWork* work) : style_(style), work_(work) {}

  Status Write(const ChatValue& value) {
    SHOAL_RETURN_IF_ERROR(work_->Step());
    if (AppendPlain(value, true, &text_)) return Status::Ok();
    if (const std::string* text = value.string()) {
      SHOAL_RETURN_IF_ERROR(work_->Make(text->size()));
      AppendJsonString(*text, style_.ensure_ascii, &text_);
      return Status::Ok();
    }
    if (const ChatDict* dict = value.dict()) return WriteDict(*dict);
    const ChatSequence* sequence = value.sequence();
    if (sequence == nullptr ||
        (sequence->kind != SequenceKind::kList && sequence->kind != SequenceKind::kTuple)) {
      return FailedPrecondition("a value of type " + std::string(TypeName(value)) +
                                " has no form in JSON");
    }
    return WriteItems(sequence->items);
  }
  std::string Take() { return std::move(text_); }

 private:
  Status NewLine() {
    if (!style_.indent) return Status::Ok();
    text_ += '\n';
    SHOAL_RETURN_IF_ERROR(work_->Make(style_.indent->size() * level_));
    for (std::size_t i = 0; i < level_; ++i) text_ += *style_.indent;
    return Status::Ok();
  }
  // `each(i)` writes item `i` of `count`.
  template <typename Each>
  Status WriteAll(char open, std::size_t count, char close, Each each) {
    text_ += open;
    ++level_;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) text_ += style_.item_separator;
      SHOAL_RETURN_IF_ERROR(NewLine());
      SHOAL_RETURN_IF_ERROR(each(i));
    }
    --level_;
    if (count > 0) SHOAL_RETURN_IF_ERROR(NewLine());
    text_ += close;
    return Status::Ok();
  }
  Status WriteItems(const std::vector<ChatValue>& items) {
    return WriteAll('[', items.size(), ']', [&](std::size_t i) { return Write(items[i]); });
  }
  Status WriteDict(const ChatDict& dict) {
    std::vector<const std::pair<ChatValue, ChatValue>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) {
      for (const auto* item : items) {
        if (item->first.string() == nullptr) {
          return FailedPrecondition("sort_keys needs keys that are strings");
        }
      }
      std::sort(items.begin(), items.end(), [](const auto* a, const auto* b) {
        return *a->first.string() < *b->first.string();
      });
    }
    return WriteAll('{', items.size(), '}', [&](std::size_t i) {
      SHOAL_RETURN_IF_ERROR(WriteKey(items[i]->first));
      text_ += style_.key_separator;
      return Write(items[i]->second);
    });
  }
  Status WriteKey(const ChatValue& key) {
    if (key.string() != nullptr) return Write(key);
    text_ += '"';
    if (!AppendPlain(key, true, &text_)) {
      return FailedPrecondition("a " + std::string(TypeName(key)) + " is no key in JSON");
    }
    text_ += '"';
    return Status::Ok();
  }

  const JsonStyle& style_;
  ChatWork* const work_;
  std::string text_;
  std::size_t level_ = 0;
};

}  // namespace

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 40> buffer;  // the shortest digits of any double fit
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                     std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
  const std::size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  std::string result = text[0] == '-' ? "-" : "";
  // Where repr() begins to write exponents.
  constexpr int kFirstExponent = 16, kLastFraction = -4;
  if (exponent >= kFirstExponent || exponent < kLastFraction) {
    result += digits[0];
    if (digits.size() > 1) result += "." + digits.substr(1);
    const std::string size = std::to_string(std::abs(exponent));
    return result + (exponent < 0 ? "e-" : "e+") + (size.size() < 2 ? "0" : "") + size;
  }
  if (exponent < 0)
    return result + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  const std::string fraction = digits.substr(whole);
  return result + digits.substr(0, whole) + "." + (fraction.empty() ? "0" : fraction);
}

Result<std::string> TextOf(const ChatValue& value, ChatWork* work) {
  if (value.is_undefined()) return std::string();
  if (const std::string* text = value.string()) {
    SHOAL_RETURN_IF_ERROR(work->Make(text->size()));
    return *text;
  }
  ReprWriter writer(work);
  SHOAL_RETURN_IF_ERROR(writer.Write(value));
  return writer.Take();
}

Result<std::string> JsonText(const ChatValue& value, const JsonStyle& style, ChatWork* work) {
  JsonWriter writer(style, work);
  SHOAL_RETURN_IF_ERROR(writer.Write(value));
  return writer.Take();
}

}  // namespace shoal::dataset
