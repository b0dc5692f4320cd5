// The JSON text beside an NF4 tensor, as bitsandbytes writes it (QuantState.as_dict, packed): type
// and size of blocks, the tensor's own dtype and shape, and what double quantisation needs. Ours is
// padded with spaces, so that files of equal shapes have equal sizes. Thread: any.

#ifndef SHOAL_MODEL_QUANTIZED_NF4_STATE_H_
#define SHOAL_MODEL_QUANTIZED_NF4_STATE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "storage/models/tensor_view.h"

namespace shoal::model {

inline constexpr std::size_t kNf4StateBytes = 256;      // of a text that we write
inline constexpr std::size_t kNf4StateBytesMax = 4096;  // of a text that we read
inline constexpr std::size_t kNf4DimensionsMax = 8;

struct Nf4State {
  storage::DType dtype = storage::DType::kF32;  // of the tensor before: F32, F16 or BF16
  std::vector<std::int64_t> shape;
  bool nested = false;
  float offset = 0;  // if nested
};

// Of at most kNf4DimensionsMax dimensions. kNf4StateBytes long.
std::string Nf4StateText(const Nf4State& state);

// Refuses what is not such a text, and other sizes of blocks than 64 and 256; `name`: the tensor.
Result<Nf4State> ParseNf4State(std::string_view text, const std::string& name);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_QUANTIZED_NF4_STATE_H_
