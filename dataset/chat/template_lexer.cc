#include "dataset/chat/template_lexer.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "dataset/chat/characters.h"
#include "dataset/chat/string_literal.h"

namespace shoal::dataset {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Line ends become \n; one at the end of the text does not count.
std::string NormalizedLines(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      result += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      result += text[i];
    }
  }
  if (result.ends_with('\n')) result.pop_back();
  return result;
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(NormalizedLines(text)), left_(text_) {}

  Result<std::vector<Token>> Run() {
    while (at_ < text_.size()) SHOAL_RETURN_IF_ERROR(Outside());
    Push(TemplateTokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  // Text up to the next tag, and that tag.
  Status Outside() {
    std::size_t open = text_.find('{', at_);
    while (open != std::string::npos &&
           (open + 1 == text_.size() ||
            std::string_view("{%#").find(text_[open + 1]) == std::string_view::npos)) {
      open = text_.find('{', open + 1);
    }
    if (open == std::string::npos) {
      PushText(left_.substr(at_));
      CountLines(left_.substr(at_));
      at_ = text_.size();
      return Status::Ok();
    }
    const char kind = text_[open + 1];
    const std::size_t text_begin = at_;
    at_ = open + 2;
    const char sign = TakeSign();
    PushStripped(left_.substr(text_begin, open - text_begin), sign, kind == '{');
    if (kind == '#') return Comment();
    if (kind == '%' && TakeRawBegin()) return Raw();
    return Inside(kind == '{');
  }

  char TakeSign() {
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) return text_[at_++];
    return '\0';
  }

  void PushText(std::string_view text) {
    if (!text.empty()) Push(TemplateTokenKind::kText).text = text;
  }

  // The text before a tag, with what its sign and lstrip_blocks take away.
  void PushStripped(std::string_view text, char sign, bool is_output) {
    std::string_view kept = text;
    if (sign == '-') {
      kept = StripSpaces(text, Side::kRight);
    } else if (sign != '+' && !is_output) {
      const std::size_t line_begin = text.rfind('\n') + 1;  // 0 if there is none
      if ((line_begin > 0 || line_starting_) &&
          StripSpaces(text.substr(line_begin), Side::kLeft).empty()) {
        kept = text.substr(0, line_begin);
      }
    }
    PushText(kept);
    CountLines(text);
  }

  void CountLines(std::string_view text) {
    line_ += static_cast<std::int32_t>(std::count(text.begin(), text.end(), '\n'));
  }

  void SkipSpaces() {
    const std::string_view rest = left_.substr(at_);
    const std::size_t bytes = rest.size() - StripSpaces(rest, Side::kLeft).size();
    CountLines(rest.substr(0, bytes));
    at_ += bytes;
  }

  bool Take(std::string_view word) {
    if (left_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  // An end such as %} with its sign, and what it takes away behind it. `trims`: without a sign a
  // line end behind it goes, too.
  bool TakeEnd(std::string_view end, bool trims) {
    const std::size_t begin = at_;
    if (Take("-")) {
      if (!Take(end)) {
        at_ = begin;
        return false;
      }
      SkipSpaces();
    } else if (trims && Take("+")) {
      if (!Take(end)) {
        at_ = begin;
        return false;
      }
    } else if (!Take(end)) {
      return false;
    } else if (trims && at_ < text_.size() && text_[at_] == '\n') {
      ++at_;
      ++line_;
    }
    line_starting_ = text_[at_ - 1] == '\n';
    return true;
  }

  Status Comment() {
    const std::int32_t line = line_;
    std::size_t end = text_.find("#}", at_);
    if (end == std::string::npos) return TemplateError(line, "a comment is not closed");
    if (end > at_ && (text_[end - 1] == '-' || text_[end - 1] == '+')) --end;
    CountLines(left_.substr(at_, end - at_));
    at_ = end;
    SHOAL_CHECK(TakeEnd("#}", true));
    return Status::Ok();
  }

  // Whether "raw %}" stands here; then it is taken.
  bool TakeRawBegin() {
    const std::size_t begin = at_;
    const std::int32_t line = line_;
    SkipSpaces();
    if (Take("raw")) {
      SkipSpaces();
      const bool strips = Take("-%}");
      if (strips || Take("%}")) {
        if (strips) SkipSpaces();
        line_starting_ = text_[at_ - 1] == '\n';
        return true;
      }
    }
    at_ = begin;
    line_ = line;
    return false;
  }

  Status Raw() {
    const std::int32_t line = line_;
    const std::size_t text_begin = at_;
    for (std::size_t open = text_.find("{%", at_); open != std::string::npos;
         open = text_.find("{%", open + 1)) {
      const std::int32_t line_before = line_;
      at_ = open + 2;
      const char sign = TakeSign();
      SkipSpaces();
      if (Take("endraw")) {
        SkipSpaces();
        const bool starting = line_starting_;
        if (TakeEnd("%}", true)) {
          const std::size_t end = at_;
          const bool ends_line = line_starting_;
          line_ = line;
          line_starting_ = starting;
          PushStripped(left_.substr(text_begin, open - text_begin), sign, false);
          CountLines(left_.substr(open, end - open));
          line_starting_ = ends_line;
          return Status::Ok();
        }
      }
      line_ = line_before;
    }
    return TemplateError(line, "{% raw %} is not closed");
  }

  Status Inside(bool is_output) {
    Push(is_output ? TemplateTokenKind::kOutputBegin : TemplateTokenKind::kTagBegin);
    brackets_.clear();
    while (at_ < text_.size()) {
      const std::int32_t line = line_;
      if (brackets_.empty() && TakeEnd(is_output ? "}}" : "%}", !is_output)) {
        Push(is_output ? TemplateTokenKind::kOutputEnd : TemplateTokenKind::kTagEnd).line = line;
        return Status::Ok();
      }
      const std::size_t begin = at_;
      SkipSpaces();
      if (at_ == begin) SHOAL_RETURN_IF_ERROR(Word());
    }
    return Status::Ok();  // the parser misses the end
  }

  Status Word() {
    if (tokens_.size() >= kTemplateTokensMax) {
      return TemplateError(
          line_, "the template has more than " + std::to_string(kTemplateTokensMax) + " words");
    }
    const char c = text_[at_];
    if (IsDigit(c)) return Number();
    if (c == '\'' || c == '"') return String();
    if (!IsNameStart(c)) return Operator();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (IsNameStart(text_[at_]) || IsDigit(text_[at_]))) ++at_;
    Push(TemplateTokenKind::kName).text = left_.substr(begin, at_ - begin);
    return Status::Ok();
  }

  // The end of a run of digits, single underscores between them, that begins at `begin`.
  std::size_t EndOfDigits(std::size_t begin) const {
    std::size_t end = begin;
    while (end < text_.size() &&
           (IsDigit(text_[end]) || (text_[end] == '_' && end > begin && end + 1 < text_.size() &&
                                    IsDigit(text_[end + 1])))) {
      ++end;
    }
    return end;
  }
  bool IsDigitAt(std::size_t at) const { return at < text_.size() && IsDigit(text_[at]); }

  Status Number() {
    const std::size_t begin = at_;
    std::size_t end = EndOfDigits(begin);
    bool is_float = false;
    if (begin == 0 || text_[begin - 1] != '.') {
      if (end < text_.size() && text_[end] == '.' && IsDigitAt(end + 1)) {
        end = EndOfDigits(end + 1);
        is_float = true;
      }
      if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
        const bool sign =
            end + 1 < text_.size() && (text_[end + 1] == '+' || text_[end + 1] == '-');
        const std::size_t digits = end + (sign ? 2 : 1);
        if (IsDigitAt(digits)) {
          end = EndOfDigits(digits);
          is_float = true;
        }
      }
    }
    if (end < text_.size() && IsNameStart(text_[end])) {
      return TemplateError(line_, "a number runs into a name");
    }
    std::string digits(left_.substr(begin, end - begin));
    std::erase(digits, '_');
    at_ = end;
    Token& token = Push(is_float ? TemplateTokenKind::kFloat : TemplateTokenKind::kInteger);
    const char *const first = digits.data(), *const last = first + digits.size();
    if (is_float) {
      return std::from_chars(first, last, token.number).ec == std::errc()
                 ? Status::Ok()
                 : TemplateError(line_, "a number is too large");
    }
    if (digits.size() > 1 && digits[0] == '0') {
      return TemplateError(line_, "a number begins with 0");
    }
    return std::from_chars(first, last, token.integer).ec == std::errc()
               ? Status::Ok()
               : TemplateError(line_, "a whole number is beyond 64 bits");
  }

  Status String() {
    const char quote = text_[at_];
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return TemplateError(line_, "a string is not closed");
    const std::string_view inside = left_.substr(at_ + 1, end - at_ - 1);
    Result<std::string> value = Unescape(inside);
    if (!value.ok()) return TemplateError(line_, value.status().message());
    Push(TemplateTokenKind::kString).text = std::move(*value);
    CountLines(inside);
    at_ = end + 1;
    return Status::Ok();
  }

  Status Operator() {
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (Take(two)) {
        Push(TemplateTokenKind::kOperator).text = two;
        return Status::Ok();
      }
    }
    const char c = text_[at_];
    if (std::string_view("+-/*%~[](){}><=.:|,").find(c) == std::string_view::npos) {
      std::size_t bytes = 1;
      CharacterAtByte(left_, at_, &bytes);
      return TemplateError(
          line_, "'" + std::string(left_.substr(at_, bytes)) + "' does not belong into a tag");
    }
    const std::size_t opens = std::string_view("([{").find(c);
    const bool closes = std::string_view(")]}").find(c) != std::string_view::npos;
    if (opens != std::string_view::npos) {
      brackets_ += std::string_view(")]}")[opens];
    } else if (closes) {
      if (brackets_.empty() || brackets_.back() != c) {
        return TemplateError(line_, std::string("unexpected '") + c + "'");
      }
      brackets_.pop_back();
    }
    Push(TemplateTokenKind::kOperator).text = c;
    ++at_;
    return Status::Ok();
  }

  Token& Push(TemplateTokenKind kind) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.line = line_;
    return token;
  }

  const std::string text_;
  const std::string_view left_;  // text_, of which substr copies nothing
  std::size_t at_ = 0;
  std::int32_t line_ = 1;
  bool line_starting_ = true;
  std::string brackets_;  // that are still to be closed
  std::vector<Token> tokens_;
};

}  // namespace

Status TemplateError(std::int32_t line, std::string_view message) {
  return InvalidArgument("line " + std::to_string(line) + ": " + std::string(message));
}

Result<std::vector<Token>> LexTemplate(std::string_view text) {
  if (text.size() > kTemplateBytesMax) {
    return InvalidArgument("the template has more than " + std::to_string(kTemplateBytesMax) +
                           " bytes");
  }
  if (!IsUtf8(text)) return InvalidArgument("the template is not UTF-8");
  return Lexer(text).Run();
}

}  // namespace shoal::dataset
