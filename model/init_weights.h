// Fresh weights from a config.json and a seed.
//
// Values: model/families/fresh_weights.h. Thread: any.

#ifndef SHOAL_MODEL_INIT_WEIGHTS_H_
#define SHOAL_MODEL_INIT_WEIGHTS_H_

#include <cstdint>
#include <string>

#include "common/status.h"

namespace shoal::model {

// Writes a whole model directory to `output`, which must not exist or be empty: fresh weights, the
// config, and the tokenizer files that lie beside `config_path`.
Status InitModelDirectory(const std::string& config_path, const std::string& output,
                          std::uint64_t seed);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_INIT_WEIGHTS_H_
