// DeviceCodes: a frozen weight of codes in the memory of a CUDA device, decoded there for each use.
//
// Internal to model/; throws what LibTorch throws. Thread: compute.

#ifndef SHOAL_MODEL_BLOCKS_DEVICE_CODES_H_
#define SHOAL_MODEL_BLOCKS_DEVICE_CODES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "model/quantized/stored_weight.h"

namespace shoal::model {

class DeviceCodes {
 public:
  virtual ~DeviceCodes() = default;
  virtual std::uint64_t bytes() const = 0;
  // fp32 or bf16, in the weight's shape.
  virtual at::Tensor Decode(at::ScalarType type) const = 0;
};

// Copies an int8 or nf4 weight to `device`. Null where that is the CPU.
std::unique_ptr<const DeviceCodes> NewDeviceCodes(const StoredWeight& weight,
                                                  const at::Device& device);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_DEVICE_CODES_H_
