// Regex: patterns of tokenizer.json, as Hugging Face's `tokenizers` (Oniguruma) understands them.

#ifndef SHOAL_DATASET_TOKENIZERS_REGEX_H_
#define SHOAL_DATASET_TOKENIZERS_REGEX_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::dataset {

// The same pattern for PCRE2: \s, \w, \u and classes of letters mean there what they mean in
// Oniguruma. What has another meaning and cannot be translated is an error that names it.
Result<std::string> PcrePattern(std::string_view pattern);

// Thread: any, the object does not change.
class Regex {
 public:
  static Result<Regex> Compile(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // The first match in well-formed `text` that begins at `from` or behind it and is not empty.
  // False if there is none. Throws std::runtime_error where the match needs more memory than a
  // foreign pattern may take.
  bool Find(std::string_view text, std::size_t from, std::size_t* begin, std::size_t* end) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_REGEX_H_
