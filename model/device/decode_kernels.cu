// A thread per group of 8 values.

#include <cuda_runtime.h>

#include <cstdint>

#include "common/half.h"
#include "model/device/decode_weights.h"

namespace shoal::model {
namespace {

constexpr unsigned kThreads = 256;

__device__ void Store(const float (&values)[kWeightGroup], int count, float* to) {
  if (count == kWeightGroup) {
    auto* wide = reinterpret_cast<float4*>(to);
    wide[0] = make_float4(values[0], values[1], values[2], values[3]);
    wide[1] = make_float4(values[4], values[5], values[6], values[7]);
    return;
  }
  for (int i = 0; i < count; ++i) to[i] = values[i];
}

__device__ void Store(const float (&values)[kWeightGroup], int count, std::uint16_t* to) {
  if (count == kWeightGroup) {
    std::uint32_t pairs[kWeightGroup / 2];
    for (int i = 0; i < kWeightGroup / 2; ++i) {
      pairs[i] = FloatToBf16(values[2 * i]) |
                 static_cast<std::uint32_t>(FloatToBf16(values[2 * i + 1])) << 16;
    }
    *reinterpret_cast<uint4*>(to) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    return;
  }
  for (int i = 0; i < count; ++i) to[i] = FloatToBf16(values[i]);
}

template <typename Codes, typename Out>
__global__ void __launch_bounds__(kThreads) DecodeGroups(Codes weight, Out* out) {
  const std::uint64_t group = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::uint64_t first = group * kWeightGroup;
  if (first >= weight.values) return;
  const int count = GroupSize(weight, first);
  float values[kWeightGroup] = {};
  DecodeGroup(weight, first, count, values);
  Store(values, count, out + first);
}

template <typename Codes>
void Launch(const Codes& weight, bool bf16, void* out, void* stream) {
  const std::uint64_t groups = (weight.values + kWeightGroup - 1) / kWeightGroup;
  const auto blocks = static_cast<unsigned>((groups + kThreads - 1) / kThreads);
  if (blocks == 0) return;
  auto* const on = static_cast<cudaStream_t>(stream);
  if (bf16) {
    DecodeGroups<<<blocks, kThreads, 0, on>>>(weight, static_cast<std::uint16_t*>(out));
  } else {
    DecodeGroups<<<blocks, kThreads, 0, on>>>(weight, static_cast<float*>(out));
  }
}

}  // namespace

void DecodeOnDevice(const Nf4Codes& weight, bool bf16, void* out, void* stream) {
  Launch(weight, bf16, out, stream);
}

void DecodeOnDevice(const Int8Codes& weight, bool bf16, void* out, void* stream) {
  Launch(weight, bf16, out, stream);
}

}  // namespace shoal::model
