// A language model with its tokenizer, and text that it writes. Internal to shoal-run.

#ifndef SHOAL_MODEL_RUN_TEXT_MODEL_H_
#define SHOAL_MODEL_RUN_TEXT_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "dataset/tokenizer.h"
#include "model/decoder.h"
#include "model/run/commands.h"
#include "model/stage_model.h"

namespace shoal::model {

struct TextModel {
  std::unique_ptr<StageModel> stage;
  std::unique_ptr<dataset::Tokenizer> tokenizer;
  std::unique_ptr<Decoder> decoder;  // of the stage
};

Result<TextModel> OpenTextModel(const RunOptions& options);
Result<std::vector<std::int32_t>> IdsOf(const dataset::Tokenizer& tokenizer, std::string_view text);
// The ids of a text that stands alone, to be gone on with; an empty one begins with the token that
// ends texts.
Result<std::vector<std::int32_t>> IdsToContinue(const dataset::Tokenizer& tokenizer,
                                                std::string_view text);

enum class GenerationEnd {
  kStopToken,  // which is not among the ids
  kTokens,     // as many as asked for
  kFullRow,    // the model has no more positions
  kByCaller,
};

struct GenerationLimits {
  std::span<const std::int32_t> stop;  // ids
  bool slide = false;                  // the oldest tokens of a full row make room
};

// Adds tokens to `*ids`, which must not be empty. `more` gets the text of each and says whether to
// go on.
Result<GenerationEnd> Generate(const TextModel& model, const SamplingOptions& sampling,
                               const GenerationLimits& limits, std::vector<std::int32_t>* ids,
                               const std::function<bool(std::string_view piece)>& more);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_RUN_TEXT_MODEL_H_
