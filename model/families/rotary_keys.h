// Rotary positions as config.json describes them: `rope_theta` and `rope_scaling`, or both in
// `rope_parameters`.
//
// Plain of Su et al., "RoFormer" (2021); "linear" of Chen et al., "Extending context window of
// large language models via positional interpolation" (2023); "yarn" of Peng et al., "YaRN" (2023),
// section 3; "llama3" as Llama 3.1 defines it. Others are refused by name. Thread: any one at a
// time.

#ifndef SHOAL_MODEL_FAMILIES_ROTARY_KEYS_H_
#define SHOAL_MODEL_FAMILIES_ROTARY_KEYS_H_

#include <cstdint>

#include "model/families/config_keys.h"
#include "model/families/model_spec.h"

namespace shoal::model {

struct RotaryBase {
  std::int64_t head_size = 0;
  std::uint32_t positions = 0;  // of training, unless the scaling names others
  double theta = 10000;
  double partial = 1;  // share of a head's values that is turned
};

// From a whole config.json.
RotarySpec ReadRotary(ConfigKeys* keys, RotaryBase base);
// From the object that describes the scaling; it may have its own theta and share.
RotarySpec ReadScaledRotary(ConfigKeys* scaling, RotaryBase base);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_ROTARY_KEYS_H_
