// Charsmap: the table of replacements that a SentencePiece model carries ("precompiled_charsmap").
//
// Bytes: the size of a double array in bytes, little-endian, the array (32-bit units, as Darts
// writes them: Aoe, "An efficient digital search algorithm by using a double-array structure",
// 1989), then strings that end with a zero. A key's value is the place of its replacement.

#ifndef SHOAL_DATASET_TOKENIZERS_CHARSMAP_H_
#define SHOAL_DATASET_TOKENIZERS_CHARSMAP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"

namespace shoal::dataset {

// Thread: any, the object does not change.
class Charsmap {
 public:
  static Result<Charsmap> Parse(std::string_view bytes);

  // Replaces graphemes and characters of well-formed text, as Hugging Face's spm_precompiled does:
  // a grapheme of up to five bytes as a whole by its shortest key, else character by character.
  std::string Replace(std::string_view text) const;

  // The replacement of the longest key at the beginning of `text`, as the SentencePiece library
  // has it, and the key's bytes; none: 0.
  std::pair<std::string_view, std::size_t> Longest(std::string_view text) const;

 private:
  // The replacement of the shortest key at the beginning of `text`, if there is one.
  std::optional<std::string_view> Find(std::string_view text) const;
  // Calls `found` with replacement and bytes of each key at the beginning of `text`, the shortest
  // first, until it returns false.
  template <typename Found>
  void Walk(std::string_view text, Found found) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;  // ends with a zero
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_CHARSMAP_H_
