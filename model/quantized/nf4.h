// NF4, the 4-bit data type of QLoRA (Dettmers et al., NeurIPS 2023, section 3): blocks of 64 values
// share an fp32 absmax, and each value becomes the nearest of 16 quantiles of a normal
// distribution, times that. Double quantisation keeps the absmaxes, less their mean, as 8-bit codes
// in blocks of 256 (Dettmers et al., 8-bit optimizers, ICLR 2022, the dynamic data type).
//
// Codes and decoded values are those of bitsandbytes. Two points differ in the encoder only: the
// mean of the absmaxes is rounded once, and 8-bit codes are always the nearest ones, where
// bitsandbytes' search on CPUs is approximate. Thread: any.

#ifndef SHOAL_MODEL_QUANTIZED_NF4_H_
#define SHOAL_MODEL_QUANTIZED_NF4_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shoal::model {

// Largest absolute value of a weight or scale: what is decoded from it is finite, too.
inline constexpr float kWeightMax = 0x1p120F;
inline constexpr std::size_t kNf4Block = 64;           // values of an absmax
inline constexpr std::size_t kNf4NestedBlock = 256;    // absmaxes of a nested absmax
inline constexpr std::array<float, 16> kNf4Values = {  // value of each code, of an absmax of 1
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F};

// The 256 values of the dynamic 8-bit data type, ascending from -0.993 to 1.
const std::array<float, 256>& DynamicMap();

// A tensor in NF4; the bytes may be unaligned and must outlive the view. Numbers are little-endian.
struct Nf4View {
  std::size_t values = 0;
  std::span<const std::byte> codes;  // (values + 1) / 2; the first of two values in the high bits
  // Per block of 64 values: an 8-bit code if nested, else an fp32 number.
  std::span<const std::byte> absmax;
  bool nested = false;
  std::span<const std::byte> nested_absmax;  // per 256 blocks an fp32 number
  std::span<const std::byte> nested_map;     // 256 fp32 numbers: the value of each 8-bit code
  float offset = 0;                          // added to each nested block's absmax
};

// Encodes finite `values` of at most kWeightMax: (n + 1) / 2 bytes of `codes` and n / 64 of
// `absmax`, rounded up. A tensor may come in pieces of whole blocks. The last of an odd number of
// values shares its byte with a zero.
void QuantizeNf4(std::span<const float> values, std::span<std::byte> codes,
                 std::span<float> absmax);

// The absmaxes of a tensor after double quantisation.
struct NestedAbsmax {
  float offset = 0;              // their mean
  std::vector<std::byte> codes;  // one each
  std::vector<float> absmax;     // one per 256 of them
};
// `absmax`: of a whole tensor, not empty.
NestedAbsmax NestAbsmax(std::span<const float> absmax);

// Values [first, first + out.size()) of the tensor. Any range will do; one that begins at an even
// value is fastest.
void DecodeNf4(const Nf4View& view, std::size_t first, std::span<float> out);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_QUANTIZED_NF4_H_
