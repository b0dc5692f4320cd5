// What tokenizers need of Unicode: characters of UTF-8, their categories, normal forms.
//
// Texts are well-formed UTF-8 (Utf8Length of word_splitter.h); WithoutDamage makes them so. Tables
// are utf8proc's. Thread: any.

#ifndef SHOAL_DATASET_TOKENIZERS_UNICODE_H_
#define SHOAL_DATASET_TOKENIZERS_UNICODE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::dataset {

inline constexpr char kReplacement[] = "\xef\xbf\xbd";  // U+FFFD
// U+2581, which stands for a space in SentencePiece's vocabularies.
inline constexpr char kMetaspace[] = "\xe2\x96\x81";

struct Character {
  char32_t code = 0;
  std::size_t bytes = 1;
};

// The first character of a text that is not empty.
Character FirstCharacter(std::string_view text);
void AppendCharacter(char32_t code, std::string* text);

// Every byte that starts no well-formed character becomes U+FFFD.
std::string WithoutDamage(std::string_view text);
bool IsAscii(std::string_view text);
// An empty `from` replaces nothing.
void ReplaceAll(std::string_view from, std::string_view to, std::string* text);

enum class NormalForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };
std::string Normalized(NormalForm form, std::string_view text);

// Lower case of one character, by Unicode's full mapping without context.
void AppendLower(char32_t code, std::string* text);

bool IsWhiteSpace(char32_t code);      // property White_Space
bool IsMark(char32_t code);            // categories M*
bool IsNonSpacingMark(char32_t code);  // category Mn
bool IsNumber(char32_t code);          // categories N*
bool IsPunctuation(char32_t code);     // categories P*, and all signs of ASCII
bool IsControl(char32_t code);         // categories Cc, Cf, Co

// The extended grapheme clusters of a text, in order; together they are the text.
std::vector<std::string_view> Graphemes(std::string_view text);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_UNICODE_H_
