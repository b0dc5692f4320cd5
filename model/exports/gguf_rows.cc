#include "model/exports/gguf_rows.h"

#include <vector>

#include "storage/models/float_bytes.h"

namespace shoal::model {
namespace {

using Change = GgufSource::Change;
using storage::TensorView;

// Values [first, first + values.size()) of the source.
void ReadSource(const TensorView& view, std::size_t first, std::span<float> values) {
  const std::size_t bytes = storage::DTypeBytes(view.dtype);
  storage::ReadFloats(view.dtype, view.data.subspan(first * bytes, values.size() * bytes), values);
}

void ReadColumns(const TensorView& view, std::size_t out, std::size_t first, std::size_t width,
                 std::span<float> values) {
  const std::size_t rows = values.size() / width;
  std::vector<float> column(rows);
  for (std::size_t i = 0; i < width; ++i) {
    ReadSource(view, i * out + first, column);
    for (std::size_t row = 0; row < rows; ++row) values[row * width + i] = column[row];
  }
}

void ReadPairs(const TensorView& view, std::size_t head, std::size_t first, std::size_t width,
               std::span<float> values) {
  for (std::size_t done = 0; done < values.size() / width; ++done) {
    const std::size_t row = first + done, in_head = row % head;
    const std::size_t source = row - in_head + in_head % 2 * (head / 2) + in_head / 2;
    ReadSource(view, source * width, values.subspan(done * width, width));
  }
}

}  // namespace

std::size_t RowValues(const storage::GgufTensor& tensor) {
  return tensor.shape.size() == 1 ? 1 : static_cast<std::size_t>(tensor.shape.back());
}

void ReadGgufRows(const storage::GgufTensor& tensor, const GgufSource& source,
                  const TensorView& view, std::size_t first, std::span<float> values) {
  const std::size_t width = RowValues(tensor);
  const auto rows = static_cast<std::size_t>(tensor.shape.front());
  switch (source.change) {
    case Change::kTransposed: return ReadColumns(view, rows, first, width, values);
    case Change::kAdjacentPairs:
      return ReadPairs(view, static_cast<std::size_t>(source.head_size), first, width, values);
    case Change::kNone:
    case Change::kAddOne: ReadSource(view, first * width, values);
  }
  if (source.change == Change::kAddOne) {
    for (float& value : values) value += 1;
  }
}

}  // namespace shoal::model
