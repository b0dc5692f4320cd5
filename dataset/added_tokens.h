// AddedTokens: the tokens of a tokenizer that are found in a text as a whole, before words are cut
// and merged. They are special tokens such as <|endoftext|>, chat markers, and words that were
// added to a vocabulary later.
//
// The rules are those of Hugging Face's `tokenizers` (added_vocabulary.rs), so ids are the same. Of
// the tokens that begin at the first position where any begins, the longest counts. The search then
// goes on behind it. Tokens that are found in raw text ("normalized": false) come first, the others
// are searched in what these leave.

#ifndef SHOAL_DATASET_ADDED_TOKENS_H_
#define SHOAL_DATASET_ADDED_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace shoal::dataset {

struct AddedToken {
  std::string content;  // never empty
  std::int32_t id = 0;
  bool single_word = false;  // only between characters that are not of a word
  bool lstrip = false;       // takes the white space before it, too
  bool rstrip = false;       // and behind it
  bool normalized = false;   // searched behind those that are not
  bool special = false;      // of no text: marks, not words

  bool operator==(const AddedToken&) const = default;
};

// Part of a text: a token, or text without any.
struct TextPiece {
  std::string_view text;
  std::int32_t id = -1;  // of the token; below 0: there is none, cut `text` into words
};

// Thread: any, the object does not change.
class AddedTokens {
 public:
  static Result<std::unique_ptr<const AddedTokens>> New(const std::vector<AddedToken>& tokens);
  ~AddedTokens();
  AddedTokens(const AddedTokens&) = delete;
  AddedTokens& operator=(const AddedTokens&) = delete;

  bool empty() const;
  // The pieces of `text` in order; they point into it. Any bytes are fine.
  std::vector<TextPiece> Split(std::string_view text) const;
  // The same in two halves, for those who change the text between them: tokens that are found in
  // raw text, and the others.
  std::vector<TextPiece> SplitRaw(std::string_view text) const;
  std::vector<TextPiece> SplitNormalized(std::string_view text) const;
  // Whether a token stands in `text` across position `p`, or ends or begins there: then the pieces
  // of the two halves are not those of the whole.
  bool Touches(std::string_view text, std::size_t p) const;

 private:
  struct Tables;
  explicit AddedTokens(std::unique_ptr<Tables> tables);
  const std::unique_ptr<Tables> tables_;
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_ADDED_TOKENS_H_
