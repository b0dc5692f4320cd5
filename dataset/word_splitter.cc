#include "dataset/word_splitter.h"

#include <cstdint>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace shoal::dataset {
namespace {

// White space as Unicode's White_Space property: PCRE2's own \s also takes U+180E, which Unicode
// does not count since 6.3.
#define SHOAL_SPACE "\\p{Z}\\t-\\r\\x{85}"

// Repeats are possessive, which changes no match (nothing follows them) and needs no stack. The
// look-ahead of GPT-2's `\s+(?!\S)` is done by MatchLength: group 1 marks white space.
constexpr char kPattern[] =
    "'(?:[stmd]|re|ve|ll)"
    "| ?\\p{L}++"
    "| ?\\p{N}++"
    "| ?[^\\p{L}\\p{N}" SHOAL_SPACE
    "]++"
    "|([" SHOAL_SPACE "]++)";
#undef SHOAL_SPACE

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsPrintable(char c) { return c > 0x20 && c < 0x7f; }

bool IsContinuation(char c) { return (static_cast<std::uint8_t>(c) & 0xc0) == 0x80; }

}  // namespace

struct WordPattern::Code {
  ~Code() { pcre2_code_free(value); }
  pcre2_code* value = nullptr;
  bool jit = false;  // not everywhere: hardened systems forbid executable memory
};

WordPattern::WordPattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
WordPattern::~WordPattern() = default;

Result<std::shared_ptr<const WordPattern>> WordPattern::Compile() {
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_unique<Code>();
  code->value = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern), PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_NO_START_OPTIMIZE,
                              &error, &offset, nullptr);
  if (code->value == nullptr) {
    return Internal("PCRE2 refuses the word pattern (error " + std::to_string(error) +
                    "): it was built without Unicode; install the system's libpcre2-8");
  }
  code->jit = pcre2_jit_compile(code->value, PCRE2_JIT_COMPLETE) == 0;
  return std::shared_ptr<const WordPattern>(new WordPattern(std::move(code)));
}

struct WordSplitter::Match {
  ~Match() { pcre2_match_data_free(data); }
  pcre2_match_data* data = nullptr;
};

WordSplitter::WordSplitter(std::shared_ptr<const WordPattern> pattern)
    : pattern_(std::move(pattern)), match_(std::make_unique<Match>()) {
  match_->data = pcre2_match_data_create(2, nullptr);
  SHOAL_CHECK(match_->data != nullptr);
}
WordSplitter::~WordSplitter() = default;

void WordSplitter::Start(std::string_view text) {
  text_ = text;
  position_ = 0;
  valid_end_ = 0;
}

bool WordSplitter::Next(std::string_view* word) {
  if (position_ == valid_end_) {
    if (position_ == text_.size()) return false;
    while (valid_end_ < text_.size()) {
      const std::size_t length = Utf8Length(text_.substr(valid_end_));
      if (length == 0) break;
      valid_end_ += length;
    }
    if (position_ == valid_end_) {
      *word = text_.substr(position_, 1);
      valid_end_ = ++position_;
      return true;
    }
  }
  const std::size_t length = MatchLength();
  *word = text_.substr(position_, length);
  position_ += length;
  return true;
}

std::size_t WordSplitter::MatchLength() const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text_.data() + position_);
  const std::size_t size = valid_end_ - position_;
  const WordPattern::Code& code = *pattern_->code_;
  const int groups =
      code.jit
          ? pcre2_jit_match(code.value, subject, size, 0, 0, match_->data, nullptr)
          : pcre2_match(code.value, subject, size, 0, PCRE2_NO_UTF_CHECK, match_->data, nullptr);
  // Every character matches one of the alternatives, whatever the text.
  SHOAL_CHECK(groups >= 1);
  std::size_t length = pcre2_get_ovector_pointer(match_->data)[1];
  if (groups < 2 || length == size) return length;
  // White space before a word: its last character may belong to that word.
  std::size_t last = length - 1;
  while (last > 0 && IsContinuation(text_[position_ + last])) --last;
  return last > 0 ? last : length;
}

std::size_t Utf8Length(std::string_view text) {
  if (text.empty()) return 0;
  const auto lead = static_cast<std::uint8_t>(text[0]);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  const auto second = static_cast<std::uint8_t>(text[1]);
  if (lead == 0xe0 && second < 0xa0) return 0;  // overlong
  if (lead == 0xed && second > 0x9f) return 0;  // surrogate
  if (lead == 0xf0 && second < 0x90) return 0;  // overlong
  if (lead == 0xf4 && second > 0x8f) return 0;  // beyond U+10FFFF
  return length;
}

std::size_t FindWordBreak(std::string_view text, std::size_t from) {
  for (std::size_t p = from < 2 ? 2 : from; p + 1 < text.size(); ++p) {
    if (text[p] == ' ' && IsLetter(text[p - 1]) && IsLetter(text[p + 1])) return p;
    if (text[p - 1] == '\n' && IsPrintable(text[p - 2]) && IsPrintable(text[p])) return p;
  }
  return text.size();
}

}  // namespace shoal::dataset
