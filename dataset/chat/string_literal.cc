#include "dataset/chat/string_literal.h"

#include <cstddef>
#include <cstdint>

#include "dataset/chat/characters.h"

namespace shoal::dataset {
namespace {

constexpr std::uint32_t kCharacterMax = 0x10ffff;

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

// Reads up to `count` digits from `at` on, and moves it behind them.
std::uint32_t ReadDigits(std::string_view text, std::uint32_t base, std::size_t count,
                         std::size_t* at) {
  std::uint32_t value = 0;
  for (; count > 0 && *at < text.size(); --count, ++*at) {
    const auto digit = static_cast<std::uint32_t>(DigitOf(text[*at]));
    if (digit >= base) break;
    value = value * base + digit;
  }
  return value;
}

// The escape of a character by its number, \x, \u or \U; `at` is behind that letter.
Status ReadNumbered(std::string_view text, std::size_t digits, std::size_t* at,
                    std::string* result) {
  const std::size_t end = *at + digits;
  const std::uint32_t character = ReadDigits(text, 16, digits, at);
  if (*at != end) return InvalidArgument("an escape in a string is cut short");
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  if (character > kCharacterMax || surrogate) {
    return InvalidArgument("an escape in a string names no character");
  }
  AppendCharacter(character, result);
  return Status::Ok();
}

}  // namespace

Result<std::string> Unescape(std::string_view text) {
  constexpr std::string_view kLetters = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at++];
    if (c != '\\' || at == text.size()) {
      result += c;
      continue;
    }
    const char letter = text[at];
    const std::size_t known = kLetters.find(letter);
    if (known != std::string_view::npos) {
      result += kMeanings[known];
      ++at;
    } else if (letter == '\n') {
      ++at;
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      ++at;
      const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
      SHOAL_RETURN_IF_ERROR(ReadNumbered(text, digits, &at, &result));
    } else if (letter >= '0' && letter <= '7') {
      AppendCharacter(ReadDigits(text, 8, 3, &at), &result);
    } else if (letter == 'N') {
      return InvalidArgument("the escape \\N in a string is not supported");
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace shoal::dataset
