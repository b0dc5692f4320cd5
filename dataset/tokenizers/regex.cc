#include "dataset/tokenizers/regex.h"

#include <cctype>
#include <cstdint>
#include <stdexcept>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace shoal::dataset {
namespace {

constexpr std::size_t kPatternBytesMax = 16384;
// Bounds of one match, so that a foreign pattern cannot take all memory or time.
constexpr std::uint32_t kHeapKibMax = 256 * 1024;
constexpr std::uint32_t kStepsMax = 10'000'000;

// Unicode's White_Space. PCRE2's \s also takes U+180E, which is none since Unicode 6.3.
constexpr char kSpaceInClass[] = "\\p{Z}\\t-\\r\\x{85}";
// Alphabetic, marks, decimal digits, connectors: Oniguruma's \w.
constexpr char kWordInClass[] =
    "\\p{L}\\p{Nl}\\p{M}\\p{Nd}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";
// Letters that came with Unicode 15, where PCRE2's tables are of Unicode 14.
constexpr char kLettersInClass[] =
    "\\p{L}\\x{11240}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1df25}-\\x{1df2a}"
    "\\x{1e030}-\\x{1e06d}\\x{1e4d0}-\\x{1e4eb}\\x{31350}-\\x{323af}";
constexpr char kNumbersInClass[] =
    "\\p{N}\\x{11f50}-\\x{11f59}\\x{1d2c0}-\\x{1d2d3}\\x{1e4f0}-\\x{1e4f9}";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> Run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        SHOAL_RETURN_IF_ERROR(Escape());
        continue;
      }
      if (in_class_) {
        SHOAL_RETURN_IF_ERROR(InClass(c));
      } else if (c == '[') {
        in_class_ = true;
        class_begin_ = at_ + (Next() == '^' ? 2 : 1);
      } else if (c == '^' || c == '$') {
        return Refused(std::string(1, c));
      }
      made_ += pattern_[at_];
      ++at_;
    }
    if (in_class_) return InvalidArgument("the pattern has a class without its ]");
    return made_;
  }

 private:
  char Next(std::size_t ahead = 1) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }

  Status Refused(const std::string& what) const {
    return InvalidArgument("the pattern has '" + what + "' at byte " + std::to_string(at_) +
                           ", which shoal does not have");
  }

  Status InClass(char c) {
    if (c == '[' && Next() != ':') return Refused("[ inside [");
    if (c == '[') {  // [:name:]
      const std::size_t end = pattern_.find(":]", at_);
      if (end == std::string_view::npos) return Refused("[: without :]");
      made_ += pattern_.substr(at_, end + 1 - at_);
      at_ = end + 1;  // at its ], which closes no class
      return Status::Ok();
    }
    if (c == '&' && Next() == '&') return Refused("&&");
    if (c == ']' && at_ > class_begin_) in_class_ = false;
    return Status::Ok();
  }

  void Add(const char* in_class, bool negated) {
    if (in_class_) {
      made_ += in_class;
    } else {
      made_ += std::string(negated ? "[^" : "[") + in_class + "]";
    }
  }

  Status Escape() {
    const char c = Next();
    if (c == '\0') return Refused("\\");
    const bool upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    if (c == 's' || c == 'S' || c == 'w' || c == 'W') {
      if (upper && in_class_) return Refused(std::string("\\") + c + " inside [");
      Add(c == 's' || c == 'S' ? kSpaceInClass : kWordInClass, upper);
      at_ += 2;
      return Status::Ok();
    }
    if (c == 'p' || c == 'P') return Property();
    if (c == 'u') return CodePoint();
    if (std::string_view("hHbBGKkgXRyYQEcCM0123456789").find(c) != std::string_view::npos) {
      return Refused(std::string("\\") + c);
    }
    made_ += '\\';
    made_ += c;
    at_ += 2;
    return Status::Ok();
  }

  // \p{name}, \P{name}, \p{^name}.
  Status Property() {
    const std::size_t end = pattern_.find('}', at_);
    if (Next(2) != '{' || end == std::string_view::npos) return Refused("\\p without {}");
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    bool negated = Next() == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const bool letters = name == "L", numbers = name == "N";
    if ((letters || numbers) && !(negated && in_class_)) {
      Add(letters ? kLettersInClass : kNumbersInClass, negated);
    } else {
      made_ += (negated ? "\\P{" : "\\p{") + std::string(name) + "}";
    }
    at_ = end + 1;
    return Status::Ok();
  }

  // \uHHHH
  Status CodePoint() {
    for (std::size_t i = 2; i < 6; ++i) {
      if (std::isxdigit(static_cast<unsigned char>(Next(i))) == 0) return Refused("\\u");
    }
    made_ += "\\x{" + std::string(pattern_.substr(at_ + 2, 4)) + "}";
    at_ += 6;
    return Status::Ok();
  }

  const std::string_view pattern_;
  std::string made_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::size_t class_begin_ = 0;  // a ] here is a letter
};

}  // namespace

Result<std::string> PcrePattern(std::string_view pattern) {
  if (pattern.size() > kPatternBytesMax) {
    return InvalidArgument("the pattern has " + std::to_string(pattern.size()) + " bytes; " +
                           std::to_string(kPatternBytesMax) + " are the most");
  }
  return Translator(pattern).Run();
}

struct Regex::Code {
  ~Code() {
    pcre2_match_context_free(context);
    pcre2_code_free(value);
  }
  pcre2_code* value = nullptr;
  pcre2_match_context* context = nullptr;
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

Result<Regex> Regex::Compile(std::string_view pattern) {
  SHOAL_ASSIGN_OR_RETURN(const std::string translated, PcrePattern(pattern));
  auto code = std::make_unique<Code>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->value =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code->value == nullptr) {
    PCRE2_UCHAR words[256] = {};
    pcre2_get_error_message(error, words, sizeof(words));
    return InvalidArgument("the pattern is no regular expression that shoal reads: " +
                           std::string(reinterpret_cast<const char*>(words)));
  }
  pcre2_jit_compile(code->value, PCRE2_JIT_COMPLETE);  // where the system forbids it, slower
  code->context = pcre2_match_context_create(nullptr);
  SHOAL_CHECK(code->context != nullptr);
  pcre2_set_heap_limit(code->context, kHeapKibMax);
  pcre2_set_match_limit(code->context, kStepsMax);
  return Regex(std::move(code));
}

bool Regex::Find(std::string_view text, std::size_t from, std::size_t* begin,
                 std::size_t* end) const {
  struct Freed {
    ~Freed() { pcre2_match_data_free(data); }
    pcre2_match_data* data;
  };
  // Made once a thread: a search takes less time than that. Patterns have no use for more pairs.
  thread_local const Freed match{pcre2_match_data_create(1, nullptr)};
  SHOAL_CHECK(match.data != nullptr);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  constexpr std::uint32_t kOptions = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
  int found =
      pcre2_match(code_->value, subject, text.size(), from, kOptions, match.data, code_->context);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
    found = pcre2_match(code_->value, subject, text.size(), from, kOptions | PCRE2_NO_JIT,
                        match.data, code_->context);
  }
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0) {
    throw std::runtime_error("a pattern of the tokenizer takes too much memory or time (PCRE2 " +
                             std::to_string(found) + ")");
  }
  const PCRE2_SIZE* pair = pcre2_get_ovector_pointer(match.data);
  *begin = pair[0];
  *end = pair[1];
  return true;
}

}  // namespace shoal::dataset
