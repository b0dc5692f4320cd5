// PreTokenizer: cuts a normalised text into the words inside which a model makes tokens:
// "pre_tokenizer" of tokenizer.json.

#ifndef SHOAL_DATASET_TOKENIZERS_PRE_TOKENIZER_H_
#define SHOAL_DATASET_TOKENIZERS_PRE_TOKENIZER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/status.h"
#include "dataset/tokenizers/regex.h"
#include "dataset/word_splitter.h"

namespace shoal::dataset {

// Words in order, each of the text that was cut or of `owned`.
struct WordList {
  std::vector<std::string_view> words;
  std::deque<std::string> owned;
};

// What becomes of what a pattern matches, as `tokenizers` names it.
enum class SplitBehavior : std::uint8_t {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
};

using CharacterTest = bool (*)(char32_t);

// Part of a text, and whether a pattern matches it.
struct MatchRange {
  std::size_t begin = 0, end = 0;
  bool match = false;
};
// The pieces that `behavior` makes of `ranges`, which cover a text in order.
std::vector<MatchRange> SplitRanges(const std::vector<MatchRange>& ranges, SplitBehavior behavior);

struct SplitStep {
  std::variant<std::string, Regex, CharacterTest> pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
  std::string name;  // of a pattern that is known to cut before spaces between letters; or empty
};

// Spaces become `replacement`, one is put in front, words begin with it.
struct MetaspaceStep {
  enum class Prepend : std::uint8_t { kAlways, kFirst, kNever };
  std::string replacement;
  Prepend prepend = Prepend::kAlways;
  bool split = true;
};

// GPT-2's bytes. The letters that stand for bytes in the vocabulary are not written here: words
// stay bytes, and the model reads them so.
struct ByteLevelStep {
  bool prefix_space = true;
  std::shared_ptr<const WordPattern> pattern;  // GPT-2's; null: no cut
};

// Thread: any, the object does not change.
class PreTokenizer {
 public:
  using Step = std::variant<SplitStep, MetaspaceStep, ByteLevelStep>;

  // `json` may be null: the text is one word. A kind that is not known is an error that names it.
  static Result<PreTokenizer> Parse(const nlohmann::json& json);
  // GPT-2's.
  static Result<PreTokenizer> ByteLevel(bool prefix_space);

  // Appends the words of well-formed `text`, which must outlive the list; none is empty. `first`:
  // nothing stands before it.
  void Split(std::string_view text, bool first, WordList* list) const;

  // Whether words are bytes (the last step is ByteLevel), and whether it puts a space in front.
  bool byte_level() const;
  bool prefix_space() const;
  void set_prefix_space(bool prefix_space);
  // GPT-2's and nothing else.
  bool plain_byte_level() const;

  // Whether there is a cut before a space between two ASCII letters, whatever stands around: then
  // the words of the halves are those of the whole.
  enum class SpaceCuts : std::uint8_t { kUnknown, kNo, kYes };
  SpaceCuts CutsAtSpaces() const;
  // Whether there is one behind a line feed that stands alone between printable ASCII characters.
  bool CutsAtLines() const;
  // Whether spaces become another character, and whether one is put in front.
  bool metaspace() const;
  bool adds_metaspace() const;

 private:
  void Run(const Step& step, std::string_view text, bool first, WordList* list) const;

  std::vector<Step> steps_;
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_PRE_TOKENIZER_H_
