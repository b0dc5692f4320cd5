// How vocabularies write bytes: GPT-2's printable alphabet, and the names of single bytes in
// SentencePiece's models ("<0x0A>").

#ifndef SHOAL_DATASET_TOKENIZERS_BYTE_NAMES_H_
#define SHOAL_DATASET_TOKENIZERS_BYTE_NAMES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shoal::dataset {

// The name of each byte in GPT-2's alphabet: printable Latin-1 as itself, the 68 others as U+0100,
// U+0101, ... in order.
const std::array<std::string, 256>& ByteLevelAlphabet();
// The bytes of a name in that alphabet; a name with another character stands for itself.
std::string BytesOfName(const std::string& name);
std::string NameOfBytes(std::string_view bytes);

// "<0x0A>" for 10, and back; nothing if `name` is no such name.
std::string FallbackName(std::uint8_t byte);
std::optional<std::uint8_t> FallbackByte(std::string_view name);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_BYTE_NAMES_H_
