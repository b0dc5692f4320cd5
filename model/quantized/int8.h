// int8 weights (LLM.int8, Dettmers et al., NeurIPS 2022, section 2): a row of a matrix shares one
// fp32 absmax, and each value becomes round(127 value / absmax). Codes, absmaxes (SCB) and decoded
// values are those of bitsandbytes' int8_vectorwise_quant; its layers round weights to fp16 before.
// Rows of zeros stay zeros. Thread: any.

#ifndef SHOAL_MODEL_QUANTIZED_INT8_H_
#define SHOAL_MODEL_QUANTIZED_INT8_H_

#include <cstddef>
#include <span>

namespace shoal::model {

// A matrix in int8; the bytes may be unaligned and must outlive the view. Numbers are
// little-endian.
struct Int8View {
  std::size_t columns = 0;            // of a row; not 0
  std::span<const std::byte> codes;   // rows x columns, -127 to 127
  std::span<const std::byte> absmax;  // per row an fp32 number
};

// Encodes whole rows of finite `values` of at most kWeightMax: a byte of `codes` each, an absmax
// per row.
void QuantizeInt8(std::span<const float> values, std::size_t columns, std::span<std::byte> codes,
                  std::span<float> absmax);

// Values [first, first + out.size()) of the matrix, counted along rows; any range will do.
void DecodeInt8(const Int8View& view, std::size_t first, std::span<float> out);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_QUANTIZED_INT8_H_
