#include "model/run/text_model.h"

#include <algorithm>
#include <exception>

#include "model/token_sampling.h"

namespace shoal::model {

Result<TextModel> OpenTextModel(const RunOptions& options) {
  TextModel model;
  SHOAL_ASSIGN_OR_RETURN(model.stage, OpenWholeModel(options));
  if (model.stage->spec().classes() > 0) {
    return InvalidArgument(
        options.model +
        " is a classifier, which has no next token; see what it does on prepared "
        "data with shoal eval");
  }
  SHOAL_ASSIGN_OR_RETURN(model.tokenizer, dataset::LoadTokenizer(options.model));
  if (model.tokenizer->vocabulary() > model.stage->spec().vocabulary) {
    return InvalidArgument(
        options.model + ": the tokenizer has " + std::to_string(model.tokenizer->vocabulary()) +
        " tokens, the model only " + std::to_string(model.stage->spec().vocabulary) +
        "; copy the tokenizer's files again from the model's own directory");
  }
  SHOAL_ASSIGN_OR_RETURN(model.decoder, NewDecoder(*model.stage));
  return model;
}

Result<std::vector<std::int32_t>> IdsOf(const dataset::Tokenizer& tokenizer,
                                        std::string_view text) {
  std::vector<std::int32_t> ids;
  try {
    tokenizer.Encode(text, &ids);
  } catch (const std::exception& error) {
    return InvalidArgument(std::string("the text cannot be made into tokens: ") + error.what());
  }
  return ids;
}

Result<std::vector<std::int32_t>> IdsToContinue(const dataset::Tokenizer& tokenizer,
                                                std::string_view text) {
  std::vector<std::int32_t> ids = tokenizer.wrapping().before;
  SHOAL_ASSIGN_OR_RETURN(const std::vector<std::int32_t> own, IdsOf(tokenizer, text));
  ids.insert(ids.end(), own.begin(), own.end());
  if (!ids.empty()) return ids;
  if (!tokenizer.end_of_text()) {
    return InvalidArgument(
        "the prompt is empty and the tokenizer has no end token to begin with; give a prompt");
  }
  return std::vector<std::int32_t>{*tokenizer.end_of_text()};
}

Result<GenerationEnd> Generate(const TextModel& model, const SamplingOptions& sampling,
                               const GenerationLimits& limits, std::vector<std::int32_t>* ids,
                               const std::function<bool(std::string_view piece)>& more) {
  const ModelSpec& spec = model.stage->spec();
  std::vector<float> logits(spec.vocabulary);
  // A model's vocabulary may be padded beyond the tokenizer's.
  const auto known = std::span<const float>(logits).first(model.tokenizer->vocabulary());
  for (std::uint32_t made = 0; made < sampling.tokens; ++made) {
    if (!limits.slide && ids->size() >= spec.positions) return GenerationEnd::kFullRow;
    SHOAL_RETURN_IF_ERROR(model.decoder->NextLogits(*ids, logits));
    const std::int32_t next =
        SampleToken(known, sampling.temperature, sampling.top_k, sampling.seed, ids->size());
    if (std::find(limits.stop.begin(), limits.stop.end(), next) != limits.stop.end()) {
      return GenerationEnd::kStopToken;
    }
    ids->push_back(next);
    SHOAL_ASSIGN_OR_RETURN(const std::string piece,
                           dataset::DecodeBehind(*model.tokenizer, *ids, ids->size() - 1));
    if (!more(piece)) return GenerationEnd::kByCaller;
  }
  return GenerationEnd::kTokens;
}

}  // namespace shoal::model
