// WordSplitter: cuts text into the words inside which byte pairs may be merged, by the pattern of
// GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019):
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// Text need not be UTF-8. Every byte that starts no well-formed character (RFC 3629) is a word of
// its own. The text before it and the text after it are split as if they stood alone. The words,
// joined, are always the text.

#ifndef SHOAL_DATASET_WORD_SPLITTER_H_
#define SHOAL_DATASET_WORD_SPLITTER_H_

#include <cstddef>
#include <memory>
#include <string_view>

#include "common/status.h"

namespace shoal::dataset {

// The compiled pattern; shared by splitters. Thread: any.
class WordPattern {
 public:
  static Result<std::shared_ptr<const WordPattern>> Compile();
  ~WordPattern();
  WordPattern(const WordPattern&) = delete;
  WordPattern& operator=(const WordPattern&) = delete;

 private:
  friend class WordSplitter;
  struct Code;
  explicit WordPattern(std::unique_ptr<Code> code);
  const std::unique_ptr<Code> code_;
};

// Walks over one text at a time. Thread: one at a time.
class WordSplitter {
 public:
  explicit WordSplitter(std::shared_ptr<const WordPattern> pattern);
  ~WordSplitter();

  // `text` must outlive the walk.
  void Start(std::string_view text);
  // Sets the next word, never empty; false at the end.
  bool Next(std::string_view* word);

 private:
  struct Match;
  std::size_t MatchLength() const;

  const std::shared_ptr<const WordPattern> pattern_;
  const std::unique_ptr<Match> match_;
  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t valid_end_ = 0;  // text_[position_, valid_end_) is well-formed
};

// Length of the well-formed UTF-8 character at the start of `text`, 0 if there is none.
std::size_t Utf8Length(std::string_view text);

// The smallest position p >= `from` that is certainly between two words. So the halves, split
// separately, give the words of the whole text. text.size() if there is no such position.
//
// Two kinds of positions qualify. (1) A space between two ASCII letters. A space only ever begins a
// word, or stands in a run of white space; here it is no such run. (2) Behind a line feed that
// stands alone between printable ASCII characters: it is a word whether or not text follows it.
std::size_t FindWordBreak(std::string_view text, std::size_t from);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_WORD_SPLITTER_H_
