#include "dataset/tokenizers/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <new>
#include <utility>

#include "common/status.h"
#include "dataset/word_splitter.h"

namespace shoal::dataset {
namespace {

constexpr char32_t kCapitalIWithDot = 0x130;  // the one character whose lower case has two
constexpr char32_t kCombiningDot = 0x307;

utf8proc_category_t CategoryOf(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

utf8proc_option_t OptionsOf(NormalForm form) {
  int options = UTF8PROC_STABLE;
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  options |= composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

// Characters whose forms `tokenizers` 0.23 does not know: they came after Unicode 12.
bool StaysWhole(char32_t code) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},   {0xab69, 0xab69},   {0x10781, 0x107ba},
      {0x11938, 0x11938}, {0x1e030, 0x1e06d}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9}};
  return std::any_of(std::begin(kRanges), std::end(kRanges), [code](const auto& range) {
    return code >= range.first && code <= range.second;
  });
}

std::string NormalizedRun(NormalForm form, std::string_view text) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &made, OptionsOf(form));
  if (bytes == UTF8PROC_ERROR_NOMEM || bytes == UTF8PROC_ERROR_OVERFLOW) throw std::bad_alloc();
  SHOAL_CHECK(bytes >= 0);  // the only other error is text that is not well-formed
  std::string normalized(reinterpret_cast<const char*>(made), static_cast<std::size_t>(bytes));
  std::free(made);
  return normalized;
}

}  // namespace

Character FirstCharacter(std::string_view text) {
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(std::min<std::size_t>(text.size(), 4)), &code);
  SHOAL_CHECK(bytes > 0);  // texts are well-formed here
  return {static_cast<char32_t>(code), static_cast<std::size_t>(bytes)};
}

void AppendCharacter(char32_t code, std::string* text) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  text->append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

std::string WithoutDamage(std::string_view text) {
  std::string whole;
  whole.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = Utf8Length(text);
    whole += bytes == 0 ? std::string_view(kReplacement) : text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return whole;
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<std::uint8_t>(c) < 0x80; });
}

std::string Normalized(NormalForm form, std::string_view text) {
  if (IsAscii(text)) return std::string(text);
  std::string made;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = FirstCharacter(text.substr(at));
    if (StaysWhole(character.code)) {
      made += NormalizedRun(form, text.substr(begin, at - begin));
      made += text.substr(at, character.bytes);
      begin = at + character.bytes;
    }
    at += character.bytes;
  }
  return made + NormalizedRun(form, text.substr(begin));
}

void ReplaceAll(std::string_view from, std::string_view to, std::string* text) {
  if (from.empty()) return;
  for (std::size_t at = text->find(from); at != std::string::npos;
       at = text->find(from, at + to.size())) {
    text->replace(at, from.size(), to);
  }
}

void AppendLower(char32_t code, std::string* text) {
  if (code == kCapitalIWithDot) {
    text->push_back('i');
    return AppendCharacter(kCombiningDot, text);
  }
  AppendCharacter(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))),
                  text);
}

bool IsWhiteSpace(char32_t code) {
  if ((code >= '\t' && code <= '\r') || code == 0x85) return true;
  const utf8proc_category_t category = CategoryOf(code);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool IsMark(char32_t code) {
  const utf8proc_category_t category = CategoryOf(code);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool IsNonSpacingMark(char32_t code) { return CategoryOf(code) == UTF8PROC_CATEGORY_MN; }

bool IsNumber(char32_t code) {
  const utf8proc_category_t category = CategoryOf(code);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool IsPunctuation(char32_t code) {
  if (code < 0x80) {
    const bool alphanumeric = (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') ||
                              (code >= 'a' && code <= 'z');
    return code > ' ' && code < 0x7f && !alphanumeric;
  }
  const utf8proc_category_t category = CategoryOf(code);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool IsControl(char32_t code) {
  const utf8proc_category_t category = CategoryOf(code);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

std::vector<std::string_view> Graphemes(std::string_view text) {
  std::vector<std::string_view> clusters;
  utf8proc_int32_t state = 0;
  std::size_t begin = 0, at = 0;
  char32_t before = 0;
  while (at < text.size()) {
    const Character character = FirstCharacter(text.substr(at));
    if (at > 0 &&
        utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                         static_cast<utf8proc_int32_t>(character.code), &state)) {
      clusters.push_back(text.substr(begin, at - begin));
      begin = at;
    }
    before = character.code;
    at += character.bytes;
  }
  if (begin < at) clusters.push_back(text.substr(begin));
  return clusters;
}

}  // namespace shoal::dataset
