// Decoder: the next token's logits for texts that grow, without computing what it knows.
//
// It keeps keys and values of each layer for the tokens of one row, as heads share them: 2 x layers
// x key heads x head size x 4 bytes a token (2 with bf16), room for up to twice as many. Attention
// with a window keeps all, too, and looks at the window. Thread: compute.

#ifndef SHOAL_MODEL_DECODER_H_
#define SHOAL_MODEL_DECODER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "common/status.h"
#include "model/stage_model.h"

namespace shoal::model {

class Decoder {
 public:
  virtual ~Decoder() = default;

  // Logits (spec().vocabulary of them) of the token behind `ids`, as StageModel::Logits gives them
  // but for the order of sums. Only what lies behind the longest beginning that `ids` and the ids
  // of the last call share is computed, in one pass; any other text is right, too, and slower.
  // Of more ids than spec().positions the last so many count, placed from 0 on: the row slides, and
  // each call computes all of it. An error keeps nothing of what was known.
  virtual Status NextLogits(std::span<const std::int32_t> ids, std::span<float> logits) = 0;
  // Tokens that the last call computed.
  virtual std::size_t computed() const = 0;
};

// For a stage that NewTorchStage made of a whole language model and that holds all of its weights.
// `stage` outlives the decoder; once its weights change, only a new decoder is right.
Result<std::unique_ptr<Decoder>> NewDecoder(const StageModel& stage);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_DECODER_H_
