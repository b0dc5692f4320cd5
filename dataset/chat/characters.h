// Characters of well-formed UTF-8 as Python's str has them: positions count characters, white space
// and letters are Unicode's.

#ifndef SHOAL_DATASET_CHAT_CHARACTERS_H_
#define SHOAL_DATASET_CHAT_CHARACTERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::dataset {

// Whether all of `text` is UTF-8 (RFC 3629).
bool IsUtf8(std::string_view text);

// These expect well-formed text.
std::size_t CountCharacters(std::string_view text);
// The byte at which character `index` begins; the text's size behind the last one.
std::size_t ByteOfCharacter(std::string_view text, std::size_t index);
// The character at byte `at`, and the length of its bytes.
std::uint32_t CharacterAtByte(std::string_view text, std::size_t at, std::size_t* bytes);
// The byte at which the character that ends at `end` begins; `end` is above 0.
std::size_t PreviousCharacter(std::string_view text, std::size_t end);
void AppendCharacter(std::uint32_t character, std::string* text);

// str.isspace of one character.
bool IsSpaceCharacter(std::uint32_t character);
// Whether repr() shows a character as it is. Characters that no standard assigns count as shown.
bool IsPrintable(std::uint32_t character);

enum class Side { kLeft, kRight, kBoth };
// str.strip: without white space at the ends, or without characters of `set`.
std::string_view StripSpaces(std::string_view text, Side side);
std::string_view StripSet(std::string_view text, std::string_view set, Side side);

// str.lower and its kin, one character for one, but for the German sharp s.
std::string LowerText(std::string_view text);
std::string UpperText(std::string_view text);
std::string CapitalizeText(std::string_view text);
// str.title: the first letter of each run of letters is large.
std::string TitleText(std::string_view text);

// str.splitlines without the line ends.
std::vector<std::string_view> SplitLines(std::string_view text);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_CHARACTERS_H_
