// Tokenizer: text to token ids and back.

#ifndef SHOAL_DATASET_TOKENIZER_H_
#define SHOAL_DATASET_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace shoal::dataset {

// Token types of two texts that stand together.
enum class PairTypes : std::uint8_t {
  kNone,   // all tokens have the type 0
  kTwo,    // 0 up to a place between the texts, then 1
  kOther,  // neither
};

// What a tokenizer puts around two texts that stand together, the first one before `between`.
struct PairWrapping {
  std::vector<std::int32_t> before, between, behind;
  PairTypes types = PairTypes::kNone;
  std::size_t first_type = 0;  // of kTwo: how many of `between` have the type 0
};

// What a tokenizer puts around a text where it stands alone, as <s>, or [CLS] and [SEP]. Encode
// does not: its callers know where texts begin and end.
struct Wrapping {
  std::vector<std::int32_t> before, behind;
  std::optional<PairWrapping> pair = std::nullopt;  // nothing where the files do not say it
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Appends the ids of `text`, in which special and other added tokens are found, as transformers
  // does unless told otherwise. Any bytes are fine. Throws what standard containers throw, and
  // where a pattern of the tokenizer needs more memory or time than it may take.
  virtual void Encode(std::string_view text, std::vector<std::int32_t>* ids) const = 0;
  // The smallest position p >= `from` where `text` may be cut: the ids of the halves, encoded
  // apart, are those of the whole. text.size() if there is none.
  virtual std::size_t FindBreak(std::string_view text, std::size_t from) const = 0;
  // The bytes of the ids; an id outside the vocabulary is an error.
  virtual Result<std::string> Decode(std::span<const std::int32_t> ids) const = 0;
  virtual std::uint32_t vocabulary() const = 0;
  // The id that separates documents, if there is one: of <|endoftext|>, else of the end token that
  // the files beside the tokenizer name (end_token.h).
  virtual std::optional<std::int32_t> end_of_text() const = 0;
  virtual const Wrapping& wrapping() const = 0;
  // SHA-256 (hex) of the canonical vocabulary and merges: the same for both file forms.
  virtual const std::string& fingerprint() const = 0;
  // What the tokenizer's files ask for that has no meaning for rows of tokens; a sentence each.
  virtual const std::vector<std::string>& notes() const = 0;
};

// The text that ids[from ..] add to that of the ids before them: a tokenizer that drops the space
// in front of a text drops none here. `from`: up to ids.size().
Result<std::string> DecodeBehind(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                 std::size_t from);

// Whether LoadTokenizer finds something there. Thread: any.
bool HasTokenizer(const std::string& directory);

// From `directory`: tokenizer.json (BPE of bytes or characters, Unigram, WordPiece), else
// tokenizer.model (SentencePiece), else vocab.json + merges.txt (GPT-2, also under OpenAI's names
// encoder.json + vocab.bpe). A setting that would change ids and that is not known is an error that
// names it. Thread: any, Encode may run on several at once.
Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& directory);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZER_H_
