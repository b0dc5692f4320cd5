#include "model/exports/gguf_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace shoal::model {
namespace {

using storage::DType;
using storage::GgufTensor;
using storage::GgufType;
using Change = GgufSource::Change;

// Values 0, 1, 2, ... as bf16, which has them exactly up to 256.
std::vector<std::uint16_t> Counting(std::size_t count) {
  std::vector<std::uint16_t> bits;
  for (std::size_t i = 0; i < count; ++i) {
    bits.push_back(
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(i)) >> 16));
  }
  return bits;
}

// All rows, taken `at_once` at a time.
std::vector<float> Rows(const GgufTensor& tensor, const GgufSource& source,
                        const std::vector<std::int64_t>& shape, std::size_t at_once) {
  const auto rows = static_cast<std::size_t>(tensor.shape.front());
  const std::size_t width = RowValues(tensor);
  const std::vector<std::uint16_t> bits = Counting(rows * width);
  const storage::TensorView view = {DType::kBF16, shape, std::as_bytes(std::span(bits))};
  std::vector<float> all(rows * width, -1);
  for (std::size_t row = 0; row < rows; row += at_once) {
    const std::size_t count = std::min(at_once, rows - row);
    ReadGgufRows(tensor, source, view, row, std::span(all).subspan(row * width, count * width));
  }
  return all;
}

TEST(GgufRows, ChangesAreThoseOfTheirDefinition) {
  const GgufTensor matrix = {"m", GgufType::kF16, {12, 5}};
  const GgufTensor vector = {"v", GgufType::kF32, {12}};
  for (const std::size_t at_once : {1, 5, 12}) {
    const auto plain = Rows(matrix, {"s", Change::kNone, 0, {}}, {12, 5}, at_once);
    const auto more = Rows(matrix, {"s", Change::kAddOne, 0, {}}, {12, 5}, at_once);
    const auto turned = Rows(matrix, {"s", Change::kTransposed, 0, {}}, {5, 12}, at_once);
    // Two heads of six.
    const auto pairs = Rows(matrix, {"s", Change::kAdjacentPairs, 6, {}}, {12, 5}, at_once);
    const auto biases = Rows(vector, {"s", Change::kAdjacentPairs, 6, {}}, {12}, at_once);
    for (std::size_t row = 0; row < 12; ++row) {
      const std::size_t head = row / 6, pair = row % 6 / 2, second = row % 2;
      const std::size_t source = head * 6 + second * 3 + pair;
      EXPECT_EQ(biases[row], static_cast<float>(source));
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(plain[row * 5 + i], static_cast<float>(row * 5 + i));
        EXPECT_EQ(more[row * 5 + i], static_cast<float>(row * 5 + i + 1));
        EXPECT_EQ(turned[row * 5 + i], static_cast<float>(i * 12 + row));
        EXPECT_EQ(pairs[row * 5 + i], static_cast<float>(source * 5 + i));
      }
    }
  }
}

}  // namespace
}  // namespace shoal::model
