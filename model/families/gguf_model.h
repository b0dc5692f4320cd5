// DescribeGguf: a model as llama.cpp calls it: keys of the architecture, and the tensors of the
// file with where their values come from. Pure. Thread: any.
//
// Follows llama.cpp's convert_hf_to_gguf.py and src/models. What llama.cpp would compute otherwise
// is an error that names it.

#ifndef SHOAL_MODEL_FAMILIES_GGUF_MODEL_H_
#define SHOAL_MODEL_FAMILIES_GGUF_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/families/model_spec.h"
#include "storage/models/gguf.h"

namespace shoal::model {

struct GgufSource {
  enum class Change : std::uint8_t {
    kNone,
    kTransposed,     // the source is [in, out]
    kAdjacentPairs,  // row h D + 2 i + k of a head is row h D + k D/2 + i of the source
    kAddOne,
  };
  std::string tensor;  // canonical name; empty: `values` are it
  Change change = Change::kNone;
  std::int64_t head_size = 0;  // D of kAdjacentPairs
  std::vector<float> values;
};

struct GgufPlan {
  storage::GgufMetadata metadata;            // of the architecture
  std::vector<storage::GgufTensor> tensors;  // F32 where the type is settled, else F16
  std::vector<GgufSource> sources;           // of each tensor
  std::vector<std::string> notes;            // where long texts come out otherwise
};

// Invalid argument: llama.cpp does not have the model; one line says why.
Result<GgufPlan> DescribeGguf(const ModelSpec& spec);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_GGUF_MODEL_H_
