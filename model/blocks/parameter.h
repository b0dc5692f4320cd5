// What a block sees of its parameters, and of the micro-batch that it works on.
//
// Internal to model/; blocks throw what LibTorch throws. Thread: compute.

#ifndef SHOAL_MODEL_BLOCKS_PARAMETER_H_
#define SHOAL_MODEL_BLOCKS_PARAMETER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "model/blocks/frozen_tensor.h"
#include "model/blocks/row_segments.h"

namespace shoal::model {

// Views that stay valid for the life of the stage. One that is not trained has no gradient; if it
// is a matrix, it is `frozen` alone.
struct Parameter {
  at::Tensor value;     // fp32
  at::Tensor compute;   // in the dtype of matrix products
  at::Tensor gradient;  // fp32
  std::shared_ptr<const FrozenTensor> frozen = nullptr;

  bool trained() const { return gradient.defined(); }
  at::ScalarType dtype() const { return frozen ? frozen->dtype() : compute.scalar_type(); }
  at::Tensor ForProduct() const { return frozen ? frozen->ForProduct() : compute; }
  // Of a table, fp32.
  at::Tensor Rows(const at::Tensor& ids) const {
    return frozen ? frozen->Rows(ids) : value.index_select(0, ids);
  }
  at::Tensor Rows(std::int64_t first, std::int64_t count) const {
    return frozen ? frozen->Rows(first, count) : value.narrow(0, first, count);
  }
};
using FindParameter = std::function<Parameter(const std::string& name)>;

// The table of distances that all layers use, for one micro-batch (relative_table.h).
struct RelativeContext {
  at::Tensor rows;      // as layers use them, compute dtype [table rows, hidden]; undefined: none
  at::Tensor places;    // int64 [2 tokens - 1]: the row of distance 1 - tokens, 2 - tokens, ...
  at::Tensor gradient;  // fp32, of `rows`, to which layers add; undefined: nobody learns of it
};

// What every layer knows of a micro-batch; must outlive the calls.
struct BatchContext {
  std::int64_t rows = 0;
  std::int64_t tokens = 0;  // per row
  std::vector<SampleId> samples;
  double dropout = 0;  // 0 in evaluation
  std::uint64_t seed = 0;
  // Of rows that are not one segment each; else empty and undefined.
  std::vector<RowSegment> segments = {};
  at::Tensor positions = {};  // int64 [rows * tokens], within their segments
  // Of a context of one segment: where it begins in its row, and how long that is. Masks are a
  // row's.
  std::int64_t row_first = 0;
  std::int64_t row_tokens = 0;  // 0: the context is of whole rows
  bool training = false;        // adapters have their dropout
  // Of a row that is computed in pieces: its tokens before these (attention.h). Nothing is kept for
  // a backward then.
  std::int64_t past = 0;
  // Of the first stage: the token types, int64 [rows * tokens]; undefined: all are 0.
  at::Tensor types = {};
  RelativeContext relative = {};

  std::int64_t tokens_in_all() const { return rows * tokens; }
  // The same for the tokens of a segment alone.
  BatchContext Of(const RowSegment& segment) const {
    const SampleId sample = samples[static_cast<std::size_t>(segment.row)];
    return {1, segment.tokens, {sample}, dropout, seed, {}, {}, segment.first, tokens};
  }
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_PARAMETER_H_
