// Initial values of tensors, by counter: value i depends on (seed, tensor's name, i) alone.
//
// As in Radford et al. (2019) and Hugging Face's models: matrices and embeddings
// N(0, initializer_range), GPT-2's projections back into the residual stream (c_proj) scaled by
// 1 / sqrt(2 * layers), biases 0, factors of norms 1. Of an adapter A is uniform, B is 0. Thread:
// any.

#ifndef SHOAL_MODEL_FAMILIES_FRESH_WEIGHTS_H_
#define SHOAL_MODEL_FAMILIES_FRESH_WEIGHTS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "model/families/model_spec.h"

namespace shoal::model {

// Fills `values` with the initial values of the tensor `name` (canonical).
void InitTensor(const TensorSpec& tensor, std::string_view name, std::uint64_t seed,
                std::span<float> values);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_FRESH_WEIGHTS_H_
