// Rows of a tensor as a GGUF file has them, from the bytes of its source. Pure. Thread: any.

#ifndef SHOAL_MODEL_EXPORTS_GGUF_ROWS_H_
#define SHOAL_MODEL_EXPORTS_GGUF_ROWS_H_

#include <cstddef>
#include <span>

#include "model/families/gguf_model.h"
#include "storage/models/tensor_view.h"

namespace shoal::model {

// A vector counts as rows of one value.
std::size_t RowValues(const storage::GgufTensor& tensor);

// Rows [first, first + n) of `tensor` into `values`, which has room for n rows. `view` is the
// source: of [out, in], or [in, out] for kTransposed.
void ReadGgufRows(const storage::GgufTensor& tensor, const GgufSource& source,
                  const storage::TensorView& view, std::size_t first, std::span<float> values);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_EXPORTS_GGUF_ROWS_H_
