// Normalizer: how a tokenizer changes a text before it is cut into words: "normalizer" of
// tokenizer.json.

#ifndef SHOAL_DATASET_TOKENIZERS_NORMALIZER_H_
#define SHOAL_DATASET_TOKENIZERS_NORMALIZER_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/status.h"
#include "dataset/tokenizers/charsmap.h"
#include "dataset/tokenizers/regex.h"
#include "dataset/tokenizers/unicode.h"

namespace shoal::dataset {

struct FormStep {
  NormalForm form = NormalForm::kNfc;
};
struct LowercaseStep {};
struct StripAccentsStep {};
struct NmtStep {};  // controls and odd spaces, as Google's translation system cleaned them
struct StripStep {
  bool left = true, right = true;
};
struct PrependStep {
  std::string text;
};
struct ReplaceStep {
  std::variant<std::string, Regex> pattern;
  std::string with;
};
struct CharsmapStep {
  Charsmap map;
};
struct BertStep {
  bool clean = true, chinese = true, strip_accents = true, lowercase = true;
};

// What the SentencePiece library does to a text (its normalizer_spec).
struct SentencePieceStep {
  std::optional<Charsmap> map;
  bool prefix_space = true;         // "add_dummy_prefix"
  bool remove_extra_spaces = true;  // in front, at the end, and behind others
  bool escape_spaces = true;        // a space becomes U+2581
};

// Thread: any, the object does not change.
class Normalizer {
 public:
  using Step = std::variant<FormStep, LowercaseStep, StripAccentsStep, NmtStep, StripStep,
                            PrependStep, ReplaceStep, CharsmapStep, BertStep, SentencePieceStep>;

  // `json` may be null: nothing is changed. A step that is not known is an error that names it.
  static Result<Normalizer> Parse(const nlohmann::json& json);

  static Normalizer Of(SentencePieceStep step);

  // Of well-formed text.
  std::string Apply(std::string text) const;
  bool empty() const { return steps_.empty(); }
  // Whether the halves of a text that is cut before a space between two ASCII letters, normalised
  // apart, are those of the whole; with false, nobody knows.
  bool LocalAtSpaces() const;

 private:
  std::vector<Step> steps_;
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_NORMALIZER_H_
