// Codes of frozen weights (quantized/nf4.h, quantized/int8.h) as lanes of a GPU decode them, 8
// values at a time.
//
// Compiled by nvcc for the device and by the C++ compiler for tests, which compare it with the
// decoders of the CPU bit for bit: one rounding per operation (-fmad=false). Pointers are memory of
// the device. Pure.

#ifndef SHOAL_MODEL_DEVICE_DECODE_LANES_H_
#define SHOAL_MODEL_DEVICE_DECODE_LANES_H_

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define SHOAL_WEIGHT_LANE __host__ __device__ __forceinline__
#else
#define SHOAL_WEIGHT_LANE inline
#endif

namespace shoal::model {

inline constexpr int kWeightGroup = 8;  // values of a lane

// As Nf4View, whose checks were made.
struct Nf4Codes {
  std::uint64_t values = 0;
  const std::uint8_t* codes = nullptr;
  const float* absmax = nullptr;               // null: nested
  const std::uint8_t* absmax_codes = nullptr;  // nested
  const float* nested_absmax = nullptr;
  const float* nested_map = nullptr;
  float offset = 0;
  float quantiles[16] = {};  // kNf4Values
};

// As Int8View.
struct Int8Codes {
  std::uint64_t values = 0;
  std::uint64_t columns = 1;
  const std::int8_t* codes = nullptr;
  const float* absmax = nullptr;
};

// Values of the group that begins at `first`.
template <typename Codes>
SHOAL_WEIGHT_LANE int GroupSize(const Codes& weight, std::uint64_t first) {
  const std::uint64_t left = weight.values - first;
  return left < kWeightGroup ? static_cast<int>(left) : kWeightGroup;
}

// `first` is a multiple of 8: a group is within a block of 64.
SHOAL_WEIGHT_LANE void DecodeGroup(const Nf4Codes& weight, std::uint64_t first, int count,
                                   float (&out)[kWeightGroup]) {
  const std::uint64_t block = first / 64;
  float absmax;
  if (weight.absmax != nullptr) {
    absmax = weight.absmax[block];
  } else {
    const float scaled =
        weight.nested_map[weight.absmax_codes[block]] * weight.nested_absmax[block / 256];
    absmax = scaled + weight.offset;
  }
  for (int i = 0; i < count; i += 2) {
    const std::uint8_t pair = weight.codes[first / 2 + static_cast<std::uint64_t>(i / 2)];
    out[i] = weight.quantiles[pair >> 4] * absmax;
    out[i + 1] = weight.quantiles[pair & 15] * absmax;
  }
}

SHOAL_WEIGHT_LANE void DecodeGroup(const Int8Codes& weight, std::uint64_t first, int count,
                                   float (&out)[kWeightGroup]) {
  std::uint64_t row = first / weight.columns;
  std::uint64_t left = (row + 1) * weight.columns - first;  // of the row
  for (int i = 0; i < count; ++i, --left) {
    if (left == 0) {
      ++row;
      left = weight.columns;
    }
    // Two products, in this order, as on the CPU.
    const float scaled = static_cast<float>(weight.codes[first + static_cast<std::uint64_t>(i)]) *
                         weight.absmax[row];
    out[i] = scaled * (1 / 127.0F);
  }
}

}  // namespace shoal::model

#endif  // SHOAL_MODEL_DEVICE_DECODE_LANES_H_
