// Fresh weights from a config.json and a seed.
//
// Initialisation as in Radford et al. (2019) and Hugging Face's GPT2Model: matrices and embeddings
// N(0, initializer_range), the projections back into the residual stream (c_proj) scaled by
// 1 / sqrt(2 * layers), biases 0, LayerNorm weights 1. Value i of a tensor depends on (seed,
// tensor's name, i) alone.

#ifndef SHOAL_MODEL_INIT_WEIGHTS_H_
#define SHOAL_MODEL_INIT_WEIGHTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"
#include "model/families/model_spec.h"

namespace shoal::model {

// Fills `values` with the initial values of the tensor `name` (canonical).
void InitTensor(const TensorSpec& tensor, std::string_view name, std::uint64_t seed,
                std::span<float> values);

// Writes a whole model directory to `output`, which must not exist or be empty: fresh weights, the
// config, and the tokenizer files that lie beside `config_path`.
Status InitModelDirectory(const std::string& config_path, const std::string& output,
                          std::uint64_t seed);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_INIT_WEIGHTS_H_
