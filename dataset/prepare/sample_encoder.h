// SampleEncoder: from samples to tokens, and which of them the loss counts on.

#ifndef SHOAL_DATASET_PREPARE_SAMPLE_ENCODER_H_
#define SHOAL_DATASET_PREPARE_SAMPLE_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "dataset/chat/chat_template.h"
#include "dataset/prepare/raw_sample.h"
#include "dataset/tokenizer.h"

namespace shoal::dataset {

// What the loss counts on. Of documents it always counts on all.
enum class LossOn : std::uint8_t { kAnswers, kAll };

// Which ids of a sample are its two texts: [first, first_end) and [second, second_end).
struct PairRanges {
  std::size_t first = 0, first_end = 0, second = 0, second_end = 0;
};

struct EncodedSample {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> counts;  // of each id: 1 if it is a label of the one before it
  std::size_t tail = 0;              // the last ids that stay where the sample is cut
  std::string label;                 // of a class, which has no counts
  // Of a class with two texts: a cut shortens the longer one.
  std::optional<PairRanges> pair = std::nullopt;
  // Of a pair with token types: the first id of the type 1, pair.first_end .. pair.second.
  std::optional<std::size_t> type_border = std::nullopt;
};

// For each of `ids`, which are those of `text`: 1 if the token overlaps one of `ranges` (in order,
// apart), else 0. A border's token is found by encoding the text before it: where that gives no
// beginning of `ids`, the longest common one counts, and the token behind it belongs to the range.
std::vector<std::uint8_t> TokensInRanges(const Tokenizer& tokenizer, std::string_view text,
                                         std::span<const std::int32_t> ids,
                                         std::span<const ByteRange> ranges);

// Thread: any, many at once.
class SampleEncoder {
 public:
  // The objects outlive the encoder; `chat_template` may be null. `options`: of the template.
  SampleEncoder(const Tokenizer& tokenizer, const ChatTemplate* chat_template, LossOn loss,
                const ChatOptions& options);

  // - A conversation is the template's text, encoded whole, special tokens in it included. Answers
  //   are the assistant's turns with the tokens that end them.
  // - A completion is wrapping().before, the prompt, the completion, the end token; the last two
  //   are the answer.
  // - A document is wrapping().before, its text, the end token.
  // - A class is wrapping().before, its text, wrapping().behind; with a second text what
  //   wrapping().pair says. A tokenizer that says nothing is a failed precondition, and so is one
  //   with PairTypes::kOther.
  // The first token never counts, as no token is before it. An invalid argument or a failed
  // precondition says what is wrong with the sample.
  Result<EncodedSample> Encode(const RawSample& sample) const;

 private:
  Result<EncodedSample> EncodeConversation(const RawSample& sample) const;
  Result<EncodedSample> EncodePair(const RawSample& sample) const;
  // Adds the beginning of a text that stands alone.
  void Begin(EncodedSample* encoded) const;
  void Append(std::string_view text, EncodedSample* encoded) const;
  // Adds the end token.
  void End(EncodedSample* encoded) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate* const chat_template_;
  const LossOn loss_;
  const ChatOptions options_;
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_SAMPLE_ENCODER_H_
