#include "dataset/prepare/sample_encoder.h"

#include <algorithm>
#include <utility>

namespace shoal::dataset {
namespace {

// Finds how many ids lie before a border. Borders come in rising order.
class Borders {
 public:
  Borders(const Tokenizer& tokenizer, std::string_view text, std::span<const std::int32_t> ids)
      : tokenizer_(tokenizer), text_(text), ids_(ids) {}

  struct Border {
    std::size_t ids = 0;
    bool clean = true;  // no token lies on both sides
  };

  Border At(std::size_t byte) {
    if (byte >= text_.size()) return {ids_.size(), true};
    // From the last clean border on, as encoding everything each time would be quadratic.
    std::vector<std::int32_t> piece;
    tokenizer_.Encode(text_.substr(byte_, byte - byte_), &piece);
    if (Common(piece, ids_.subspan(before_)) == piece.size()) {
      before_ += piece.size();
      byte_ = byte;
      return {before_, true};
    }
    std::vector<std::int32_t> whole;
    tokenizer_.Encode(text_.substr(0, byte), &whole);
    const std::size_t common = Common(whole, ids_);
    if (common < whole.size()) return {common, false};
    before_ = common;
    byte_ = byte;
    return {common, true};
  }

 private:
  static std::size_t Common(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
    const std::size_t size = std::min(a.size(), b.size());
    std::size_t i = 0;
    while (i < size && a[i] == b[i]) ++i;
    return i;
  }

  const Tokenizer& tokenizer_;
  const std::string_view text_;
  const std::span<const std::int32_t> ids_;
  std::size_t byte_ = 0;  // of the last clean border
  std::size_t before_ = 0;
};

}  // namespace

std::vector<std::uint8_t> TokensInRanges(const Tokenizer& tokenizer, std::string_view text,
                                         std::span<const std::int32_t> ids,
                                         std::span<const ByteRange> ranges) {
  std::vector<std::uint8_t> inside(ids.size(), 0);
  Borders borders(tokenizer, text, ids);
  for (const ByteRange& range : ranges) {
    const std::size_t begin = borders.At(range.begin).ids;
    const auto end = borders.At(range.end);
    const std::size_t last = std::min(ids.size(), end.clean ? end.ids : end.ids + 1);
    for (std::size_t i = begin; i < last; ++i) inside[i] = 1;
  }
  return inside;
}

SampleEncoder::SampleEncoder(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                             LossOn loss, const ChatOptions& options)
    : tokenizer_(tokenizer), chat_template_(chat_template), loss_(loss), options_(options) {}

void SampleEncoder::Begin(EncodedSample* encoded) const {
  encoded->ids = tokenizer_.wrapping().before;
}

void SampleEncoder::Append(std::string_view text, EncodedSample* encoded) const {
  tokenizer_.Encode(text, &encoded->ids);
}

void SampleEncoder::End(EncodedSample* encoded) const {
  if (tokenizer_.end_of_text()) encoded->ids.push_back(*tokenizer_.end_of_text());
}

Result<EncodedSample> SampleEncoder::EncodeConversation(const RawSample& sample) const {
  if (chat_template_ == nullptr) {
    return FailedPrecondition(
        "conversations need the model's chat template, and the tokenizer's folder has none: put "
        "chat_template.jinja there, or tokenizer_config.json with \"chat_template\"");
  }
  ChatOptions options = options_;
  for (const auto& [name, value] : sample.variables) options.variables[name] = value;
  EncodedSample encoded;
  if (loss_ == LossOn::kAll) {
    SHOAL_ASSIGN_OR_RETURN(const std::string text,
                           chat_template_->Render(sample.messages, options));
    Append(text, &encoded);
    encoded.counts.assign(encoded.ids.size(), 1);
    return encoded;
  }
  SHOAL_ASSIGN_OR_RETURN(const RenderedChat chat,
                         RenderTurns(*chat_template_, sample.messages, options));
  Append(chat.text, &encoded);
  const std::span<const ByteRange> answers(chat.answers);
  encoded.counts = TokensInRanges(tokenizer_, chat.text, encoded.ids,
                                  answers.subspan(std::min(sample.prompt_answers, answers.size())));
  return encoded;
}

Result<EncodedSample> SampleEncoder::EncodePair(const RawSample& sample) const {
  const std::optional<PairWrapping>& around = tokenizer_.wrapping().pair;
  if (!around) {
    return FailedPrecondition(
        "it has a second text, but the tokenizer's files do not say what stands between two: use "
        "a tokenizer.json whose post_processor has a pair, or put both texts into one field");
  }
  if (around->types == PairTypes::kOther) {
    return FailedPrecondition(
        "it has a second text, and the tokenizer's post_processor has other token types than 0 "
        "for the first text and 1 for the second: use another tokenizer.json, or put both texts "
        "into one field");
  }
  EncodedSample encoded;
  PairRanges pair;
  encoded.ids = around->before;
  pair.first = encoded.ids.size();
  Append(sample.text, &encoded);
  pair.first_end = encoded.ids.size();
  if (around->types == PairTypes::kTwo) {
    encoded.type_border = encoded.ids.size() + around->first_type;
  }
  encoded.ids.insert(encoded.ids.end(), around->between.begin(), around->between.end());
  pair.second = encoded.ids.size();
  Append(*sample.pair, &encoded);
  pair.second_end = encoded.ids.size();
  encoded.ids.insert(encoded.ids.end(), around->behind.begin(), around->behind.end());
  encoded.pair = pair;
  encoded.label = sample.label;
  return encoded;
}

Result<EncodedSample> SampleEncoder::Encode(const RawSample& sample) const {
  EncodedSample encoded;
  std::size_t prompt = 0;  // ids before the answer
  switch (sample.form) {
    case SampleForm::kConversation: {
      SHOAL_ASSIGN_OR_RETURN(encoded, EncodeConversation(sample));
      break;
    }
    case SampleForm::kCompletion:
      Begin(&encoded);
      Append(sample.text, &encoded);
      prompt = encoded.ids.size();
      Append(sample.completion, &encoded);
      End(&encoded);
      encoded.counts.assign(encoded.ids.size(), 1);
      if (loss_ == LossOn::kAnswers) std::fill_n(encoded.counts.begin(), prompt, 0);
      break;
    case SampleForm::kDocument:
      Begin(&encoded);
      Append(sample.text, &encoded);
      End(&encoded);
      encoded.counts.assign(encoded.ids.size(), 1);
      break;
    case SampleForm::kClass: {
      if (sample.pair) return EncodePair(sample);
      const std::vector<std::int32_t>& behind = tokenizer_.wrapping().behind;
      Begin(&encoded);
      Append(sample.text, &encoded);
      encoded.ids.insert(encoded.ids.end(), behind.begin(), behind.end());
      encoded.tail = behind.size();
      encoded.label = sample.label;
      return encoded;
    }
  }
  if (!encoded.counts.empty()) encoded.counts.front() = 0;
  return encoded;
}

}  // namespace shoal::dataset
